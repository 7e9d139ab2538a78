"""Sampling of responses: passes over working rows with a cache of keys and values.

May import: config.
"""
