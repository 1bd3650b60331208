"""Gradient events in their order, whose they are, and what `.grad` holds before each."""
