"""The two processes of a verification: each runs a program, watches it, and records what it saw."""
