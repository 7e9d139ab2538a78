"""The archive of finished runs below docs/results/, and which of its runs a table counts.

May import claims/ and, outside the report, what a run leaves.
"""
