"""What runs logged, for readers: the end of a run, comparisons, curves, and pages of results.

May import config, functional and what a run leaves (runs); nothing that trains.
"""
