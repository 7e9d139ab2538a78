"""Runs untrusted programs and slow comparisons in child processes with limits."""
