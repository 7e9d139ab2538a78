"""Imitation of the best debates: which are kept, and who learns from which turn."""

from __future__ import annotations

import pytest

from cory.algorithms.debate_sft import best
from cory.episode import Episode, Prompt, Turn
from tests.support.composing import ConfigOf
from tests.support.supervising import SFT, build_verifier


def debate(name: str, scores: list[float | None]) -> Episode:
    """Of one answer per score; None: the debate had ended before."""
    turns = [
        Turn("a", "debater_0", place, "", "x", [1], [] if score is None else [2], score=score)
        for place, score in enumerate(scores)
    ]
    return Episode(Prompt(name, name), turns)


@pytest.mark.parametrize(
    ("share", "kept"), [(0.2, "c"), (0.25, "ca"), (0.6, "cab"), (1.0, "cabed")]
)
def test_the_best_debates_by_hand(share: float, kept: str) -> None:
    """Means 0.5, 0.5 (its last answer never came), 0.75, 0 and 0.25."""
    episodes = [
        debate("a", [0.0, 1.0]),
        debate("b", [0.5, None]),
        debate("c", [0.5, 1.0]),
        debate("d", [0.0, 0.0]),
        debate("e", [0.5, 0.0]),
    ]
    assert "".join(episode.prompt.id for episode in best(episodes, share)) == kept


@pytest.mark.parametrize("sharing", ["per_turn", "per_turn_agent"])
def test_each_policy_learns_from_the_turns_that_it_is_to_speak(
    questions: ConfigOf, sharing: str
) -> None:
    config = questions(*SFT, f"algorithm.param_sharing={sharing}")
    trainer = build_verifier(config)
    collected = trainer.collect(0)
    assert len(collected.episodes) == 8
    assert {t.agent for episode in collected.episodes for t in episode.turns} == {"reference"}
    kept = best(collected.episodes, 0.5)
    names = {"per_turn": "turn_{1}", "per_turn_agent": "agent_{0}_turn_{1}"}[sharing]
    expected: dict[str, list[list[int]]] = {name: [] for name in trainer.agents}
    for episode in kept:
        for place, turn in enumerate(episode.turns):
            turn_number, agent = place // 2 + 1, place % 2
            if turn_number > 1:  # algorithm.train_turns=[2, 3]
                expected[names.format(agent, turn_number)].append(turn.response_ids)
    assert set(expected) == set(collected.examples)
    for name, examples in collected.examples.items():
        assert [example.response_ids for example in examples] == expected[name] != []
        assert {example.label for example in examples} == {1.0}
