"""Copies of a run's records for W&B, TensorBoard and trackio; nothing is ever read back from there.

Only `wandb_mirror` imports wandb, only `tensorboard` the writer of torch, only `trackio_mirror`
trackio.
"""
