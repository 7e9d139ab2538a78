"""The runs of one command: which jobs a sweep has, how far it is, and what it says at both ends.

May import what `cory.runtime` may; the parts of that package that start runs import these.
"""
