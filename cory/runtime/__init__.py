"""Starts, iterates and stops the processes of a run: launch -> torchrun -> worker -> loop.

May import everything but train.
"""
