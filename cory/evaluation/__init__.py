"""Evaluates agents on held-out prompts: responses, debates, games, verifiers, diversity.

An evaluation can be interrupted and resumed.
"""
