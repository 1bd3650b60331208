"""Changes in place: whose memory is written, and how the result is stored."""
