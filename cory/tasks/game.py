"""Word games as a task, whose prompts are target words; and instructions, imitated beside them."""

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice, tee
from typing import Any

import numpy as np

from cory.config import GameConfig, InstructionsConfig, require
from cory.episode import Context, Prompt
from cory.games.prompts import Form, GamePrompts
from cory.games.rules import GameState, rules_of
from cory.games.scripted import Draw, Script, associate
from cory.games.words import common_words, one_form_each, playable, tokens, without_forms_of
from cory.seeding import EpochSampler
from cory.tasks.imdb import package_reviews
from cory.tasks.tables import read_words, require_columns, rows_of

# the reviews that words are counted in, and that replace instruction data offline; other tasks have
# no prompts from them
REVIEWS = "lm"
TEST_STEP = 5  # each fifth word is a test word: as common as the training words around it
PROMPT_WORDS = 12  # first words of a review, shown as the instruction
ANSWER_WORDS = 24  # words after them, imitated as the answer
KEY = "algorithm.instructions"


class GameTask:
    """Target words, the rules and prompts of their game, and scripted players.

    No method reads answers or asks observers: games have results, and algorithms of their own.
    """

    def __init__(self, config: GameConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        self.config = config
        self.game = rules_of(config.game, config.judge)
        self.wording = GamePrompts(config.texts, self.game)
        self.max_turns = config.max_turns
        self.train_words, self.test_words = words_of(config)
        words = [self.train_words, self.test_words]
        self.sampler = EpochSampler(self.train_words, stream, words, "task: the words")

    def sample(self, count: int) -> list[Prompt]:
        return [self.prompt_of(self.sampler.next()) for _ in range(count)]

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        words = self.train_words if split == "train" else self.test_words
        return [self.prompt_of(word) for word in words[:count]]

    def prompt_of(self, text: str) -> Prompt:
        word = text.strip()
        return Prompt(id=f"word-{word}", text=word, answer=word)

    def turns_to_collect(self, draw: np.random.Generator) -> int:
        """Most turns of the next training game: fixed, or drawn from `task.collected_turns`."""
        limits = self.config.collected_turns
        return self.max_turns if limits is None else int(draw.integers(limits[0], limits[1] + 1))

    @cached_property
    def players(self) -> dict[str, Callable[[GameState, Draw], str]]:
        """[role]: what the scripted player of it says next."""
        config, knows = self.config.scripted, self.game.knows
        spoken = (*config.hint, *config.ask, *config.guess, *config.answers)
        excluded = {word for text in spoken for word in tokens(text)} | set(self.config.stop_words)
        texts = package_reviews(REVIEWS)["text"]
        known = associate(texts, self.train_words + self.test_words, config.hint_words, excluded)
        script = Script(config, known, self.game)
        return {role: script.hint if role == knows else script.ask for role in self.game.roles}

    def require_room(self, tokens_of: Callable[[Context], int], form: Form) -> None:
        """Refuses settings with which the first prompt of a game is too long.

        tokens_of: of what the model is shown, with its chat template and BOS, if any
        """
        longest = max((*self.train_words, *self.test_words), key=len)
        for role in self.game.roles:
            context = self.wording.context(GameState(longest, self.max_turns), role, None, form)
            tokens = tokens_of(context)
            require(
                tokens <= self.config.max_prompt_tokens,
                f"task.max_prompt_tokens ({self.config.max_prompt_tokens}) is below the {tokens} "
                f"tokens that the {role} is shown when a game begins",
            )


def words_of(config: GameConfig) -> tuple[list[str], list[str]]:
    """Training and test words; no form of a test word is a training word."""
    words = playable(_source(config), config.stop_words, config.min_letters)
    if config.source == "package":
        words = one_form_each(words)
    if config.test_path is not None:
        words_of_file = read_words(config.test_path, "task.test_path")
        test = [word for word in words_of_file if tokens(word)][: config.test_words]
    else:
        words, copy = tee(words)
        test = list(islice(islice(copy, TEST_STEP // 2, None, TEST_STEP), config.test_words))
    train = list(islice(without_forms_of(words, test), config.train_words))
    said = "" if config.source != "path" else f"task.path={config.path}: "
    for split, chosen, asked in (
        ("test", test, config.test_words),
        ("train", train, config.train_words),
    ):
        what = "there is none"
        if asked is not None:
            what = f"task.{split}_words ({asked}) exceeds the {len(chosen)} words"
        require(
            len(chosen) >= (asked or 1),
            f"{said}{what} to {split} on when stop words, short words and forms of test words are "
            f"taken out",
        )
    return train, test


def _source(config: GameConfig) -> Iterable[str]:
    if config.source == "path":
        return read_words(str(config.path), "task.path")
    if config.source == "list":
        assert config.words is not None
        return config.words
    return common_words(package_reviews(REVIEWS)["text"], config.nouns)


def load_instructions(config: InstructionsConfig) -> list[tuple[str, str]]:
    """Every (prompt, answer) to imitate beside games; rows without an answer are left out."""
    if config.source == "package":
        end = PROMPT_WORDS + ANSWER_WORDS
        return [
            (" ".join(words[:PROMPT_WORDS]), " ".join(words[PROMPT_WORDS:end]))
            for words in package_reviews(REVIEWS)["text"].str.split()
        ]
    assert config.path is not None
    columns = {
        f"{KEY}.instruction_column": config.instruction_column,
        f"{KEY}.output_column": config.output_column,
        f"{KEY}.input_column": config.input_column,
    }
    rows = rows_of(config.source, config.path, config.split, f"{KEY}.path")
    require_columns(rows, columns.items())
    pairs = []
    for row in rows:
        asked, answer, given = (
            "" if name is None else str(row.values[name] or "").strip() for name in columns.values()
        )
        if asked and answer:
            template = config.input_template if given else config.template
            pairs.append((template.format(instruction=asked, input=given), answer))
    require(bool(pairs), f"{KEY}: no row of {config.path} has an instruction and an answer")
    return pairs
