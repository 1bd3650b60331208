"""One name for one thing."""
