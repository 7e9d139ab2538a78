"""Collecting games: nothing that was over is lost; opponents are loaded when they play."""

import copy
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cory.episode import Asked
from cory.games.rules import BROKE_RULES, rules_of
from cory.rewards.game_outcome import GameOutcome
from cory.runs import signals
from cory.runs.files import read_lines
from cory.runs.signals import Stopped
from cory.runtime.worker import build_components
from cory.trainers.offline import OfflineTrainer
from tests.support.building import measure
from tests.support.composing import ConfigOf
from tests.support.playing import build_games

ROOMY = [f"algorithm.sampling.{end}_response_tokens=24" for end in ("min", "max")]
ROOMY.append("task.max_prompt_tokens=40")
TABOO = rules_of("taboo", "words")


@pytest.fixture
def self_play(spag: ConfigOf) -> ConfigOf:
    six = ("algorithm.prompts_per_iteration=6", "algorithm.threshold=-0.5")
    return lambda *overrides: spag(*six, *overrides)


def test_a_stop_in_the_middle_of_a_collection_loses_no_batch(
    self_play: ConfigOf, tmp_path: Path, monkeypatch
) -> None:
    config = self_play("algorithm.game_batch=2", "algorithm.sampling.min_response_tokens=2")
    whole = build_games(config)
    most = config.algorithm.sampling.max_response_tokens
    limit = copy.deepcopy(whole.components.streams.length).integers(2, most + 1)
    whole.step(0)
    path = tmp_path / "run" / "games" / "epoch_000.jsonl"
    expected = path.read_text().splitlines(keepends=True)
    assert len(expected) == 6
    said = [ids for line in expected for ids in json.loads(line)["ids"]]
    assert limit < most and max(map(len, said)) == limit  # one of all games
    path.unlink()

    # stopped before every single utterance in turn, and gone on with
    kept: list[str] = []
    for allowed in range(40):
        trainer, looks = build_games(config), iter([False] * allowed)
        monkeypatch.setattr(signals, "stopping", partial(next, looks, True))
        try:
            trainer.step(0)
            assert kept
            break
        except Stopped as asked:
            found = path.read_text().splitlines(keepends=True)
            assert f"{len(found)} of 6 games" in str(asked) and len(found) in (0, 2, 4)
            assert found == expected[: len(found)] and len(found) >= len(kept)
            kept = found
    else:
        pytest.fail("the collection never ended")
    assert path.read_text().splitlines(keepends=True) == expected


def test_another_run_learns_from_the_games(self_play: ConfigOf, tmp_path: Path) -> None:
    """What one run collected, another learns from, token by token."""
    whole = build_games(self_play("algorithm.iterations=1"))
    player = whole.step(0)
    path = tmp_path / "run" / "games" / "epoch_000.jsonl"
    reader = build_games(self_play("algorithm.iterations=1", f"algorithm.games={path}"))
    learnt = reader.step(0)
    for key in ("loss", "nll_game", "examples"):
        name = f"offline/{key}/agent_0"
        assert learnt[name] == pytest.approx(player[name], rel=1e-4), key

    def ids(trainer: OfflineTrainer) -> set[tuple[int, ...]]:
        return {tuple(one.response_ids) for own in trainer.games or [] for one in own}

    assert ids(reader) == ids(whole)
    sampled = {tuple(t.response_ids) for e in whole.episodes for t in e.turns if t.response}
    assert sampled and sampled <= ids(whole)  # not what their texts would be encoded as


def test_token_ids_of_another_model_are_not_learnt(self_play: ConfigOf, tmp_path: Path) -> None:
    build_games(self_play("algorithm.iterations=1")).step(0)
    path = tmp_path / "run" / "games" / "epoch_000.jsonl"
    path.write_text(path.read_text().replace('"tokenizer": "', '"tokenizer": "another'))
    trainer = build_games(
        self_play(
            "algorithm.iterations=1",
            f"algorithm.games={path}",
            *ROOMY,  # what a random model says is often written with more tokens than it said
        )
    )
    trainer.step(0)
    eos = trainer.policy.bundle.tokenizer.eos_token_id
    said = [one for own in trainer.games or [] for one in own]
    assert said and all(one.response_ids[-1] == eos for one in said)  # encoded from their texts


