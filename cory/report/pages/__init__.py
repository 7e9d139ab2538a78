"""Pages, overviews and README's block, composed of tables, figures and verdicts, and written.

May import every other room of the report.
"""
