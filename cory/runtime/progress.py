"""The progress bar: what it says of an iteration."""

import re
from collections.abc import Mapping

from cory.functional.statistics import mean

# kind of number that the bar shows -> the metrics that are of this kind, of each agent or turn
SHOWN = {
    "reward": r"objective/score/.+",
    "kl": r"objective/kl/.+",
    "combined": r"objective/combined/.+",
    "loss": r"(supervised|offline)/loss/.+|verifier/loss",
    "accuracy": r"verifier/accuracy",
    "accuracy by turn": r"debate/right/turn_\d+",
    "win rate": r"eval/win_rate/(?!itself).+",
}
MOST_VALUES = 3  # of a kind that are shown one by one


def progress(metrics: Mapping[str, float]) -> str:
    """What the bar says: of each kind in SHOWN its values, or the mean of more than three.

    metrics: the latest value of each metric
    """
    parts = []
    for kind, pattern in SHOWN.items():
        values = [value for name, value in metrics.items() if re.fullmatch(pattern, name)]
        if len(values) > MOST_VALUES:
            kind, values = f"mean {kind}", [mean(values)]
        if values:
            parts.append(" ".join([kind, *(f"{value:.2f}" for value in values)]))
    return " | ".join(parts)
