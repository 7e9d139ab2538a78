"""What the small lines above a figure say of how much is behind its numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cory.report.kinds import _sizes


def sizes(*settings: dict[str, Any], kind: str = "turns", **test_problems: int) -> str:
    """The note of a table with a run of each of these settings, all of one experiment."""
    runs = [SimpleNamespace(settings=own) for own in settings]
    found = SimpleNamespace(runs=runs, counted={"x": dict(enumerate(runs))})
    about = {"test_problems": test_problems} if test_problems else {}
    table = SimpleNamespace(averages=False, kind=kind, about=about)
    return _sizes(table, found)  # type: ignore[arg-type]


def settings(prompts: int | None, samples: int = 1, **task: Any) -> dict[str, Any]:
    return {
        "evaluation": {"prompts": prompts, "samples": samples},
        "task": {"name": "gsm8k", **task},
    }


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (settings(200), "n = 1 seed; 200 held-out prompts."),
        (settings(200, samples=4), "n = 1 seed; 200 held-out prompts, 4 responses each."),
        (settings(None, test_problems=500), "n = 1 seed; 500 held-out prompts."),
        (settings(None, pick_test=100), "n = 1 seed; 100 held-out prompts."),
        (settings(None, samples=4, pick_test=None, test_problems=None), "n = 1 seed."),
    ],
)
def test_the_prompts_of_an_evaluation_are_said_where_their_number_is_known(
    own: dict[str, Any], said: str
) -> None:
    assert sizes(own) == said


def test_a_whole_split_has_the_size_that_the_papers_file_names() -> None:
    assert sizes(settings(None), gsm8k=1319) == "n = 1 seed; 1319 held-out prompts."
    games = sizes(settings(None, samples=2), kind="matches", gsm8k=168)
    assert games == "n = 1 seed; 168 words, 2 games each."


def test_several_runs_have_a_span_of_prompts_unless_one_is_unknown() -> None:
    both = settings(200), settings(100)
    assert sizes(*both) == "n = 2 seeds; 100 to 200 held-out prompts."
    assert sizes(*both, settings(None)) == "n = 3 seeds."
