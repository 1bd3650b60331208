"""Loops over losses, optimizers and networks, written out."""
