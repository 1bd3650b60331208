"""Objects around training, and statements that hide a step."""
