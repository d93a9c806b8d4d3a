"""Figures, not tests: each module is run by name and prints what it measured. Nothing here asserts a time."""
