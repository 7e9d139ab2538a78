"""What runs logged, for readers: the end of a run, comparisons, curves, and pages of results."""
