"""Settings of `task=` and `reward=`: what is asked, and how responses are scored."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from cory.config.base import (
    RISING,
    TWO,
    Between0And1,
    Conflicts,
    Count,
    FunctionName,
    NotNegative,
    Number,
    Positive,
    Settings,
    Share,
    Text,
    Words,
    chosen,
    fields_of,
    matching,
    with_fields,
)
from cory.config.model import EndpointConfig, PackedConfig, PrecisionConfig, TemplateConfig


class ProgramsConfig(Settings):
    """Training questions that come with programs, which are run to learn the answers."""

    path: Text  # hub: data set name; path: a folder with a file per split, or one file
    question_column: Text
    code_column: Text  # Python that defines `function`
    function: Text  # returns the answer
    seconds: Count  # of processor time that a program may use
    memory: Annotated[int, Field(ge=64)]  # MiB that it may use, the interpreter's own 20 included


class PromptsConfig(Settings):
    """Settings of `task=prompts`, and of all tasks that put rows of a data set into a template."""

    name: Text
    max_prompt_tokens: Count  # without BOS and chat template
    # of answers, where algorithm.sampling takes them from here
    max_response_tokens: Count
    min_response_tokens: Count
    source: Literal["path", "hub", "generated"]
    path: Text | None  # path: one file, or a folder with a file per split; hub: data set name
    subset: Text | list[Text] | None  # hub: which of the data set's forms; several: all of them
    prompt_column: Text  # texts, or chat messages
    answer_column: Text | None  # right answers; None: there are none
    # how they are read
    answers: Literal["text", "number", "choice", "label", "formula", "unread"]
    seconds: Count  # formula: processor time in which two answers must be found equal
    columns: list[Text] | None  # handed to the reward; None: all but prompt_column
    only_column: Text | None  # by which rows are kept
    only: list[Text] | None  # ... those with one of these values in it; None: all
    train_split: Text  # split for training prompts, or a slice of it
    test_split: Text | None  # ... for evaluation prompts; None: by held_out_share
    held_out_share: Between0And1 | None  # of the training split's prompts, for evaluation
    # How many prompts a run is trained and tested on; None: all. They are a function of `pick_seed`
    # alone: runs of all seeds learn from, and are measured on, the same ones, and share no question
    pick_train: Count | None
    pick_test: Count | None
    pick_seed: Number
    kinds: list[Text] | None  # generated: of cory/tasks/problems.py, drawn evenly
    train_problems: Count | None  # generated: how many
    test_problems: Count | None
    programs: ProgramsConfig | None  # where training questions come from whose answers are computed
    chat: bool  # the model's chat template goes around prompts
    prompt_template: Annotated[Text, with_fields("prompt", allowed=None)]  # and columns' names
    observer_template: Annotated[Text, with_fields("answers", allowed=["query", "prompt"])]
    answer_template: Annotated[Text, with_fields("response", allowed=["query"])]
    answer_separator: Text  # between two answers, with three or more agents

    @property
    def template_columns(self) -> list[str]:
        """The columns that `prompt_template` names beside {prompt}."""
        return [field for field in fields_of(self.prompt_template) if field != "prompt"]

    @property
    def reads_answers(self) -> bool:
        """Whether prompts have right answers, with which responses are compared."""
        return self.answer_column is not None and self.answers != "unread"

    def conflicts(self) -> Conflicts:
        if self.answer_column == self.prompt_column and not self.chat:
            yield "answer_column", "must not be task.prompt_column: agents would read the answers"
        if not {"query", "prompt"} & {*fields_of(self.observer_template)}:
            yield "observer_template", "must contain {query} or {prompt}"
        alone = not self.template_columns and self.prompt_template.count("{prompt}") == 1
        if "prompt" in fields_of(self.observer_template) and not alone:
            rule = "must have {query}: task.prompt_template has not {prompt} alone, and once"
            yield "observer_template", rule


class ImdbConfig(PromptsConfig):
    """Settings of `task=imdb`: continue the first words of a movie review."""

    source: Literal["package", "path", "hub"]  # type: ignore[assignment]  # one more
    min_characters: Number  # shorter reviews are left out
    min_prompt_tokens: Count  # a prompt is the first n tokens of a review, n drawn anew each time

    def conflicts(self) -> Conflicts:
        yield from super().conflicts()
        if self.max_prompt_tokens < self.min_prompt_tokens:
            least = self.min_prompt_tokens
            yield "max_prompt_tokens", f"must not be below task.min_prompt_tokens={least}"


class GymConfig(PromptsConfig):
    """Settings of `task=reasoning_gym`: questions that a library makes and scores."""

    source: Literal["package"]  # type: ignore[assignment]  # another one
    generators: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]  # with their own settings
    train_problems: Count
    test_problems: Count


Rules = Annotated[Text, with_fields(allowed=["max_turns"])]
Speaker = Annotated[Text, with_fields(allowed=["own", "other"])]
SOME = Field(min_length=1)


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
        matching(r"(?s).*\S", "must not end in white space: a response begins with its space"),
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


class GameConfig(Settings):
    """Settings of `task=taboo`, `twenty_questions`, `guess_my_city`: games about a word."""

    name: Text
    max_prompt_tokens: Count  # BOS and chat template included
    game: Literal["taboo", "twenty_questions", "guess_my_city"]  # whose rules
    judge: Literal["words", "official"]  # what counts as saying a word
    max_turns: Count  # of a game; a turn is one utterance of each role
    collected_turns: Annotated[list[Count], TWO, RISING] | None  # ... to learn from: between these
    source: Literal["package", "path", "list"]
    path: Text | None  # path: training words, a .txt with one a line, or a .json list
    test_path: Text | None  # ... test words; None: taken from among the others
    words: list[Text] | None  # list: the words
    train_words: Count | None  # how many of the commonest words to train on; None: all
    test_words: Count | None  # how many to evaluate on; None: all
    stop_words: list[Text]  # never played
    min_letters: Count  # shorter words are never played
    nouns: bool  # package: only words that can be nouns
    texts: GameTexts
    scripted: ScriptedConfig


class PythonRewardConfig(Settings):
    """Settings of `reward=python`: a function of the user's, called as TRL calls one."""

    name: Text
    function: FunctionName


