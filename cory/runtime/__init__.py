"""Starts, iterates and stops the processes of a run: launch -> several -> worker -> loop.

May import everything but train.
"""
