"""Whether a team is better than a single agent: the answer, what is compared, and its cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cory.report.compare import answer, main, worth_text
from tests.support.recorded_runs import record_run, score_line

ALONE, LAST = "eval/score/agent_0", "eval/score/observer"
PPO = {"name": "ppo"}
CORY = {"name": "cory", "agents": 2}


def recorded(
    run_dir: Path,
    algorithm: Mapping[str, Any],
    ends: Mapping[str, float],
    seed: int = 0,
    tokens: float = 50.0,
    steps: float = 4.0,
    prompts: int = 3,
) -> Path:
    """Twice `tokens` and a hundred more, in two iterations; of a single agent in three.

    steps: of all policies in all iterations; a team has two
    """
    of_a_step = dict.fromkeys(("ppo/steps/a", "ppo/steps/b"), steps / 4)
    lines = [{"rollout/tokens": number} | of_a_step for number in (tokens, tokens + 100)]
    if algorithm == PPO:
        lines = [{"rollout/tokens": number, "ppo/steps/a": steps / 3}
                 for number in (tokens, tokens, 100)]  # fmt: skip
    lines[-1] |= ends
    scores = [score_line(1, *range(prompts), metric=ALONE)]
    return record_run(run_dir, lines, scores, seed=seed, algorithm=dict(algorithm))


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        # 0.2 ± t(0.95, 2) 0.1 / sqrt(3), t = 2.920
        ([0.1, 0.2, 0.3], "the team is better by 0.200 (0.031 to 0.369)"),
        ([-0.1, -0.2, -0.3], "not better: the team is worse by 0.200 (0.031 to 0.369)"),
        # 0.1 ± 2.920 0.2 / sqrt(3); (1.708 + 0.842) 0.2 / sqrt(26) = 0.10001, of 27 it is 0.098
        ([-0.1, 0.1, 0.3],
         "undecided: difference +0.100 (-0.237 to +0.437); about 27 seeds would tell"),
        # (1.646 + 0.842) 1 / sqrt(1000) = 0.079 is above 0.07
        ([-0.93, 0.07, 1.07],
         "undecided: difference +0.070 (-1.616 to +1.756); more than 1000 seeds would tell"),
        ([0.0, 0.0], "not better: equal in each of 2 seeds"),
        ([0.5, 0.5], "undecided: difference +0.500, and nothing says how much seeds differ"),
        ([0.2], "undecided: difference +0.200, and nothing says how much seeds differ"),
    ],
)  # fmt: skip
def test_the_answer(differences: list[float], said: str) -> None:
    assert answer(pd.Series(differences)) == said


def test_seeds_are_paired_and_scores_are_those_of_the_end(tmp_path: Path) -> None:
    for seed, (team, single) in enumerate([(0.6, 0.5), (1.7, 1.5), (2.8, 2.5)]):
        recorded(
            tmp_path / f"t{seed}", CORY, {ALONE: 9.0, LAST: team, "eval/score/team": 9.0}, seed
        )
        recorded(tmp_path / f"s{seed}", PPO, {ALONE: single}, seed)
    recorded(tmp_path / "t7", CORY, {LAST: 9.0}, seed=7)  # without a partner
    first, second = worth_text(sorted(tmp_path.iterdir())).splitlines()
    assert first == "the team is better by 0.200 (0.031 to 0.369)"
    assert second == (
        f"({LAST} of the team, 1.700, less {ALONE} of the single agent, 1.500; seeds: 3; the team "
        f"had 1.000 of its tokens sampled and 1.000 of its optimiser steps)"
    )


@pytest.mark.parametrize(
    ("cost", "share"),
    [
        # of 200 tokens: 2 x 54 + 100, 2 x 56 + 100, 2 x 46 + 100, 2 x 44 + 100; of 4 steps
        ({"tokens": 54.0}, "1.040 of its tokens sampled and 1.000"),
        ({"tokens": 56.0}, "1.060 of its tokens sampled and 1.000"),
        ({"tokens": 46.0}, "0.960 of its tokens sampled and 1.000"),
        ({"tokens": 44.0}, "0.940 of its tokens sampled and 1.000"),
        ({"steps": 8.0}, "1.000 of its tokens sampled and 2.000"),
        ({"steps": 2.0}, "1.000 of its tokens sampled and 0.500"),
    ],
)
def test_no_answer_at_unequal_cost(tmp_path: Path, cost: dict[str, float], share: str) -> None:
    for seed, gain in enumerate((0.1, 0.2, 0.3)):
        recorded(tmp_path / f"t{seed}", CORY, {LAST: gain}, seed, **cost)  # type: ignore[arg-type]
        recorded(tmp_path / f"s{seed}", PPO, {ALONE: 0.0}, seed)
    said = worth_text([*tmp_path.iterdir()])
    answered = {54.0, 46.0} & {*cost.values()}
    begins = (
        "the team is better by" if answered else "not at equal cost, so not answered: difference"
    )
    assert said.startswith(begins) and share in said and "0.200" in said


@pytest.mark.parametrize(
    ("algorithm", "team", "single", "compared"),
    [
        (CORY, ["eval/score/observer_2", "eval/score/observer_10", "eval/vote/team"], [ALONE],
         ("eval/score/observer_10", ALONE)),
        ({"name": "maporl", "agents": 3}, ["eval/vote/turn_2", "eval/vote/turn_10", ALONE],
         [ALONE, "eval/pass_at_1/agent_0"], ("eval/vote/turn_10", "eval/pass_at_1/agent_0")),
        ({"name": "maporl", "agents": 3}, ["eval/vote/turn_3"],
         ["eval/pass_at_1/turn_3", "eval/vote/turn_1"], ("eval/vote/turn_3", "eval/vote/turn_1")),
        ({"name": "team", "agents": ["a", "b"]}, ["eval/score/a", "eval/score/team"],
         ["eval/score/team"], ("eval/score/team", "eval/score/team")),
    ],
)  # fmt: skip
def test_what_is_the_final_answer(
    tmp_path: Path,
    algorithm: dict[str, Any],
    team: list[str],
    single: list[str],
    compared: tuple[str, str],
) -> None:
    alone = {"name": "team", "agents": ["a"]} if algorithm["name"] == "team" else PPO
    runs = [
        recorded(tmp_path / "team", algorithm, dict.fromkeys(team, 0.1)),
        recorded(tmp_path / "single", alone, dict.fromkeys(single, 0.1)),
    ]
    for given in (runs, runs[::-1]):
        assert "({} of the team, 0.100, less {} of".format(*compared) in worth_text(given)


def test_what_keeps_it_from_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    team = recorded(tmp_path / "team", CORY, {LAST: 0.4, "eval/score/agent_1": 0.3})
    single = recorded(tmp_path / "single", PPO, {ALONE: 0.1})
    assert worth_text([team]) == worth_text([single]) == ""
    third = recorded(tmp_path / "third", {"name": "cory", "agents": 3}, {LAST: 0.4})
    assert worth_text([team, single, third]) == ""

    def reason(other: Path, *scores: str) -> str:
        return worth_text([team, other], scores).removeprefix(
            "whether the team is worth it is not known: "
        )

    apart = recorded(tmp_path / "apart", PPO, {ALONE: 0.1}, seed=1)
    assert reason(apart) == "the team and the single agent have no seed in common"
    fewer = recorded(tmp_path / "fewer", PPO, {ALONE: 0.1}, prompts=2)
    assert reason(fewer) == "the runs were evaluated on different prompts"
    blind = recorded(tmp_path / "blind", PPO, {ALONE: 0.1}, tokens=-50.0, steps=0.0)
    assert reason(blind) == "not every run has logged optimiser steps, tokens sampled"
    assert reason(single, "eval/x") == "not every run has logged eval/x"
    unasked = recorded(tmp_path / "unasked", PPO, {})
    assert reason(unasked).startswith("final answers were not measured: evaluation.team=true")
    ends = {"eval/vote/turn_2": 0.1, "eval/score/team": 0.1}
    debate = recorded(tmp_path / "debate", {"name": "maporl", "agents": 3}, ends)
    assert "final answers were not measured" in worth_text([debate, single])
    with pytest.raises(ValueError, match="--worth: 2 groups of teams, 1 of one agent"):
        worth_text([team, single, third], ["eval/x"])
    words = ["cory-compare", str(team), str(single), "--worth", f"eval/score/agent_1,{ALONE}"]
    monkeypatch.setattr(sys, "argv", words)
    main()
    out = capsys.readouterr().out
    assert "undecided: difference +0.200" in out and "(eval/score/agent_1 of the team" in out
