"""The data of an iteration: prompts, turns, episodes, and batches of turns as tensors."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

Metrics = dict[str, float]
RECORDED = -1  # `asked_in` of a turn that was not sampled, but taken from another episode
TEXT_ONLY = [0]  # response ids where only the text is known; any token, so the turn is not absent
Message = dict[str, str]  # of a chat: `role` (user or assistant) and `content`
Context = str | list[Message]  # a prompt for a model; a chat model takes a text as one message


def from_user(content: str) -> Message:
    return {"role": "user", "content": content}


def are_messages(value: Any) -> bool:
    """Whether a value of the user's is the messages of a chat, one at least."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(one, dict) and one.keys() == {"role", "content"} for one in value)
        and all(isinstance(text, str) for one in value for text in one.values())
    )


def as_messages(context: Context) -> list[Message]:
    """The messages with which a chat begins; of a text, one of the user."""
    return context if isinstance(context, list) else [from_user(context)]


def as_text(context: Context) -> str:
    """A context as samples.jsonl keeps it; of a single message, its content."""
    if isinstance(context, str):
        return context
    return context[0]["content"] if len(context) == 1 else json.dumps(context, ensure_ascii=False)


@dataclass(frozen=True)
class Prompt:
    """One task item, as the first agent sees it."""

    id: str
    text: str
    answer: str | None = None  # ground truth, never shown to an agent
    columns: Mapping[str, Any] = field(default_factory=dict)  # the data's others, for rewards
    messages: tuple[Mapping[str, str], ...] | None = None  # the prompt as chat, if it came so
    answer_text: str | None = None  # the whole answer of the data, which `answer` may be a part of

    @property
    def opening(self) -> Context:
        """What the first agent is shown: the text, or the messages."""
        return self.asking(self.text)

    def asking(self, text: str) -> Context:
        """`text` in place of this prompt's, after the messages before it if it came as a chat."""
        if self.messages is None:
            return text
        return [*map(dict, self.messages[:-1]), from_user(text)]


@dataclass
class Asked:
    context: Context
    role: str
    round: int = 0
    prompt: str = ""  # id of the prompt that the episode is about
    episode: int = 0  # number among those of its key
    turn: int = 0  # how often anybody has spoken in this role before, in this episode
    another: tuple[str, ...] = ()  # in the key of another sample than the episode's own
    key: str = ""  # of the utterance: no other one of the run has it
    uniforms: Tensor | None = None  # (limit,) float64 in [0, 1), one per token; None: greedily


class TokenRow:
    """A response in its context, as token ids: a turn or an example.

    The context is not empty, and never learnt; where the response is empty, nothing is.
    """

    context_ids: Sequence[int]
    response_ids: Sequence[int]

    @property
    def tokens(self) -> int:
        return len(self.context_ids) + len(self.response_ids)


@dataclass
class PlainRow(TokenRow):
    """No more than these."""

    context_ids: list[int]
    response_ids: list[int]


