"""Trainers: PPO, supervised and offline. They never inherit from one another.

May import: evaluation and everything below.
"""
