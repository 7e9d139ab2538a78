"""Word games apart from the rules: transcripts, target words, prompts."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cory.games.prompts import GamePrompts
from cory.games.rules import GameState, rules_of
from cory.games.transcript import read_games
from cory.games.words import one_form_each, playable, without_forms_of
from cory.tasks.game import GameTask, words_of
from tests.support.composing import parsed
from tests.support.game_settings import NAMES, settings_of, tokenizer
from tests.support.refusals import refusal

TABOO = rules_of("taboo", "words")


def task_of(*names: str, **changes: object) -> GameTask:
    return GameTask(settings_of(*names, **changes), tokenizer, np.random.default_rng(0))


def test_a_bad_line_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    good = '{"word": "cat", "max_turns": 2, "turns": [{"role": "attacker", "text": "a"}]}'
    for bad, said in (
        ("{", "it: Invalid"),
        ('{"query": "a", "target": "b"}', "word: Field required; these are examples"),
        (good.replace("att", "xxx"), "turns.0.role: must be"),
        (good.replace("cat", "?!"), "word: must have letters"),
        (good[:-1] + ', "winners": ["Attacker"]}', "winners: must be roles (attacker"),
        (good[:-1] + ', "winners": ["attacker"], "valid": false}', "winners: must be roles"),
        (
            good[:-1] + ', "winners": [], "ids": []}',
            "ids: must be null or a list for each of the 1",
        ),
    ):
        path.write_text(f"{good}\n{bad}\n")
        refused = refusal(lambda: read_games(path, TABOO, "algorithm.games"))
        assert refused.startswith(f"algorithm.games={path}: line 2: {said}")


def test_words_are_parted_by_form() -> None:
    words = list(playable(["cat", "The", "CATS", "go", "x", "went", "dog", "..."], ["the"], 2))
    assert words == ["cat", "CATS", "go", "went", "dog"]
    assert list(one_form_each(words)) == ["cat", "go", "dog"]
    assert list(without_forms_of(words, ["cats"])) == ["go", "went", "dog"]


def test_words_of_files(tmp_path: Path) -> None:
    train, test = tmp_path / "train.txt", tmp_path / "test.json"
    train.write_text("the\ncat\n\ndogs\nrun\nsea\n")
    test.write_text('["dog", "New York"]')
    change = {"source": "path", "path": str(train), "test_path": str(test), "test_words": None}
    task = task_of(**change, train_words=None)
    assert task.train_words == ["cat", "run", "sea"] and task.test_words == ["dog", "New York"]
    assert sorted(prompt.text for prompt in task.sample(3)) == task.train_words
    said = refusal(lambda: task_of(**change, train_words=9))
    assert said.startswith(f"task.path={train}: task.train_words (9) exceeds the 3 words to train")


def test_every_fifth_word_of_ones_own_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(f"word{chr(97 + n)}" for n in range(12)))
    task = parsed("algorithm=spag", "task=taboo", f"task.path={path}").task
    assert (task.source, task.train_words, task.test_words) == ("path", None, None)
    train, test = words_of(task)
    assert test == ["wordc", "wordh"] and len(train) == 10
    listed = parsed("algorithm=spag", "task=taboo", "task.words=[cat,dog]").task
    assert listed.source == "list"
    said = refusal(lambda: words_of(listed))
    assert said.startswith("there is none to test on when stop words")
    packed = parsed("algorithm=spag", "task=taboo").task
    assert (packed.source, packed.train_words, packed.test_words) == ("package", 300, 50)


@pytest.mark.parametrize("name", NAMES)
def test_only_one_role_is_shown_the_word(name: str) -> None:
    game = rules_of(name, "words")
    wording = GamePrompts(settings_of(name).texts, game)
    position = GameState("zebra", 7)
    for role, text in zip(game.roles * 2, ("one {a}", "two", "three"), strict=False):
        for listener, style in product(game.roles, [None, *range(12)]):
            context = wording.context(position, listener, style)
            assert ("zebra" in context) == (listener == game.knows)
            assert context == context.strip() == wording.context(position, listener, style)
            assert " 7 " in context and "{" not in context.replace("{a}", "")
            assert all(said.text in context for said in position.utterances)
        position = position.after(role, text)


def test_the_fixed_context_is_the_paper_s() -> None:
    wording = GamePrompts(settings_of().texts, TABOO)
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


def chat(
    wording: GamePrompts, position: GameState, role: str, style: int | None = None
) -> list[dict[str, str]]:
    messages = wording.context(position, role, style, "system")
    assert isinstance(messages, list)
    return messages


def test_messages_take_turns() -> None:
    texts = settings_of().texts
    wording = GamePrompts(texts, TABOO)
    position = GameState("zebra", 5).after("attacker", "a").after("defender", "b")
    first = chat(wording, position, "attacker")
    second = chat(wording, position.after("attacker", "c"), "defender")
    for messages in (first, second):
        assert [said["role"] for said in messages] == ["system", "user", "assistant", "user"]
    assert [said["content"] for said in first[1:]] == [texts.opening, "a", "b"]
    assert [said["content"] for said in second[1:]] == ["a", "b", "c"]
    assert "zebra" in first[0]["content"] and "zebra" not in second[0]["content"]
    # without a system prompt its message begins the user's first one
    whole = wording.context(position, "attacker", None, "user")
    joined = f"{first[0]['content']}\n\n{first[1]['content']}"
    assert whole == [{"role": "user", "content": joined}, *first[2:]]
    # where the oldest are left out a user's message still comes first
    rest = GameState("zebra", 5, position.utterances[1:])
    assert chat(wording, rest, "attacker")[1:] == [{"role": "user", "content": "b"}]
    said = chat(wording, rest, "defender")[1:]
    assert [one["content"] for one in said] == [texts.opening, "b"]


def test_games_of_several_lengths() -> None:
    draw = np.random.default_rng(0)
    fixed, varied = (
        task_of("guess_my_city", max_turns=5, collected_turns=drawn) for drawn in (None, [3, 8])
    )
    assert {fixed.turns_to_collect(draw) for _ in range(50)} == {5}
    assert {varied.turns_to_collect(draw) for _ in range(99)} == {3, 4, 5, 6, 7, 8}
