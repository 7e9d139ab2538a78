"""The cost of a sweep before it starts: measured in finished runs, else estimated.

Imports records, and the estimates of `cory.memory`.
"""
