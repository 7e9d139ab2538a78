"""Where prompts come from: files and hub data sets, subsets of them, and the order of epochs.

May import: config, distributed, episode.
"""
