"""What a run leaves on disk: its directory, records, checkpoints, exported agents; mirrors.

May import: config, distributed, episode, models.
"""
