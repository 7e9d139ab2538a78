"""Statements about metrics of runs: templates that write them, and the judge of their truth.

May import, outside the report, functional alone.
"""
