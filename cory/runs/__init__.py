"""What a run leaves on disk: its directory, records, checkpoints, exported agents, provenance.

Only `wandb_mirror` imports wandb. May import: config, distributed, episode, models.
"""
