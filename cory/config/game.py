"""Settings of word games: words, rules, prompts, and the sentences of scripted players."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cory.config.base import (
    RISING,
    TWO,
    Count,
    NotNegative,
    Positive,
    Settings,
    Share,
    Text,
    Words,
    with_fields,
)
from cory.config.task import TaskFacts

Rules = Annotated[Text, with_fields(allowed=["max_turns"])]
Speaker = Annotated[Text, with_fields(allowed=["own", "other"])]
SOME = Field(min_length=1)


def _without_space_at_the_end(text: str) -> str:
    if text != text.rstrip():
        raise ValueError("must not end in white space: a response begins with it")
    return text


class GameStyles(Settings):
    """Variants of wording, of which one is drawn for each training context."""

    rules: Annotated[list[Rules], SOME]
    labels: Annotated[list[Text], SOME]  # headings of the rules
    formats: Annotated[list[Literal["chat", "chat_inverse", "alpaca"]], SOME]  # what stands where
    prefixes: Annotated[list[Text], SOME]  # before each line of the history
    speakers: Annotated[list[Annotated[list[Speaker], TWO]], SOME]  # who is to speak, the other
    history: Text  # heading of the history in the format alpaca


class GameTexts(Settings):
    """Texts that a player's prompt is put together from."""

    rules: dict[str, Rules]  # by role
    instructions: dict[str, Annotated[Text, with_fields(allowed=["word"])]]  # by role
    names: dict[str, Text]  # by role: what it is called in a line
    start: Annotated[Text, with_fields()]  # in place of a history where nothing has been said
    history: Annotated[Text, with_fields("lines")]
    line: Annotated[Text, with_fields("text", allowed=["name"])]  # one utterance inside {lines}
    layout: Annotated[
        Text,
        with_fields("history", "instruction", allowed=["rules"]),
        AfterValidator(_without_space_at_the_end),
    ]
    opening: Words  # in a chat: what asks the first speaker to begin
    styles: GameStyles


class ScriptedConfig(Settings):
    """Scripted players: their sentences, and how certain they must be before they guess."""

    hint: Annotated[list[Annotated[Text, with_fields(allowed=["hints", "answer"])]], SOME]
    ask: Annotated[list[Annotated[Text, with_fields("words")]], SOME]  # while it is unsure
    guess: Annotated[list[Annotated[Text, with_fields("word")]], SOME]
    separator: Text  # between two words inside {hints} and {words}
    answers: Annotated[list[Text], TWO]  # {answer}: for no and for yes
    hints_per_turn: Count
    words_per_question: Count
    questions: Literal["suspects", "halves"]
    guile: Share  # how often hints are to make the other believe in a wrong word
    trust: Positive  # how much a hint that was heard counts, 1: as much as one sentence would
    confidence: Positive  # share of belief in one word from which it is guessed
    last_confidence: NotNegative  # ... in the last turn; 0: always guessed there
    hint_words: Count  # how many of the commonest words may be hints
    least_sentences: Count  # a hint goes with a word if they meet in as many sentences,
    least_lift: NotNegative  # ... and so much oftener than by chance, as a logarithm


class GameConfig(TaskFacts):
    """Settings of `task=taboo`, `twenty_questions`, `guess_my_city`: games about a word."""

    game: Text  # whose rules: taboo | twenty_questions | guess_my_city, or a plug-in's
    judge: Literal["words", "official"]  # what counts as saying a word
    max_turns: Count  # of a game; a turn is one utterance of each role
    collected_turns: Annotated[list[Count], TWO, RISING] | None  # ... to learn from: between these
    source: Literal["package", "path", "list"]
    path: Text | None  # path: training words, a .txt with one a line, or a .json list
    test_path: Text | None  # ... test words; None: taken from among the others
    words: list[Text] | None  # list: the words
    train_words: Count | None  # how many of the commonest words to train on; None: all
    test_words: Count | None  # how many to evaluate on; None: all of test_path
    stop_words: list[Text]  # never played
    min_letters: Count  # shorter words are never played
    nouns: bool  # package: only words that can be nouns
    texts: GameTexts
    scripted: ScriptedConfig

    needs = {"source=path": "path", "source=list": "words", "test_words=null": "test_path"}

    @property
    def counts_whole_contexts(self) -> bool:
        return True

    def word_files(self) -> dict[str, Path]:
        """Setting -> the file of words that it names; none of a source that is no file."""
        named = {"task.path": self.path if self.source == "path" else None}
        named["task.test_path"] = self.test_path
        return {key: Path(path).expanduser() for key, path in named.items() if path is not None}
