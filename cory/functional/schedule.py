"""Learning-rate schedules over a stage of training."""

import math


def share_of_peak(progress: float, schedule: str, warmup: float) -> float:
    """The learning rate as a share of its highest value.

    progress: share of the stage that is over, in [0, 1]
    schedule: constant | cosine, after the warm-up
    warmup: share of the stage in which the learning rate rises linearly from 0
    """
    if schedule not in ("constant", "cosine"):
        raise ValueError(f"unknown schedule '{schedule}'; choose constant or cosine")
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
