"""Comparing the traces of both sides."""
