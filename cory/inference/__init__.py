"""Agents of a finished run answer questions and debate, outside of training.

May import: algorithms, evaluation and everything below.
"""
