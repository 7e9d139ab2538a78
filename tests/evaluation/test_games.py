"""Held-out games: win rates, their errors, who plays whom, and going on after a kill."""

from pathlib import Path
from typing import Any

import pytest

from cory.episode import Prompt
from cory.evaluation.games import Match, game_metrics, win_scores
from cory.evaluation.responses import PromptScores
from cory.runs.files import Line
from tests.support.building import measure
from tests.support.composing import ConfigOf
from tests.support.playing import build_games

ROLES = ("attacker", "defender")


def line(winners: str, valid: bool = True, **more: Any) -> Line:
    """A game by the first letters of who won; the policy is the attacker, in two turns."""
    turns = [
        {"agent": "agent_0", "role": "attacker", "response": "x", "tokens": 3},
        {"agent": "im", "role": "defender", "response": "", "tokens": 9},
        {"agent": "agent_0", "role": "attacker", "response": "", "tokens": 1},
    ]
    names = [role for role in ROLES if role[0] in winners]
    return {"who": "agent_0", "winners": names, "valid": valid, "turns": turns, **more}


def match(role: str | None, words: int, games: list[Line], opponent: str = "im") -> Match:
    prompts = [Prompt(f"w{n}", "word", None) for n in range(words)]
    return Match("agent_0", "evaluation", prompts, 1, opponent, "x", role, lines=games)


def scores(words: int) -> PromptScores:
    return PromptScores([f"w{n}" for n in range(words)])


def test_win_rate_by_hand() -> None:
    """Two wins, a loss, a tie and a game in which the rules were broken: 2.5 of 4."""
    games = [line("a"), line("a"), line("d"), line(""), line("", valid=False)]
    scores = win_scores(games, "attacker")
    assert scores == [1, 1, 0, 0.5] and win_scores(games, "defender") == [0, 0, 1, 0.5]


def test_both_roles_count_alike() -> None:
    """As attacker 2.5 of 4, as defender 0 of 2; of each word one game in each role."""
    attacking = [line("a"), line("a"), line("d"), line(""), line("", valid=False)]
    defending = [line("a"), line("a"), *[line("", valid=False)] * 3]
    matches = [match("attacker", 5, attacking), match("defender", 5, defending)]
    found = game_metrics(matches, ROLES, words := scores(5))
    assert found["eval/win_rate_attacker/im"] == 0.625
    assert found["eval/win_rate_defender/im"] == 0
    assert found["eval/win_rate/im"] == 0.3125
    assert found["eval/wins_attacker/im"] == 0.5 and found["eval/wins_defender/im"] == 0
    # 0.625 + (score - 0.625 for a game that counts) * 5 / 4
    each = [1.09375, 1.09375, -0.15625, 0.46875, 0.625]
    assert words.values["eval/win_rate_attacker/im"] == pytest.approx(each)
    assert words.values["eval/win_rate/im"] == pytest.approx([one / 2 for one in each])
    assert found["eval/invalid/im"] == pytest.approx(4 / 10)
    assert found["eval/ties/im"] == pytest.approx(1 / 6)
    assert found["eval/solved/im"] == 0
    assert found["eval/game_turns/im"] == 2
    # of the policy's own utterances: 3 and 1 tokens, the second one empty
    assert found["eval/utterance_tokens/im"] == 2


def test_games_about_one_word_are_not_independent() -> None:
    """Two games about each of two words, the first word always won: two outcomes, not four."""
    games = [line("a"), line("d"), line("a"), line("d")]
    matches = [match(role, 2, games) for role in ROLES]
    game_metrics(matches, ROLES, words := scores(2))
    assert words.values["eval/win_rate_attacker/im"] == [1.0, 0.0]
    # what the attacker wins of a word the defender loses: together nothing is left to chance
    assert words.values["eval/win_rate/im"] == [0.5, 0.5]


def test_against_itself_both_roles_are_of_the_same_games() -> None:
    games = [line("a"), line("d"), line("a"), line("")]
    found = game_metrics([match(None, 4, games, "itself")], ROLES, scores(4))
    assert found["eval/win_rate_attacker/itself"] == 0.625
    assert found["eval/win_rate_defender/itself"] == 0.375
    assert found["eval/win_rate/itself"] == 0.5


def test_games_in_which_both_win() -> None:
    games = [line("ad"), line(""), line("ad")]
    found = game_metrics([match(None, 3, games, "itself")], ROLES, words := scores(3))
    assert words.values == {"eval/solved/itself": [1, 0, 1]}
    assert found["eval/solved/itself"] == pytest.approx(2 / 3)
    assert found["eval/win_rate_attacker/itself"] == pytest.approx((1 + 0.5 + 1) / 3)


def test_nothing_is_made_up_where_no_game_is_valid() -> None:
    matches = [match(None, 1, [line("", valid=False)], "itself")]
    found = game_metrics(matches, ROLES, scores(1))
    assert found["eval/invalid/itself"] == 1
    assert not any("win_rate" in key or "ties" in key for key in found)


@pytest.mark.slow
def test_who_plays_whom_and_probes_are_dialogues(spag: ConfigOf, tmp_path: Path) -> None:
    config = spag(
        *("algorithm.opponents.start=start", "evaluation.samples=3"),
        "evaluation.probes=[conversation]",
    )
    trainer = build_games(config)
    found, lines = measure(trainer, config, tmp_path)
    games = [one for one in lines if one["kind"] == "evaluation"]
    assert len(games) == 6 + 2 * 6  # two words three times; against the start from both sides
    speakers = {
        (one["opponent"], one["role"]): {turn["agent"] for turn in one["turns"]} for one in games
    }
    assert speakers[("itself", None)] == {"agent_0"}
    for role in ROLES:
        of_role = [one for one in games if (one["opponent"], one["role"]) == ("start", role)]
        assert len(of_role) == 6
        for one in of_role:
            assert {turn["role"] for turn in one["turns"] if turn["agent"] == "agent_0"} <= {role}
    assert {one["sample"] for one in games} == {0, 1, 2}
    assert {one["prompt"] for one in games} <= set(config.task.words)
    for name in ("win_rate", "invalid", "game_turns", "utterance_tokens"):
        assert f"eval/{name}/start" in found
    assert measure(trainer, config, tmp_path) == (found, lines)

    probes = [one for one in lines if one["kind"] == "probe"]
    assert [one["sample"] is None for one in probes] == [False, True]
    for one in probes:
        (turn,) = one["turns"]
        *said, outcome = turn["response"].splitlines()
        assert said[0].startswith("attacker: ") and outcome[0] == "["


@pytest.mark.slow
def test_greedy_games_need_no_numbers(spag: ConfigOf, tmp_path: Path) -> None:
    found = []
    for size in (4, 1):
        config = spag("algorithm.test_greedy=true", f"algorithm.game_batch={size}")
        metrics, lines = measure(build_games(config), config, tmp_path)
        games = [one for one in lines if one["kind"] == "evaluation"]
        assert {one["sample"] for one in games} == {None}
        found.append((metrics, games))
    assert found[0] == found[1]
