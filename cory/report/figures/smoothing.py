"""The running mean of every picture of runs: centred, over whole windows."""

from collections.abc import Mapping

from cory.functional.statistics import mean

Series = Mapping[float, float]  # iteration -> value


def smoothed(series: Series, window: int) -> dict[float, float]:
    """The mean of every `window` values that follow each other, at the middle of their places.

    Centred, so that a curve which rises does not lag behind its values. Only whole windows: no end
    of the line is a mean of few values, and its last value is that of the last `window` iterations.
    """
    at, values = list(series), list(series.values())
    return {
        (at[end - window] + at[end - 1]) / 2: mean(values[end - window : end])
        for end in range(window, len(values) + 1)
    }
