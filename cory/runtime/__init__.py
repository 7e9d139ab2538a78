"""Starts, iterates and stops the processes of a run: launch -> processes -> worker -> loop."""
