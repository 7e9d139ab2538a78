"""Settings of word games: words, rules, prompts, and the sentences of scripted players."""

from dataclasses import dataclass
from pathlib import Path

from cory.config.checks import (
    require,
    require_at_least,
    require_choice,
    require_fields,
    require_positive,
)
from cory.config.task import TaskFacts

FORMATS = ("chat", "chat_inverse", "alpaca")


@dataclass
class GameStyles:
    """Variants of wording, of which one is drawn for each training context."""

    rules: list[str]  # the rules in other words: {max_turns}
    labels: list[str]  # headings of the rules
    formats: list[str]  # of FORMATS: what stands where
    prefixes: list[str]  # before each line of the history
    speakers: list[list[str]]  # pairs: who is to speak, the other; {own}, {other}: their roles
    history: str  # heading of the history in the format alpaca

    def __post_init__(self) -> None:
        key = "task.texts.styles"
        for name in ("rules", "labels", "formats", "prefixes", "speakers"):
            require(bool(getattr(self, name)), f"{key}.{name} must not be empty")
        for rules in self.rules:
            require_fields(f"{key}.rules", rules, (), ("max_turns",))
        for form in self.formats:
            require_choice(f"{key}.formats", form, FORMATS)
        for pair in self.speakers:
            require(len(pair) == 2, f"{key}.speakers must hold pairs, got {pair}")
            for name in pair:
                require_fields(f"{key}.speakers", name, (), ("own", "other"))


@dataclass
class GameTexts:
    """Texts that a player's prompt is put together from."""

    rules: dict[str, str]  # by role: {max_turns}
    instructions: dict[str, str]  # by role; {word} for the role that knows it
    names: dict[str, str]  # by role: what it is called in a line
    start: str  # in place of a history where nothing has been said
    history: str  # {lines}
    line: str  # one utterance inside {lines}: {name}, {text}
    layout: str  # {rules}, {history}, {instruction}; a response follows
    opening: str  # in a chat: what asks the first speaker to begin
    styles: GameStyles

    def __post_init__(self) -> None:
        key = "task.texts"
        for role, rules in self.rules.items():
            require_fields(f"{key}.rules.{role}", rules, (), ("max_turns",))
        for role, text in self.instructions.items():
            require_fields(f"{key}.instructions.{role}", text, (), ("word",))
        require_fields(f"{key}.start", self.start, ())
        require_fields(f"{key}.history", self.history, ("lines",))
        require_fields(f"{key}.line", self.line, ("text",), ("name",))
        require_fields(f"{key}.layout", self.layout, ("history", "instruction"), ("rules",))
        require(
            self.layout == self.layout.rstrip(),
            f"{key}.layout must not end in white space: a response begins with it",
        )
        require(bool(self.opening.strip()), f"{key}.opening must not be empty")


@dataclass
class ScriptedConfig:
    """Scripted players: their sentences, and how certain they must be before they guess."""

    hint: list[str]  # sentences of the role that knows the word: {hints}, {answer}
    ask: list[str]  # sentences of the other while it is unsure: {words}
    guess: list[str]  # ... and when it guesses: {word}
    separator: str  # between two words inside {hints} and {words}
    answers: list[
        str
    ]  # {answer} where none of the words asked about goes with the word, or one does
    hints_per_turn: int
    words_per_question: int
    questions: (
        str  # suspects | halves: of words that may be it | of hints that may go with it or not
    )
    guile: float  # how often hints are to make the other believe in a wrong word
    trust: float  # how much a hint that was heard counts, 1: as much as one sentence would
    confidence: float  # share of belief in one word from which it is guessed
    last_confidence: float  # ... in the last turn; 0: always guessed there
    hint_words: int  # how many of the commonest words may be hints
    least_sentences: int  # a hint goes with a word if they meet in as many sentences,
    least_lift: float  # ... and so much oftener than by chance, as a logarithm

    def __post_init__(self) -> None:
        key = "task.scripted"
        for name, needed, allowed in (
            ("hint", (), ("hints", "answer")),
            ("ask", ("words",), ()),
            ("guess", ("word",), ()),
        ):
            sentences = getattr(self, name)
            require(bool(sentences), f"{key}.{name} must not be empty")
            for sentence in sentences:
                require_fields(f"{key}.{name}", sentence, needed, allowed)
        require(
            len(self.answers) == 2,
            f"{key}.answers must be two: for no and for yes, got {self.answers}",
        )
        require_at_least(f"{key}.least_lift", self.least_lift, 0)
        for name in ("hints_per_turn", "words_per_question", "hint_words", "least_sentences"):
            require_at_least(f"{key}.{name}", getattr(self, name), 1)
        require_choice(f"{key}.questions", self.questions, ("suspects", "halves"))
        require(0 <= self.guile <= 1, f"{key}.guile must lie in [0, 1], got {self.guile}")
        require_positive(f"{key}.trust", self.trust)
        require_positive(f"{key}.confidence", self.confidence)
        require_at_least(f"{key}.last_confidence", self.last_confidence, 0)


@dataclass
class GameConfig(TaskFacts):
    """Settings of `task=taboo`, `twenty_questions`, `guess_my_city`: games about a word."""

    name: str
    game: str  # whose rules: taboo | twenty_questions | guess_my_city, or a plug-in's
    judge: str  # words | official: what counts as saying a word
    max_turns: int  # of a game; a turn is one utterance of each role
    collected_turns: list[int] | None  # ... of games to learn from: drawn from these two; None: all
    source: str  # package (word counts of the movie reviews) | path | list
    path: str | None  # path: training words, a .txt with one a line, or a .json list
    test_path: str | None  # ... test words; None: taken from among the others
    words: list[str] | None  # list: the words
    train_words: int | None  # how many of the commonest words to train on; None: all
    test_words: int | None  # how many to evaluate on; None: all of test_path
    stop_words: list[str]  # never played
    min_letters: int  # shorter words are never played
    nouns: bool  # package: only words that can be nouns
    max_prompt_tokens: int  # longest context
    texts: GameTexts
    scripted: ScriptedConfig

    @property
    def counts_whole_contexts(self) -> bool:
        return True

    def word_files(self) -> dict[str, Path]:
        """Setting -> the file of words that it names; none of a source that is no file."""
        named = {"task.path": self.path if self.source == "path" else None}
        named["task.test_path"] = self.test_path
        return {key: Path(path).expanduser() for key, path in named.items() if path is not None}

    def __post_init__(self) -> None:
        require_choice("task.judge", self.judge, ("words", "official"))
        require_at_least("task.max_turns", self.max_turns, 1)
        drawn = self.collected_turns
        require(
            drawn is None or (len(drawn) == 2 and 1 <= drawn[0] <= drawn[1]),
            f"task.collected_turns must be null or two numbers above 0, the lower one first, got "
            f"{drawn}",
        )
        require_choice("task.source", self.source, ("package", "path", "list"))
        require(
            self.source != "path" or self.path is not None,
            "task.source=path needs task.path, a file with a word a line",
        )
        require(
            self.source != "list" or bool(self.words),
            "task.source=list needs task.words, a list of words",
        )
        for key in ("train_words", "test_words"):
            value = getattr(self, key)
            require(value is None or value >= 1, f"task.{key} must be null or above 0, got {value}")
        require(
            self.test_words is not None or self.test_path is not None,
            "task.test_words must be given where task.test_path is null",
        )
        require_at_least("task.min_letters", self.min_letters, 1)
        require_at_least("task.max_prompt_tokens", self.max_prompt_tokens, 1)
