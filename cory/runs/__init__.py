"""What a run leaves on disk: its directory, records, checkpoints, exported agents, provenance.

Rooms: mirrors/ (W&B, TensorBoard, trackio), sweeps/ (runs that belong together).
May import: config, distributed, episode, models.
"""
