"""The statements that a gradient call differentiates."""
