"""Figures. Each is a function from numbers to a matplotlib Figure; `save` writes it."""