class ClassifierConfig(PrecisionConfig):
    """Settings of `reward=classifier` and `sentiment`: an output of a sequence classifier."""

    name: Text
    path: Text  # sequence-classification checkpoint: hub name, folder or asset:
    label: Text | None  # the class whose output is the score; None: the only one that there is
    output: Literal["logit", "probability"]
    chat: bool | None  # through its tokenizer's chat template; None: where there is one
    batch_size: Count  # texts per forward pass


class ExactMatchConfig(Settings):
    """Settings of `reward=exact_match`: 1 for a right answer, else 0; and `returned`: by a play."""

    name: Text


class VerifierRewardConfig(PackedConfig):
    """Settings of `reward=verifier`: how likely a trained verifier finds a response to be right."""

    name: Text
    path: Text  # folder of a verifier: agents/verifier of a run with algorithm=verifier
    base: Text | None  # what an adapter lies on; None: what its folder names
    chat: bool  # questions go through its tokenizer's chat template, as while it was trained
    template: TemplateConfig
    system: Words | None
    batch_size: Count  # responses per forward pass


class GameOutcomeConfig(Settings):
    """Settings of `reward=game_outcome`: 1 for winning a game, -1 for losing it, 0 for a tie."""

    name: Text
    broken_rules: Literal["ignored", "lose"]


class JudgeEndpointConfig(EndpointConfig):
    """Which chat model grades responses; as `EndpointConfig`."""

    key: ClassVar[str] = "reward.endpoint"


class JudgeConfig(Settings):
    """Settings of `reward=judge`: a chat model behind an endpoint grades by a rubric."""

    name: Text
    rubric: Annotated[Text, with_fields("lowest", "highest", "mark")]
    request: Annotated[Text, with_fields("query", "response", allowed=["answer"])]
    mark: Words  # stands before the grade in its reply
    lowest: float  # of the grades
    highest: float
    output: Literal["grade", "share"]
    endpoint: JudgeEndpointConfig

    def conflicts(self) -> Conflicts:
        if self.lowest >= self.highest:
            yield "lowest", f"must be below highest={self.highest}"


class SumConfig(Settings):
    """Settings of `reward=sum`: several rewards, weighted and added."""

    name: Text
    parts: dict[str, Annotated[Any, chosen("reward")]]
    weights: dict[str, float]  # name of a part -> number; a part that is not named has 1

    def conflicts(self) -> Conflicts:
        if not self.parts:
            yield "parts", "must not be empty: +reward@reward.parts.<name>=<option> adds one"
        for name, part in self.parts.items():
            if part.name in ("sum", "game_outcome"):
                yield f"parts.{name}.name", "cannot be a part of a sum"
        known = ", ".join(self.parts)
        for name in self.weights:
            if name not in self.parts:
                yield "weights", f"must be of parts: {name} is none; there are {known}"


def judges(reward: Any) -> dict[str, Any]:
    """The rewards of a run by their group of settings: one, or the parts of a sum."""
    if not isinstance(reward, SumConfig):
        return {"reward": reward}
    return {f"reward.parts.{name}": part for name, part in reward.parts.items()}
