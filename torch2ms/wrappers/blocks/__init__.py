"""Blocks of a gradient mode or a precision, and branches around them."""
