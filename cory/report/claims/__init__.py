"""Statements about metrics of runs: templates that write them, and the judge of their truth.

Imports nothing of the project.
"""
