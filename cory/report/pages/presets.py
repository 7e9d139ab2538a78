"""A printed table of settings beside the values in conf/, computed from what Hydra composes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from cory.report.paper import Compose


@dataclass(frozen=True)
class Compared:
    """One printed value."""

    setting: str  # as the paper calls it
    column: str
    printed: Any
    keys: list[str]  # in conf/; none where the paper's setting has no counterpart
    ours: list[Any]  # their values
    same: bool | None  # None without a counterpart
    note: str


def compare(entry: Mapping[str, Any], compose: Compose) -> list[Compared]:
    """Every printed value of a table beside ours, row by row.

    entry: of conf/paper/: `rows` are the columns that the paper prints (label, experiment),
        `settings` its rows. Of one: `printed` as in the paper; `keys` in conf/; `means`: the value
        of the keys that says the same, where it is not the printed one; `times`: another row whose
        printed value multiplies this one
    """
    composed = [compose(row["experiment"], "paper") for row in entry["rows"]]
    by_name = {row["setting"]: row["printed"] for row in entry["settings"]}
    found = []
    for row in entry["settings"]:
        for place, column in enumerate(entry["rows"]):
            expected = row.get("means", row["printed"])[place]
            if "times" in row:
                expected *= by_name[row["times"]][place]
            keys = list(row.get("keys", []))
            ours = [OmegaConf.select(composed[place], key) for key in keys]
            same = all(_equal(value, expected) for value in ours) if keys else None
            found.append(
                Compared(
                    row["setting"],
                    column["label"],
                    row["printed"][place],
                    keys,
                    ours,
                    same,
                    str(row.get("note", "")),
                )
            )
    return found


def differing(entry: Mapping[str, Any], compose: Compose) -> Iterator[str]:
    """The values that are not as printed, one line each."""
    for one in compare(entry, compose):
        if one.same is False:
            ours = ", ".join(f"{k}={v}" for k, v in zip(one.keys, one.ours, strict=True))
            yield f"{one.setting}, {one.column}: printed {one.printed}, {ours}"


def _equal(ours: Any, expected: Any) -> bool:
    """The same value of the same kind: 0 is not false, 4 is 4.0."""
    if isinstance(ours, bool) or isinstance(expected, bool):
        return ours is expected
    return bool(ours == expected)
