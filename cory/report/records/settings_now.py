"""Archived runs whose settings are not those that conf/ has now.

Code is compared by commit (`gather.training_code`); conf/ is not, since an experiment that is added
or a changed word of help would then set all runs apart. What conf/ means to a run is its settings.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from cory.report.paper import Compose
from cory.report.records.archive import Archived
from cory.runs.stored_settings import comparable_settings, comparable_values
from cory.runs.sweeps.differences import short_value

# of a model or a reward: the processor decides, and no row mixes two
PRECISION = "compute_precision"
NONE = "nothing"  # stands for a key that one side lacks


def other_settings(runs: Iterable[Archived], compose: Compose) -> Iterator[str]:
    """One line for each run that would be another now: what it had, and what conf/ has."""
    for run in runs:
        had = comparable_values(run.settings)
        has = _now(compose, run.experiment, run.scale, run.seed)
        told = [
            f"{key} was {_told(had, key)}, conf/ has {_told(has, key)}"
            for key in sorted(had.keys() | has.keys())
            if not key.endswith(PRECISION) and had.get(key, NONE) != has.get(key, NONE)
        ]
        if told:
            yield f"`{run.name}`: {'; '.join(told)}"


@cache  # most runs are on several pages
def _now(compose: Compose, experiment: str, scale: str, seed: int) -> dict[str, Any]:
    """What conf/ has for this seed's run: paths of other runs follow the seed."""
    own = compose(experiment, scale).copy()
    own.seed = seed
    return comparable_settings(own)


def _told(settings: dict[str, Any], key: str) -> str:
    return short_value(settings[key]) if key in settings else NONE
