"""What an evaluation says about debates, by hand."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pytest

from cory.episode import Episode, Prompt, Turn
from cory.evaluation.debates import debate_metrics, roll_out_metrics
from cory.evaluation.responses import MEASURED, TEAM, EvalRequest, PromptScores, ResponseSet
from cory.functional.votes import VoteRule
from tests.evaluation.test_evaluate import settings

REQUEST = EvalRequest(
    settings(prompts=2, samples=1, k=[1], greedy=False, probes=[]),
    *(0, 0, True),
    scores=PromptScores(["0", "1"]),
)


class Letters:
    """Answers are the first letter; '?' cannot be read."""

    def read(self, response: str) -> Hashable | None:
        return None if response.startswith("?") else response[:1]


def response_set(*debates: list[str | None], samples: int | None = 1) -> ResponseSet:
    """Debates of three agents over two turns about questions whose answer is a."""
    prompts = [Prompt(str(n), "?", "a") for n in range(2)]
    lines: list[dict[str, Any]] = [
        {
            "turns": [
                {"response": text, "score": None if text is None else float(text[0] == "a")}
                for text in debate
            ]
        }
        for debate in debates
    ]
    return ResponseSet(TEAM, MEASURED, prompts, samples, lines=lines)


def metrics_of(responses: ResponseSet, ties: str = "expected") -> dict[str, float]:
    task: Any = Letters()
    return debate_metrics(3, VoteRule(ties, "counted"), task, responses, REQUEST)


ONE = ["a", "b", "c", "a", "a", "c"]
TWO = ["b", "b", "?", "b", "a", "?"]


def test_votes_and_single_answers_by_turn() -> None:
    found = metrics_of(response_set(ONE, TWO))
    # three different answers: one in three; then two of three. Wrong, then a tie of a and b
    assert found["eval/vote/turn_1"] == pytest.approx((1 / 3 + 0) / 2)
    assert found["eval/vote/turn_2"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["eval/right/turn_1"] == pytest.approx(1 / 6)
    assert found["eval/right/turn_2"] == pytest.approx(3 / 6)
    assert found["eval/score/team"] == pytest.approx(4 / 12)
    each = REQUEST.scores
    assert each.values["eval/vote/turn_1"] == pytest.approx([1 / 3, 0])
    assert each.values["eval/vote/turn_2"] == [1.0, 0.5]
    assert each.values["eval/right/turn_2"] == pytest.approx([2 / 3, 1 / 3])
    assert each.shares == dict.fromkeys({*each.values} - {"eval/score/team"}, 1)


def test_changes_by_turn_and_over_all_turns() -> None:
    found = metrics_of(response_set(ONE, TWO))
    flows = {"rr": 1, "rw": 0, "wr": 2, "ww": 3}
    for name, count in flows.items():
        assert found[f"eval/flow_{name}/turn_2"] == pytest.approx(count / 6)
        assert found[f"eval/flow_{name}/team"] == pytest.approx(count / 6)
    # wrong beside two wrong ones: the three of the second debate, of whom one turned right
    assert found["eval/revision_wr_w/team"] == pytest.approx(1 / 3)
    # right beside two wrong ones: the first of the first debate, who stayed right
    assert found["eval/revision_rw_w/turn_2"] == 0.0
    assert "eval/revision_wr_r/turn_2" not in found  # nobody was wrong beside a right majority
    assert "eval/flow_rr/turn_1" not in found


def test_ties_as_asked() -> None:
    assert metrics_of(response_set(ONE, TWO), "lexicographic")["eval/vote/turn_2"] == 1.0
    random = metrics_of(response_set(ONE, TWO), "random")["eval/vote/turn_2"]
    assert random in (0.5, 1.0)
    # the same each time
    assert metrics_of(response_set(ONE, TWO), "random")["eval/vote/turn_2"] == random


def test_a_debate_that_ended_keeps_its_last_answers() -> None:
    ended: list[str | None] = ["a", "a", "a", None, None, None]
    found = metrics_of(response_set(ended, TWO))
    assert found["eval/vote/turn_2"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["eval/flow_rr/turn_2"] == pytest.approx(3 / 6)
    # what was never said has no score
    assert found["eval/score/team"] == pytest.approx(4 / 9)


def test_several_samples_are_averaged_per_prompt() -> None:
    found = metrics_of(response_set(ONE, TWO, ["a"] * 6, ["b"] * 6, samples=2))
    assert found["eval/vote/turn_1"] == pytest.approx(((1 / 3 + 1) / 2 + (0 + 0) / 2) / 2)


def test_greedy_debates_have_names_of_their_own() -> None:
    found = metrics_of(response_set(ONE, TWO, samples=None))
    assert found["eval/greedy_vote/turn_2"] == pytest.approx(0.75)
    assert found["eval/greedy_right/turn_2"] == pytest.approx(0.5)
    names = {name.split("/")[1] for name in found}
    assert names == {"greedy_vote", "greedy_right"}


def test_a_roll_out_by_turn() -> None:
    def turn(**more: Any) -> Turn:
        return replace(Turn("p", "d", 0, "", "x", [1], [1], score=1.0), **more)

    absent = replace(turn(), response_ids=[])
    whole = [turn(right=True, bonus=2.0), turn(right=False), turn(right=True, flawed=True), turn()]
    over = [turn(right=True), turn(right=True), absent, absent]
    prompt = Prompt("0", "?", "a")
    assert roll_out_metrics([Episode(prompt, whole), Episode(prompt, over)], 2) == {
        "debate/right/turn_1": pytest.approx(3 / 4),
        "debate/bonus/turn_1": pytest.approx(2 / 4),
        "debate/penalised/turn_1": 0.0,
        "debate/right/turn_2": pytest.approx(1 / 2),
        "debate/bonus/turn_2": 0.0,
        "debate/penalised/turn_2": pytest.approx(1 / 2),
        "debate/ended_early": 0.5,
        "debate/shortened": 0.0,
    }
