"""Learning-rate schedules over a stage of training."""

import math


def share_of_peak(progress: float, schedule: str, warmup: float, final: float = 0.0) -> float:
    """The learning rate as a share of its highest value.

    progress: share of the stage that is over, in [0, 1]
    schedule: constant | linear | cosine, after the warm-up
    warmup: share of the stage in which the learning rate rises linearly from 0
    final: what the result falls to at the end of the stage, if it falls
    """
    if schedule not in ("constant", "linear", "cosine"):
        raise ValueError(f"unknown schedule '{schedule}'; choose constant, linear or cosine")
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "linear":
        left = (1 - progress) / (1 - warmup)
    else:
        left = 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
    return final + (1 - final) * left
