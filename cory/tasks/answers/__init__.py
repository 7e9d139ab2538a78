"""Reads answers from texts: numbers, formulas, labels, multiple choice, words.

May import: config.
"""
