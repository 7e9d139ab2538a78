"""The check of a GPU: every way of running, on random models, beside the CPU's numbers."""
