"""Reads answers from texts: numbers, formulas, labels, multiple choice, words.

Imports nothing of cory.
"""
