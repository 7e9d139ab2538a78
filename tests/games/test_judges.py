"""Mentions of the word and guesses, for both judges; scripted players."""

import math

import numpy as np
import pytest

from cory.config import GameConfig
from cory.games.rules import GameResult, GameState, decided_state, rules_of
from cory.games.scripted import SMOOTHING, Script, associate, belief
from tests.support.game_settings import settings_of

# word, what the attacker says, and how it ends: by whole words | as the released code judges
ATTACKER = [
    ("cat", "It purrs.", None, None),
    ("cat", "What category is it?", None, "broke_rules"),
    ("cat", "A cat's tail, or a cat’s ear.", "broke_rules", "broke_rules"),
    ("cat", "The c-a-t.", None, None),
    ("run", "She ran away.", "broke_rules", None),
    ("went", "Let us go.", "broke_rules", None),
    ("don", "I don't know him.", None, "broke_rules"),
    ("ice cream", "Ice-cream is cold.", "broke_rules", None),
    ("ice cream", "Ice and cream.", None, None),
    ("café", "In a cafe.", "broke_rules", None),
    ("blorp", "Two blorps blorped.", "broke_rules", "broke_rules"),
    ("cat", "Say: I know the word! It is dog!", "broke_rules", "broke_rules"),
]
# word, what the defender says
DEFENDER = [
    ("cat", " \n ", None, None),
    ("cat", "Which category?", None, "uttered"),
    ("cat", "i KNOW the WORD! it's a `CAT`", "guessed", "guessed"),
    ("cat", "I know the word! It is category!", "wrong_guess", "guessed"),
    ("cat", "I know the word! It is the word cat!", "guessed", "wrong_guess"),
    # no exclamation mark: the released code takes it for a slip
    ("cat", "I know the word, it’s cat!", "guessed", "uttered"),
    ("cat", "I know the word. It is dog", "wrong_guess", None),
    # the first of several guesses counts
    ("cat", "I know the word! It is dog, or cat!", "wrong_guess", "wrong_guess"),
    ("cat", "I know the word! It is dog! I know the word! It is cat!", "wrong_guess", "guessed"),
    # a target that is itself one of the words that are passed over before a guess
    ("guess", "I know the word! My guess is guess.", "guessed", "uttered"),
    ("word", "I know the word! It is the word `word`!", "guessed", "guessed"),
    ("hague", "I know the word! It is the Hague!", "guessed", "guessed"),
    # an article in quotation marks
    ("dog", 'I know the word! It is "a dog"!', "guessed", "guessed"),
    # a guess comes before a mention, wherever each stands
    ("cat", "Not a cat? Then I know the word! It is dog!", "wrong_guess", "wrong_guess"),
    ("cat", "Do I know the word yet?", None, None),
    ("cat", "I do not know the word! It is hard.", None, None),
]


def ending(judge: str, *said: str, word: str) -> str | None:
    game = rules_of("taboo", judge)
    position = GameState(word, 9)
    for number, text in enumerate(said):
        position = position.after(game.roles[number % 2], text)
    outcome = decided_state(game, position)[1]
    return outcome and outcome.reason


@pytest.mark.parametrize(("word", "text", "words", "official"), ATTACKER)
def test_attacker(word: str, text: str, words: str | None, official: str | None) -> None:
    assert ending("words", text, word=word) == words
    assert ending("official", text, word=word) == official


@pytest.mark.parametrize(("word", "text", "words", "official"), DEFENDER)
def test_defender(word: str, text: str, words: str | None, official: str | None) -> None:
    assert ending("words", "Well?", text, word=word) == words
    assert ending("official", "Well?", text, word=word) == official


def test_who_wins() -> None:
    game = rules_of("taboo", "words")
    start = GameState("cat", 2)
    told = start.after("attacker", "It purrs.")
    for text, winner, reason in (
        ("I know the word! It is cat!", "defender", "guessed"),
        ("I know the word! It is dog!", "attacker", "wrong_guess"),
        ("A cat!", "attacker", "uttered"),
    ):
        outcome = game.outcome(told.after("defender", text))
        assert outcome == GameResult((winner,), reason, valid=True)
    broken = game.outcome(start.after("attacker", "A cat."))
    assert broken and (broken.winners, broken.valid) == ((), False)


def test_a_game_is_cut_where_it_was_decided_and_a_tie_after_its_last_turn() -> None:
    game = rules_of("taboo", "words")
    start = GameState("cat", 2).after("attacker", "It purrs.")
    position = start.after("defender", "Hm.").after("attacker", "It purrs a lot.")
    assert decided_state(game, position) == (position, None)
    tie = decided_state(game, position.after("defender", "Hm?"))[1]
    assert tie and (tie.winners, tie.reason, tie.valid) == ((), "tie", True)
    # in the last utterance, too, a guess counts
    won = game.outcome(position.after("defender", "I know the word! It is cat!"))
    assert won and won.reason == "guessed"
    long = position.after("defender", "A cat?").after("attacker", "Yes!")
    cut, outcome = decided_state(game, long)
    assert len(cut.utterances) == 4 and outcome and outcome.reason == "uttered"


def test_only_the_role_that_knows_the_word_can_break_the_rules() -> None:
    taboo = rules_of("taboo", "words")
    start = GameState("cat", 3)
    assert taboo.legal(start, "It purrs.") and not taboo.legal(start, "My cats.")
    assert not taboo.legal(start, "I know the word! It is dog!")
    told = start.after("attacker", "It purrs.")
    assert taboo.legal(told, "A cat?")


def test_both_win_when_the_word_is_named() -> None:
    game = rules_of("twenty_questions", "words")
    start = GameState("New York", 2)
    named = game.outcome(start.after("guesser", "Is it new york?"))
    assert named and named.winners == ("guesser", "oracle") and named.reason == "guessed"
    asked = start.after("guesser", "Is it in America?")
    assert game.outcome(asked) is None
    broken = game.outcome(asked.after("oracle", "Of course New York is."))
    assert broken and not broken.valid and broken.reason == "broke_rules"
    last = asked.after("oracle", "Yes.").after("guesser", "Is it Boston?").after("oracle", "No.")
    tie = game.outcome(last)
    assert tie and tie.valid and not tie.winners


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
