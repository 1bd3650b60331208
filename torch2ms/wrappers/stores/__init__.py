"""Statements that store gradients, each of them one that does so and no more."""
