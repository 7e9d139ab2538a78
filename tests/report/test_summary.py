"""The end of a run: numbers of the table of before and after, what is said of them, hints."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cory.functional.statistics import mean_interval
from cory.report.runs import end_values, read_metrics, title
from cory.report.summary import before_after, episodes, held_out_pair, hints, sentence, show_summary
from tests.support.recorded_runs import record_run, score_line

SCORE, KL, COMBINED = (f"{n}/agent_0" for n in ("eval/score", "objective/kl", "objective/combined"))
PROMPTS = 24


def trained(run_dir: Path, gains: list[float], more: dict[str, Any] | None = None) -> Path:
    """Twelve iterations; prompt number n scores n before the training, and its gain more after."""
    lines: list[dict[str, Any]] = [
        {KL: 0.1 * n, COMBINED: float(n), "rollout/truncated_share/agent_0": 0.9, **(more or {})}
        for n in range(12)
    ]
    before = [float(number) for number in range(len(gains))]
    after = [old + gain for old, gain in zip(before, gains, strict=True)]
    lines[0]["before/score/agent_0"] = sum(before) / len(gains)
    lines[-1][SCORE] = sum(after) / len(gains)
    scores = [score_line(n, *own, metric=SCORE) for n, own in ((-1, before), (11, after))]
    return record_run(run_dir, lines, scores)


def test_metrics_begin_with_the_evaluation_before_the_training(tmp_path: Path) -> None:
    frame = read_metrics(trained(tmp_path / "run", [1.0] * PROMPTS))
    assert list(frame.index) == list(range(13)) and not any("before" in name for name in frame)
    assert frame[SCORE].dropna().to_dict() == {0: 11.5, 12: 12.5}
    ends = end_values(frame)
    assert ends[SCORE] == 12.5 and ends[COMBINED] == sum(range(2, 12)) / 10
    # fewer values than ten: all of them; of an evaluation the last one
    short = pd.DataFrame({"game/turns": [1.0, math.nan, 3.0], "eval/vote/turn_1": [9.0, 5.0, None]})
    assert end_values(short).to_dict() == {"game/turns": 2.0, "eval/vote/turn_1": 5.0}


def test_changes_are_taken_prompt_by_prompt(tmp_path: Path) -> None:
    gains = [0.5, 1.0, 1.5] * 8
    table = before_after(trained(tmp_path / "run", gains))
    assert list(table.index) == [SCORE, KL, COMBINED]
    row = table.loc[SCORE]
    assert (row["before"], row["after"], row["change"]) == (11.5, 12.5, 1.0)
    assert (row["low"], row["high"]) == pytest.approx(mean_interval(gains))
    assert row["prompts"] == PROMPTS
    # of the training: the first iteration, and the mean of the last ten; no interval
    row = table.loc[KL]
    assert (row["before"], row["after"]) == pytest.approx((0.0, 0.65))
    assert math.isnan(row["low"]) and math.isnan(row["prompts"])


def test_nothing_is_told_of_few_prompts(tmp_path: Path) -> None:
    for number, (gains, said) in enumerate(
        (
            ([0.9, 1.1] * 10, "Held-out reward, agent 0: rose by 1.000. (90 % intervals"),
            ([-0.9, -1.1] * 10, "Held-out reward, agent 0: fell by 1.000. ("),
            ([-2.0, 2.2] * 10, "Held-out reward, agent 0: undecided (+0.100). ("),
            ([0.9, 1.0] * 9 + [1.1], "Undecided: of fewer than 20 held-out prompts"),
        )
    ):
        table = before_after(trained(tmp_path / str(number), gains))
        assert sentence(table).startswith(said)


def test_values_are_shares_where_both_evaluations_say_so(tmp_path: Path) -> None:
    """All 1 at the end, by chance: a change of 1.9 is no share's. With no before: shares, too."""
    lines = [{"before/score/agent_0": -0.9}, {SCORE: 1.0}]
    before, after = [-1.0] * 19 + [1.0], [1.0] * 20
    first, last = (score_line(n, *own, metric=SCORE) for n, own in ((-1, before), (1, after)))
    last["shares"] = {SCORE: 1}
    row = before_after(record_run(tmp_path / "run", lines, [first, last])).loc[SCORE]
    assert row["low"] < 1.9 < row["high"]
    row = before_after(record_run(tmp_path / "alone", lines[1:], [last])).loc[SCORE]
    assert 0.8 < row["low"] < row["high"] == 1.0


