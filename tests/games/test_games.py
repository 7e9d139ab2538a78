"""Word games apart from the rules: transcripts, target words, prompts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cory.config import ConfigError
from cory.games import rules_of
from cory.games.inflection import inflected
from cory.games.prompts import GamePrompts
from cory.games.state import GameResult, GameState, GameUtterance
from cory.games.transcript import FinishedGame, game_statistics, read_games
from cory.games.words import evenly, one_form_each, playable, without_forms_of
from cory.runs.jsonl import encoded
from cory.tasks.game import GameTask
from tests.support.composing import parsed
from tests.support.game_settings import NAMES, Config, settings_of, tokenizer


@pytest.fixture
def config() -> Config:
    return settings_of


# finished games as lines


def test_a_game_survives_its_line() -> None:
    game = rules_of("taboo", "words")
    said = (GameUtterance("attacker", "It purrs.\n“Meow”"), GameUtterance("defender", "A cat?"))
    played = FinishedGame("cat", 5, said, GameResult(("attacker",), "uttered", True), {"epoch": 1})
    line = encoded(played.as_line()).rstrip("\n")
    assert "\n" not in line and FinishedGame.from_json(line, game) == played
    assert json.loads(line)["epoch"] == 1


def test_a_line_without_an_ending_is_judged_and_cut() -> None:
    turns = [
        {"role": role, "text": text}
        for role, text in (("attacker", "It purrs."), ("defender", "Cats?"), ("attacker", "Yes."))
    ]
    row = {"word": "cat", "max_turns": 4, "turns": turns}
    played = FinishedGame.from_json(json.dumps(row), rules_of("taboo", "words"))
    assert (len(played.utterances), played.outcome.reason, played.turns) == (2, "uttered", 1)
    # what was said after its end goes, with its token ids
    row["ids"] = [[number] for number in range(len(row["turns"]))]
    again = FinishedGame.from_json(json.dumps(row), rules_of("taboo", "words"))
    assert again.utterances == played.utterances
    assert again.extra == {"ids": [[number] for number in range(len(played.utterances))]}
    open_end = FinishedGame.from_json(
        json.dumps({**row, "word": "dog"}), rules_of("taboo", "words")
    )
    assert not open_end.outcome.valid and open_end.outcome.reason == "unfinished"


GOOD = '{"word": "cat", "max_turns": 2, "turns": [{"role": "attacker", "text": "a"}]}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is not JSON"),
        ("[]", "must be an object"),
        (GOOD.replace('"cat"', "3"), "'word' must be a text with letters or digits, got 3"),
        (GOOD.replace('"cat"', '"..."'), "'word' must be a text with letters or digits, got '...'"),
        (GOOD.replace("2", "0"), "'max_turns' must be a whole number above 0"),
        (GOOD.replace("attacker", "defender"), "utterance 1 must have 'role' attacker"),
        (GOOD.replace('"a"', "null"), "utterance 1 must have a 'text'"),
        (GOOD[:-1] + ', "winners": ["me"]}', "'winners' must be a list of roles"),
        (GOOD[:-1] + ', "winners": []}', "'reason' must be a text"),
        (GOOD[:-1] + ', "winners": [], "reason": "tie", "valid": 1}', "'valid' must be true"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "games.jsonl"
    path.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(ConfigError, match=said) as refused:
        read_games(path, rules_of("taboo", "words"), "algorithm.games")
    assert f"algorithm.games={path}: line 2: " in str(refused.value)
    assert "\n" not in str(refused.value)


def test_counts() -> None:
    both = (GameUtterance("attacker", "a"), GameUtterance("defender", "b"))
    games = [
        FinishedGame("cat", 2, both * 2, GameResult((), "tie", True)),
        FinishedGame("cat", 2, both, GameResult(("attacker",), "uttered", True)),
        FinishedGame("cat", 2, both[:1], GameResult((), "broke_rules", False)),
        FinishedGame("cat", 2, (*both, both[0]), GameResult((), "broke_rules", False)),
    ]
    assert game_statistics(games) == {
        "games": 4,
        "attacker_wins": 1,
        "defender_wins": 0,
        "ties": 1,
        "invalid": 2,
        "reasons": {"broke_rules": 2, "tie": 1, "uttered": 1},
        "mean_turns": 1.5,
    }


# words


def test_words_are_parted_by_form() -> None:
    words = list(playable(["cat", "The", "CATS", "go", "x", "went", "dog", "..."], ["the"], 2))
    assert words == ["cat", "CATS", "go", "went", "dog"]
    assert list(one_form_each(words)) == ["cat", "go", "dog"]
    assert list(without_forms_of(words, ["cats"])) == ["go", "went", "dog"]
    assert evenly([f"{n}" for n in range(20)], 3) == ["2", "7", "12"]


@pytest.mark.slow
def test_words_of_the_reviews(config: Config) -> None:
    task = GameTask(config(train_words=40, test_words=10), tokenizer, np.random.default_rng(0))
    more = GameTask(config(train_words=80, test_words=10), tokenizer, np.random.default_rng(0))
    assert task.test_words == more.test_words and task.train_words == more.train_words[:40]
    forms = [form for word in task.test_words for form in inflected(word)]
    assert not any(inflected(word) & set(forms) for word in more.train_words)
    drawn = [prompt.text for prompt in task.sample(40)]
    assert sorted(drawn) == sorted(task.train_words) and drawn != task.train_words
    state = task.state_dict()
    ahead = [prompt.id for prompt in task.sample(3)]
    task.load_state_dict(state)
    task.sampler.stream = np.random.default_rng(1)
    assert len(ahead) == 3 and task.held_out(2, "test")[1].answer == task.test_words[1]


def test_words_of_files(config: Config, tmp_path: Path) -> None:
    train, test = tmp_path / "train.txt", tmp_path / "test.json"
    train.write_text("the\ncat\n\ndogs\nrun\nsea\n")
    test.write_text('["dog", "New York"]')
    change = {"source": "path", "path": str(train), "test_path": str(test)}
    both = {"train_words": None, "test_words": None}
    task = GameTask(config(**change, **both), tokenizer, np.random.default_rng(0))
    assert task.train_words == ["cat", "run", "sea"] and task.test_words == ["dog", "New York"]
    with pytest.raises(ConfigError, match=r"task.train_words \(9\) exceeds the 3 words"):
        GameTask(config(**change, train_words=9, test_words=2), tokenizer, np.random.default_rng())
    test.write_text("{}")
    with pytest.raises(ConfigError, match="must hold a list of words"):
        GameTask(config(**change, **both), tokenizer, np.random.default_rng())


def test_rules_that_leave_no_room_are_refused(config: Config) -> None:
    settings = config("guess_my_city", max_prompt_tokens=9)
    task = GameTask(settings, tokenizer, np.random.default_rng(0))
    with pytest.raises(ConfigError, match=r"task.max_prompt_tokens \(9\) is below the 12 tokens"):
        task.require_room(lambda text: 12)
    task.require_room(lambda text: 9)


def test_games_of_several_lengths(config: Config) -> None:
    fixed, varied = (
        GameTask(
            config("guess_my_city", max_turns=5, collected_turns=drawn),
            tokenizer,
            np.random.default_rng(0),
        )
        for drawn in (None, [3, 8])
    )
    draw = np.random.default_rng(0)
    assert {fixed.turns_to_collect(draw) for _ in range(50)} == {5}
    assert {varied.turns_to_collect(draw) for _ in range(99)} == {3, 4, 5, 6, 7, 8}


# what players are shown


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("style", [None, *range(12)])
def test_only_one_role_is_shown_the_word(config: Config, name: str, style: int | None) -> None:
    settings = config(name)
    game = rules_of(name, "words")
    wording = GamePrompts(settings.texts, game)
    position = GameState("zebra", 7)
    for role, text in zip(game.roles * 2, ("one {a}", "two", "three"), strict=False):
        for listener in game.roles:
            context = wording.context(position, listener, style)
            assert ("zebra" in context) == (listener == game.knows)
            assert context == context.strip() == wording.context(position, listener, style)
            assert " 7 " in context and "{" not in context.replace("{a}", "")
            for said in position.utterances:
                assert said.text in context
        position = position.after(role, text)


def test_the_fixed_context_is_the_paper_s(config: Config) -> None:
    wording = GamePrompts(config().texts, rules_of("taboo", "words"))
    start = GameState("zebra", 5)
    shown = wording.context(start.after("attacker", "Stripes? "), "defender", None)
    assert shown.startswith("Play the game of Adversarial Taboo. In this game, there are two")
    assert shown.endswith(
        "The game has 5 turns. if nobody wins during 5 turns, there is a tie.\n"
        "### Game History:\n- attacker: Stripes?\n"
        "### Instruction: You are the defender. Provide your response to infer the target word.\n"
        "### Response:"
    )
    assert "The target word is ‘zebra‘." in wording.context(start, "attacker", None)


def test_styles_differ(config: Config) -> None:
    texts = config().texts
    wording = GamePrompts(texts, rules_of("taboo", "words"))
    position = GameState("zebra", 5).after("attacker", "Stripes?")
    shown = {wording.context(position, "defender", style) for style in range(300)}
    assert len(shown) > 200 and len(texts.styles.rules) == 8
    for style in range(40):  # what the other has said is never put under one's own name
        spoken = wording.context(position, "defender", style)
        own = ("defender: S", "assistant: S", "answer: S", "response: S", "A: S")
        assert "Stripes?" in spoken and not any(name in spoken for name in own)
    for rules in texts.styles.rules:
        assert any(rules.format(max_turns=5) in context for context in shown)


def test_messages_take_turns(config: Config) -> None:
    texts = config().texts
    wording = GamePrompts(texts, rules_of("taboo", "words"))
    position = GameState("zebra", 5).after("attacker", "a").after("defender", "b")
    first = wording.messages(position, "attacker")
    assert [said["role"] for said in first] == ["system", "user", "assistant", "user"]
    assert [said["content"] for said in first[1:]] == [texts.opening, "a", "b"]
    assert "zebra" in first[0]["content"]
    second = wording.messages(position.after("attacker", "c"), "defender")
    assert [said["role"] for said in second] == ["system", "user", "assistant", "user"]
    assert [said["content"] for said in second[1:]] == ["a", "b", "c"]
    assert "zebra" not in second[0]["content"]


def test_texts_for_other_roles_are_refused(config: Config) -> None:
    with pytest.raises(ConfigError, match=r"task.texts.rules must have the roles guesser, oracle"):
        GamePrompts(config().texts, rules_of("guess_my_city", "words"))
    told = config(texts__instructions__defender="It is {word}.")
    with pytest.raises(ConfigError, match=r"instructions.defender must not contain \{word\}"):
        GamePrompts(told.texts, rules_of("taboo", "words"))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("judge", "x", "task.judge must be one of words, official, got x"),
        ("collected_turns", [8, 3], "task.collected_turns must be null or two numbers above 0"),
        ("source", "path", "task.source=path needs task.path"),
        ("source", "list", "task.source=list needs task.words"),
        ("train_words", 0, "task.train_words must be null or above 0, got 0"),
        ("test_words", None, "task.test_words must be given where task.test_path is null"),
        ("texts__layout", "{history}{instruction} ", "task.texts.layout must not end in white"),
        ("texts__rules__attacker", "{word}", "task.texts.rules.attacker must not contain {word}"),
        ("texts__styles__speakers", [["a"]], "task.texts.styles.speakers must hold pairs"),
        ("texts__styles__formats", ["x"], "task.texts.styles.formats must be one of chat"),
        ("scripted__guile", 2.0, "task.scripted.guile must lie in [0, 1], got 2.0"),
        ("scripted__guess", ["I know"], "task.scripted.guess must contain {word}"),
        ("scripted__answers", ["no"], "task.scripted.answers must be two"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    config: Config, key: str, value: object, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        config(**{key: value})
    assert said in str(refused.value)


@pytest.mark.slow
def test_only_where_one_role_wins_can_the_other_be_made_to_lose() -> None:
    words = "experiment=spag/llama2_im", "reward.broken_rules=lose"
    assert parsed(*words).reward.broken_rules == "lose"
    with pytest.raises(ConfigError, match=r"in task\.game=twenty_questions both win or"):
        parsed(*words, "task=twenty_questions")
    with pytest.raises(ConfigError, match=r"task\.game .chess. is unknown; choose one of gu"):
        parsed(*words, "task.game=chess")
