"""Read-only answers about a program: names, kinds, data flow. Nothing in here edits."""