def said(run_dir: Path, **more: Any) -> list[str]:
    """The settings, or what else the hints begin with."""
    table, frame = before_after(run_dir), read_metrics(run_dir)
    return [
        hint.partition(":")[0].partition("=")[0] for hint in hints(table, frame, prompts=24, **more)
    ]


def test_hints(tmp_path: Path) -> None:
    numbers = iter(range(99))

    def of(**more: float) -> list[str]:
        metrics = {f"{name.replace('__', '/')}/agent_0": value for name, value in more.items()}
        run_dir = trained(tmp_path / str(next(numbers)), [0.9, 1.1] * 12, metrics)
        return said(run_dir, one_seed=False)

    assert of() == []  # cut off, but no answers to questions
    assert of(objective__score_std=0.0) == ["reward"]
    assert of(objective__score_std=0.1) == []
    assert of(rollout__truncated_share=0.6, eval__pass_at_1=0.5) == [
        "algorithm.sampling.max_response_tokens"
    ]
    assert of(rollout__truncated_share=0.4, eval__pass_at_1=0.5) == []
    assert of(rollout__equal_groups=0.9) == ["algorithm.samples_per_prompt"]
    assert of(rollout__equal_groups=0.5) == []
    run_dir = trained(tmp_path / "seeds", [0.9, 1.1] * 12)
    assert said(run_dir, one_seed=True) == ["seed"]
    norms = [{"ppo/gradient_norm/agent_0": 0.4} for _ in range(12)]
    for largest, expected in ((41.0, ["algorithm.max_grad_norm"]), (39.0, [])):
        norms[3]["ppo/gradient_norm/agent_0"] = largest  # of a median of 0.4
        run_dir = record_run(tmp_path / str(largest), norms)
        assert said(run_dir, one_seed=False) == expected
        assert not said(run_dir, one_seed=False, clipped=True)
    undecided = before_after(trained(tmp_path / "few", [-1.5, 2.5] * 12))
    (hint,) = hints(undecided, pd.DataFrame(), one_seed=False, prompts=24)
    for more in (128, None):  # all that there are have been asked
        assert not hints(undecided, pd.DataFrame(), one_seed=False, prompts=more)
    assert hint.startswith("evaluation.prompts: beside the interval over 24 prompts")
    assert hint.endswith("96 would halve it")
    few = before_after(trained(tmp_path / "fewer", [0.9, 1.1] * 9))  # too few to say that it rose
    (hint,) = hints(few, pd.DataFrame(), one_seed=False, prompts=18)
    assert hint.endswith("72 would halve it")
    (hint,) = hints(few, pd.DataFrame(), one_seed=False, prompts=None)  # all that there are
    assert hint == "task.held_out_share: 18 held-out prompts tell nothing; 20 may do"


def test_the_end_of_a_run_is_printed_and_drawn(tmp_path: Path, capsys) -> None:
    run_dir = trained(tmp_path / "run", [0.9, 1.1] * 12)
    turn = {"agent": "agent_1", "role": "pioneer", "round": 0, "response": "one", "score": 0.5}
    other = {**turn, "agent": "agent_0", "role": "observer", "response": None, "score": None}
    line = {"kind": "training", "iteration": 11, "prompt": "say", "turns": [turn, other]}
    thinks = {**line, "turns": [{**turn, "response": "", "thinking": "hm"}]}
    assert episodes([thinks]).endswith("agent_1 (pioneer): (thinking alone)  [+0.50]")
    assert episodes([line]).splitlines() == [
        "iteration 12: say",
        "  agent_1 (pioneer): one  [+0.50]",
        "  agent_0 (observer): (absent)",
    ]
    # a held-out prompt before and after, of the team if it is there; of the last evaluation
    asked = [
        {**line, "iteration": at, "kind": kind, "who": who, "prompt_id": name, "sample": 0}
        | {"prompt": f"{name}?", "turns": [{**turn, "response": f"{kind} {at}"}]}
        for at, kind in ((-1, "before"), (5, "evaluation"), (11, "evaluation"))
        for who in ("agent_1", "team")
        for name in ("a", "b")
    ]
    assert episodes([*asked, line]).splitlines()[3:] == [
        "held out, before: a?",
        "  agent_1 (pioneer): before -1  [+0.50]",
        "held out, after: a?",
        "  agent_1 (pioneer): evaluation 11  [+0.50]",
    ]
    assert held_out_pair([*asked[:2], *asked[-4:]])[1]["who"] == "agent_1"
    assert held_out_pair(asked)[1]["who"] == "team" and not held_out_pair(asked[4:])
    show_summary(run_dir)
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith(title(SCORE)))
    assert row.split()[-7:] == ["11.500", "12.500", "+1.000", "+0.964", "to", "+1.036", "24"]
    assert "What next:\n- seed: this is one run" in out
    norms = [{"ppo/gradient_norm/agent_0": 0.4 if n else 9e3, COMBINED: 0.0} for n in range(12)]
    for value, shown in ((None, True), (1.0, False)):
        run_dir = record_run(tmp_path / str(value), norms, algorithm={"max_grad_norm": value})
        show_summary(run_dir)
        hint = "algorithm.max_grad_norm: the norm of agent_0's gradient was once 9,000, and 0.4 as"
        assert (hint in capsys.readouterr().out) == shown
    assert (run_dir / "curves.png").stat().st_size > 10_000


