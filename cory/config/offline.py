"""Settings of `algorithm=imitation` and `spag`: learning from games that were played before."""

from typing import Annotated, Literal

from pydantic import Field

from cory.config.algorithm import AlgorithmConfig
from cory.config.base import (
    Between0And1,
    Conflicts,
    Count,
    NotNegative,
    Number,
    Settings,
    Text,
    with_fields,
)
from cory.config.model import EndpointConfig

# any other value is the folder of a run
OPPONENTS = ("itself", "start", "scripted", "endpoint")


class InstructionsConfig(Settings):
    """Instructions with answers, which are trained on besides the games."""

    source: Literal["package", "hub", "path"]
    path: Text | None  # hub: data set name; path: a .jsonl, .json, .csv or .parquet file
    split: Text  # hub, path: which rows, as train or train[:90%]
    instruction_column: Text
    input_column: Text | None  # what the instruction is about; may be empty in a row
    output_column: Text
    template: Annotated[Text, with_fields("instruction")]
    input_template: Annotated[Text, with_fields("instruction", "input")]
    per_iteration: Number  # how many an iteration adds to its games; 0: none
    max_tokens: Count  # prompt and answer; longer ones are left out


class OfflineConfig(AlgorithmConfig):
    """Settings of `algorithm=imitation`, and of all that learns from a stored set of games."""

    iterations_per_epoch: Count | None  # iterations on one set of games; None: all
    games: Text  # self_play | scripted | endpoint | none, or a file of games
    game_batch: Count  # games that are played side by side
    kl_coef: NotNegative  # per nat of KL to the model that the set's updates start from
    kl_estimator: Literal["weighted", "k1", "k3"]
    average: Literal["game", "utterance"]
    role_weights: bool  # both roles weigh the same, however often each one wins
    varied_prompts: bool
    instructions: InstructionsConfig  # to be imitated beside the games
    instructions_coef: NotNegative  # their share in the loss
    opponents: dict[str, Text | None]  # name -> against whom; None: left out
    test_greedy: bool
    endpoint: EndpointConfig | None

    def conflicts(self) -> Conflicts:
        yield from super().conflicts()
        if self.asks_endpoint and self.endpoint is None:
            yield "endpoint", "must be given where one plays: (+)endpoint@algorithm.endpoint=openai"
        if not self.played_against:
            yield "opponents", "must name somebody: all of them are null"
        if "agent_0" in self.opponents:
            yield "opponents", "must not name agent_0, the policy itself; choose another name"
        each = self.per_epoch
        if self.iterations % each:
            yield "iterations", f"must be a multiple of algorithm.iterations_per_epoch={each}"
        if self.from_file and not self.games.endswith((".jsonl", ".json")):
            rule = "must be self_play, scripted, endpoint, none, or a file, a .jsonl or .json"
            yield "games", rule
        if self.from_file and self.iterations > each:
            sets = self.iterations // each
            yield "games", f"is one set of games; algorithm.iterations asks for {sets}"
        untaught = self.games == "none" and self.instructions.per_iteration == 0
        if untaught and self.iterations > 0:
            yield "games", "needs algorithm.instructions.per_iteration above 0 to learn from"

    @property
    def played_against(self) -> dict[str, str]:
        """Name -> itself | start | scripted | endpoint, or the folder of a run."""
        return {name: kind for name, kind in self.opponents.items() if kind is not None}

    @property
    def runs_played_against(self) -> dict[str, str]:
        """Name -> folder, of the opponents that are agents of other runs."""
        return {name: kind for name, kind in self.played_against.items() if kind not in OPPONENTS}

    @property
    def asks_endpoint(self) -> bool:
        """Whether a model behind an endpoint plays, games to learn from or held-out ones."""
        played = [self.games] if self.iterations > 0 else []
        return "endpoint" in (*played, *self.opponents.values())

    @property
    def from_file(self) -> bool:
        """Whether the games come from a file of games that were played before."""
        return self.games not in ("self_play", "scripted", "endpoint", "none")

    @property
    def per_epoch(self) -> int:
        """Iterations that learn from one set of games."""
        return self.iterations_per_epoch or max(1, self.iterations)

    @property
    def games_per_epoch(self) -> int:
        """Games of one set."""
        return self.per_epoch * self.prompts_per_iteration

    def rows_sampled(self) -> int:
        return self.game_batch

    def reads_reference(self) -> bool:
        """It plays; updates read what the policy itself said before them."""
        return "start" in self.played_against.values()


class SpagConfig(OfflineConfig):
    """Settings of `algorithm=spag`: offline reinforcement learning from self-play (eq. 12)."""

    decay: Between0And1  # gamma: weight of a turn relative to the one after it
    threshold: Annotated[float, Field(lt=1)]  # xi: only higher rewards are trained on (1, 0 or -1)
    clip_range: Between0And1 | None  # of the probability ratio; None: no clipping
    kl_in_advantage: bool  # the penalty is a part of the advantage, and clipped with it