def test_games_in_the_form_of_spag_s_released_files_are_learnt(self_play, tmp_path) -> None:
    """Who won is judged, whatever `winner` is; what follows the last turn is left out."""
    said = {
        "movie": ["it is a film", " the movie "],
        "bad": ["not good", "I know the word! It is bad", "and", "more"],
        "make": ["one", "two", "three", "four", "make", "make"],
    }
    rows = [
        {
            "history": [
                {"role": ("attacker", "defender")[n % 2], "content": text}
                for n, text in enumerate(texts)
            ],
            "target_word": word,
            "max_turns": 2,
            "winner": "attacker",
        }
        for word, texts in said.items()
    ]
    path = tmp_path / "gpt4_games.json"
    path.write_text(json.dumps(rows))
    trainer = build_games(
        self_play(
            *("algorithm.iterations=1", f"algorithm.games={path}", "algorithm.threshold=0"),
            *("export_examples=true", "algorithm.prompts_per_iteration=3", *ROOMY),
        )
    )
    found = trainer.step(0)
    wins = {key: found[f"game/{key}"] for key in ("attacker_wins", "defender_wins", "ties")}
    assert wins == pytest.approx(dict.fromkeys(wins, 1 / 3)) and found["game/learnt"] == 2
    decode = trainer.policy.bundle.tokenizer.decode
    examples = [one for own in trainer.games or [] for one in own]
    learnt = [decode(one.response_ids[:-1]).strip() for one in examples]
    assert sorted(learnt) == [said["bad"][1], said["movie"][0]]
    rows = read_lines(tmp_path / "run" / "examples" / "1" / "agent_0.jsonl")
    assert [(r["completion"].strip(), r["role"], r["weight"], r["advantage"]) for r in rows] == [
        (text, e.source, e.weight, e.advantage) for text, e in zip(learnt, examples, strict=True)
    ]
    assert [trainer.policy.texts.context_ids(r["prompt"]) for r in rows] == [
        [*e.context_ids] for e in examples
    ]


def test_only_broken_rules_lose_a_game(spag: ConfigOf) -> None:
    reward = build_components(spag("reward.broken_rules=lose")).reward
    assert isinstance(reward, GameOutcome)
    assert (
        reward.worth(BROKE_RULES, "defender") == 1 and reward.worth(BROKE_RULES, "attacker") == -1
    )


def test_one_agent_of_another_run_at_a_time_is_in_memory(spag: ConfigOf) -> None:
    opponents: Any = build_games(spag()).evaluate.opponents  # type: ignore[attr-defined]
    own = {*opponents.actors}
    opponents.others = {"im": object, "spag_1": object}  # how to load them
    for name in opponents.others:
        opponents.seat(name)
        assert {*opponents.actors} - own == {name}
    opponents.dismiss()
    assert {*opponents.actors} == own


@pytest.mark.parametrize("kept", [False, True])
def test_the_reference_is_kept_where_it_plays(self_play, tmp_path, kept: bool) -> None:
    words = ["algorithm.opponents.start=start"] if kept else []
    config = self_play("evaluation.probes=[]", *words)
    trainer = build_games(config)
    bundle = trainer.policy.bundle
    devices = {parameter.device.type for parameter in bundle.pretrained.parameters()}
    assert devices == ({"cpu"} if kept else {"meta"})
    assert bundle.context_length == 64 and bundle.stops
    trainer.step(0)
    found = measure(trainer, config, tmp_path)[0]
    assert ("eval/win_rate/start" in found) == kept
    if not kept:
        with pytest.raises(RuntimeError, match="meta"):
            trainer.policy.reference("start").turns([Asked("x", "attacker")], 1, None)
