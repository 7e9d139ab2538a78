"""Runs that belong together: what tells them apart, and the number by which a sweeper judges one.

May import: config, and the parts of `cory.runs` that read a run directory.
"""
