"""Sampling of responses: passes over rows of tokens with a cache of keys and values.

May import: config.
"""