@dataclass
class Turn(TokenRow):
    """One response by one agent, with the context it saw.

    A turn after the end of an episode is absent: it has no response tokens, gets neither score nor
    credit, and no agent learns from it.
    """

    agent: str  # name of the policy that gave it and learns from it, or of an actor without one
    role: str
    round: int
    context: str  # exactly what the agent saw, chat template included
    response: str  # without private thinking: what others, rewards and readers of answers see
    context_ids: list[int]
    response_ids: list[int]  # ends with EOS when the model stopped by itself
    score: float | None = None  # set by the reward
    right: bool | None = None  # whether the answer is; None: nobody has judged it
    bonus: float = 0.0  # set by the credit rule: the part of the credit that shaping adds
    flawed: bool = False  # set by the credit rule: a guard against reward hacking was broken
    credit: float | None = None  # set by the credit rule
    # log-probability of each token under the distribution that it was sampled from
    sampler_logprobs: list[float] = field(default_factory=list)
    asked_in: int = 0  # how much of the episode had been said when it was asked, which it may know
    served_as: str = ""  # the adapter that it was said with, where a server sampled it
    cut_off: bool = False  # whether the limit on its tokens ended it
    asked: Context = ""  # `context` before it was rendered
    thinking: str = ""  # what was said before it in private
    thinking_tokens: int = 0  # of `response_ids`, which begin with it
    summary: str | None = None  # set by a debate: the summary of the others' last answers it saw
    shortened: bool = False  # set by a debate: its prompt was shortened to fit the context
    # set by a sum of rewards: each one's score before its weight; None where it does not apply
    parts: dict[str, float | None] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)  # what a reward function has logged of it
    member: str = ""  # of a user's team: the agent's name, whatever its policy and role are called

    @property
    def speaker(self) -> str:
        """Who is paid for it: the agent of a user's team; else the role, which one agent has."""
        return self.member or self.role

    @property
    def absent(self) -> bool:
        """Whether the episode had ended before the turn."""
        return not self.response_ids

    @property
    def text(self) -> str:
        """The response, without private thinking."""
        return self.response

    @property
    def ids(self) -> list[int]:
        """The tokens of the response, EOS included."""
        return self.response_ids

    @property
    def logprob(self) -> float:
        """Log-probability of the response, nats; 0 where its tokens are not known."""
        return sum(self.sampler_logprobs)


def score_of(turn: Turn) -> float:
    """The score of a turn that was scored; ValueError where it was not."""
    if turn.score is None:
        raise ValueError(f"the turn of {turn.agent} ({turn.role}) has no score")
    return turn.score


def absent_turn(agent: str, role: str, round: int) -> Turn:
    """A turn after the end of an episode; of its context one token stays, for attention."""
    return Turn(agent, role, round, context="", response="", context_ids=[0], response_ids=[])


def further_columns(turn: Turn) -> dict[str, Any]:
    """Private thinking, what a reward has left, whose role it was, for samples.jsonl."""
    columns = {"thinking": turn.thinking, "parts": turn.parts, "extra": turn.extra}
    columns["member"] = "" if turn.member == turn.role else turn.member
    return {name: value for name, value in columns.items() if value}


@dataclass
class Episode:
    """One asking of a task item, with all turns that answer it."""

    prompt: Prompt
    turns: list[Turn]


def turns_of(episodes: Iterable[Episode], agent: str) -> list[Turn]:
    return [turn for episode in episodes for turn in episode.turns if turn.agent == agent]


def tokens_of(episodes: Iterable[Episode]) -> int:
    """Tokens of all responses that were sampled for the episodes."""
    sampled = (turn for e in episodes for turn in e.turns if turn.asked_in != RECORDED)
    return sum(len(turn.response_ids) for turn in sampled)


@dataclass(frozen=True)
class Batch:
    """Turns of one agent as tensors. B turns, P context tokens, R response tokens, L = P + R.

    Column t of every (B, R) tensor belongs to response token t; entries outside
    `response_mask` are 0 and no result depends on them.
    """

    input_ids: Tensor  # (B, L) int64; context padded left, response padded right
    attention_mask: Tensor  # (B, L) bool
    response_mask: Tensor  # (B, R) bool, True on generated tokens, EOS included
    credits: Tensor  # (B,)   float32
    logprobs: Tensor  # (B, R) float32, under the policy that generated
    ref_logprobs: Tensor  # (B, R) float32, under the frozen reference
    kl: Tensor  # (B, R) float32, by `kl_estimator`: logged and, with kl_in=reward, penalised
    entropy: Tensor  # (B, R) float32, nats
    values: Tensor | None  # (B, R) float32, of the state before the token; None: no value head
    # (B, 2, M) int64: what a central critic reads, as input_ids and attention_mask; None: the same
    critic: Tensor | None = None

    def __len__(self) -> int:
        return len(self.credits)

    def rows(self, index: Tensor) -> "Batch":
        """The turns at `index` ((n,) int64), with all-padding columns left in place."""
        chosen: dict[str, Any] = {
            name: None if column is None else column[index] for name, column in vars(self).items()
        }
        return Batch(**chosen)
