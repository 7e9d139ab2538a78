"""Scripted players of word games: associations, beliefs, utterances and wins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cory.config import GameConfig
from cory.games.rules import GameState, decided_state, rules_of
from cory.games.scripted import SMOOTHING, Script, associate, belief
from tests.support.game_settings import settings_of


def test_associations_by_hand() -> None:
    texts = ["Cats purr. The cat sat? Dogs bark! Cats bark, bark. A New York dog. Sun."]
    found = associate(texts, ["cat", "dog", "New York"], 10, {"the"})
    assert "the" not in found.hints and set(found.columns) >= {"purr", "bark", "cats", "dog"}
    purr, bark = found.columns["purr"], found.columns["bark"]
    assert found.met[:, purr].tolist() == [1, 0, 0] and found.met[:, bark].tolist() == [1, 1, 0]
    # cat stands in 3 of 6 sentences, bark in 2; both in 1
    chance = 2 / 6
    lift = math.log((1 + SMOOTHING * chance) / (3 + SMOOTHING) / chance)
    assert found.lift[0, bark] == pytest.approx(lift)
    assert found.met[2, found.columns["dog"]] == 1
    rows, columns = found.read("Two CATS in New York bark, bark!")
    assert rows == [0, 2] and {found.columns["cats"], bark} <= set(columns)
    assert len(columns) == len(set(columns))


WORDS = ["cat", "dog", "sea", "sun"]
TEXTS = (
    ["The cat purrs and scratches."] * 6
    + ["A dog barks and fetches."] * 6
    + ["Fur of a cat.", "Fur of a dog."] * 4
    + ["At sea are waves and ships."] * 6
    + ["The sun shines on waves."] * 6
    + ["Nothing happens here at all today."] * 60
)


def script(settings: GameConfig) -> Script:
    left_out = {"the", "and", "nothing", "happens", "here", "all", "today", "are", "about"}
    associations = associate(TEXTS, WORDS, 50, left_out)
    return Script(settings.scripted, associations, rules_of(settings.game, "words"))


def test_a_listener_weighs_hints_and_answers() -> None:
    listener = script(settings_of("twenty_questions"))
    asked = GameState("cat", 9).after("guesser", "Has it to do with fur?")
    yes = belief(listener.evidence(listener.hear(asked.after("oracle", "Yes!"))))
    assert yes[:2].tolist() == pytest.approx([0.45, 0.45]) and yes.sum() == pytest.approx(1)
    no = belief(listener.evidence(listener.hear(asked.after("oracle", "no."))))
    assert no[2:].tolist() == pytest.approx([0.45, 0.45])
    hint = asked.after("oracle", "It purrs.").after("guesser", "Is it a dog?")
    heard = belief(listener.evidence(listener.hear(hint)))
    assert heard.argmax() == 0 and heard[1] == 0


def test_guile_points_to_another_word() -> None:
    shared = script(settings_of(scripted__guile=1.0, scripted__hints_per_turn=1))
    position = GameState("sun", 9)
    said = shared.hint(position, np.random.default_rng(0))
    heard = shared.hear(position.after("attacker", said))
    assert "waves" in said and belief(shared.evidence(heard)).argmax() == 2


def test_a_guesser_guesses_when_it_is_sure() -> None:
    guesser = script(settings_of())
    draw = np.random.default_rng(0)
    start = GameState("cat", 2)
    assert guesser.ask(start.after("attacker", "It purrs."), draw) == (
        "I know the word! It is cat!"
    )
    unsure = start.after("attacker", "Fur.")
    asked = {guesser.ask(unsure, draw) for _ in range(30)}
    assert not any("I know" in text for text in asked)
    # it never asks about the word that it would guess: here the first of two alike
    assert any("dog" in text for text in asked) and not any("cat" in text for text in asked)
    last = unsure.after("defender", "Is it about sea?").after("attacker", "Scratches.")
    assert guesser.ask(last, draw) == "I know the word! It is cat!"
    # in the last turn it may take a chance
    bold = script(settings_of(scripted__last_confidence=0.0))
    assert "I know" in bold.ask(GameState("cat", 1).after("attacker", "Fur."), draw)
    assert "I know" not in guesser.ask(GameState("cat", 1).after("attacker", "Fur."), draw)


@pytest.mark.parametrize("name", ["twenty_questions", "guess_my_city"])
def test_scripted_players_find_the_word_together(name: str) -> None:
    shared = script(settings_of(name))
    says = {"guesser": shared.ask, "oracle": shared.hint}
    for number, word in enumerate(WORDS * 5):
        draw, position = np.random.default_rng(number), GameState(word, 3)
        while (outcome := decided_state(shared.game, position)[1]) is None:
            role = position.next_role(shared.game.roles)
            position = position.after(role, says[role](position, draw))
        assert outcome.valid and outcome.reason == "guessed"
