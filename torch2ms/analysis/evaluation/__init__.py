"""Abstract evaluation: what expressions, statements and calls make of values."""
