"""Carries out what analysis and planning decided. Nothing in here decides what a program means."""
