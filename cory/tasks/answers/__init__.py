"""Reads answers from texts: numbers, formulas, labels, multiple choice. Imports nothing of cory."""