def test_of_debates_the_votes_are_shown(tmp_path: Path, capsys) -> None:
    names = ("vote/turn_1", "right/turn_1", "score/turn_1", "pass_at_1/turn_1", "flow_wr/turn_2")
    line = {f"{family}/{name}": 0.5 for family in ("before", "eval") for name in names}
    run_dir = record_run(tmp_path / "run", [{**line, "supervised/loss/turn_1": 1.0}])
    expected = ["eval/vote/turn_1", "eval/right/turn_1", "supervised/loss/turn_1"]
    table = before_after(run_dir)
    assert list(table.index) == expected
    # of a training of one iteration there is nothing to compare with
    assert math.isnan(table.loc[expected[2], "before"]) and table.loc[expected[2], "after"] == 1.0
    assert table.loc[expected[0], "before"] == 0.5
    show_summary(run_dir)
    out = capsys.readouterr().out
    assert "(of the training: its one iteration)" in out and "\n1 iteration in " in out
    assert re.search(r"^loss \(nats per token\), turn 1 +1.000 *$", out, re.M)
    # a reward that is 1 for a right answer is not shown beside the accuracy
    line = {f"eval/{name}/agent_0": 0.3 for name in ("score", "pass_at_1", "greedy")}
    line["eval/score/agent_0"] = 0.30000001192092896  # a mean of float32
    run_dir = record_run(tmp_path / "other", [line])
    assert list(before_after(run_dir).index) == ["eval/pass_at_1/agent_0", "eval/greedy/agent_0"]


@pytest.mark.parametrize("before", [True, False])
def test_changed_teams_are_compared_with_the_team_prompt_by_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: bool
) -> None:
    """The sender's row is not that of the team's own before and after; equal rows are left out."""
    ends = {"score": [1.0, 0.9] * 12, "muted_a/score": [0.1, 0.2] * 12, "swapped/score": [0.5] * 24}
    ends |= {"untrained_a/score": [0.3] * 24, "untrained_b/score": [0.4] * 24}
    line = score_line(1, 0.0, metric="x") | {"prompts": [str(n) for n in range(24)]}
    line["values"] = {
        f"eval/{name}/{who}": own for name, own in ends.items() for who in ("team", "a")
    }
    line["values"]["eval/muted_a/score/a"] = [0.0] * 24
    line["values"]["eval/muted_a/score/late"] = [0.0] * 24  # a role that the team itself has not
    first = {**line, "iteration": -1, "values": {name: [0.05] * 24 for name in line["values"]}}
    means = {name: sum(own) / 24 for name, own in line["values"].items()}
    start = {"before" + name[4:]: 0.05 for name in means} if before else {}
    run_dir = record_run(tmp_path / "run", [start, means], [first, line] if before else [line])
    table = before_after(run_dir)
    assert "eval/muted_a/score/a" in table.index and "eval/swapped/score/a" not in table.index
    assert table.loc["eval/muted_a/score/late"][["before", "change", "low"]].isna().all()
    row = table.loc["eval/muted_a/score/team"]
    assert tuple(row[["before", "after", "change"]]) == pytest.approx((0.95, 0.15, -0.8))
    assert (row["low"], row["high"]) == pytest.approx(mean_interval([-0.9, -0.7] * 12))
    show_summary(run_dir)
    out = capsys.readouterr().out
    *_, last = out.splitlines()
    assert ("; without a before, the interval is that of after)" in out) is not before
    scores = "before 0.05, after 0.95" if before else "0.95"
    parts = f"{scores}, muted 0.15, swapped 0.50, untrained a 0.30, untrained b 0.40"
    assert last == f"team score: {parts}"
    assert title("eval/muted_agent_0/score/team") == "held-out reward, team; muted agent 0"
