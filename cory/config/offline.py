"""Settings of `algorithm=imitation` and `spag`: learning from games that were played before."""

from dataclasses import dataclass

from cory.config.algorithm import AlgorithmFacts, OptimiserConfig, SamplingConfig
from cory.config.checks import (
    MOST_ROUNDS,
    require,
    require_at_least,
    require_choice,
    require_count,
    require_fields,
)
from cory.config.model import EndpointConfig

SELF_PLAY, SCRIPTED, RANDOM, ENDPOINT, NONE = "self_play", "scripted", "random", "endpoint", "none"
ITSELF, START = "itself", "start"
OPPONENTS = (ITSELF, START, SCRIPTED, RANDOM, ENDPOINT)  # any other value is the folder of a run


@dataclass
class InstructionsConfig:
    """Instructions with answers, which are trained on besides the games."""

    source: str  # package (offline stand-in) | hub | path
    path: str | None  # hub: data set name; path: a .jsonl, .json, .csv or .parquet file
    split: str  # hub, path: which rows, as train or train[:90%]
    instruction_column: str
    input_column: str | None  # what the instruction is about; may be empty in a row
    output_column: str
    template: str  # {instruction}
    input_template: str  # {instruction} and {input}, for rows that have one
    per_iteration: int  # how many an iteration adds to its games; 0: none
    max_tokens: int  # prompt and answer; longer ones are left out

    def __post_init__(self) -> None:
        key = "algorithm.instructions"
        require_choice(f"{key}.source", self.source, ("package", "hub", "path"))
        require(
            self.source == "package" or self.path is not None,
            f"{key}.source={self.source} needs {key}.path",
        )
        require_at_least(f"{key}.per_iteration", self.per_iteration, 0)
        require_at_least(f"{key}.max_tokens", self.max_tokens, 1)
        require_fields(f"{key}.template", self.template, ("instruction",))
        require_fields(f"{key}.input_template", self.input_template, ("instruction", "input"))


@dataclass
class OfflineConfig(OptimiserConfig, AlgorithmFacts):
    """Settings that imitation and self-play share: learning from a stored set of games."""

    repeats_prompts = True  # several games may be about the same word

    name: str
    iterations: int  # updates on a part of the games each; 0: only evaluate
    iterations_per_epoch: int | None  # iterations on one set of games; None: all
    prompts_per_iteration: int  # games that one iteration learns from, each with its own word
    games: str  # self_play | scripted | endpoint | none, or a file of games
    collect_only: bool  # write the file of games and learn nothing
    game_batch: int  # games that are played side by side
    minibatch_size: int  # utterances per optimiser step, over all processes
    epochs: int  # passes over one iteration's utterances
    kl_coef: float  # penalty per nat of KL to the model that the set's updates start from
    kl_estimator: str  # weighted | k1 | k3
    log_probability: str  # mean | sum over the tokens of an utterance
    average: str  # game | utterance: what counts alike
    role_weights: bool  # both roles weigh the same, however often each one wins
    varied_prompts: bool  # learn under paraphrased prompts instead of the one that was played with
    instructions: InstructionsConfig  # to be imitated beside the games
    instructions_coef: float  # their share in the loss
    opponents: dict[
        str, str | None
    ]  # name -> whom held-out games are played against; None: left out
    test_greedy: bool  # held-out games are played greedily instead of by sampling
    endpoint: EndpointConfig | None
    sampling: SamplingConfig

    def __post_init__(self) -> None:
        require_count("algorithm.iterations", self.iterations, 0, MOST_ROUNDS)
        require_count("algorithm.epochs", self.epochs, 1, MOST_ROUNDS)
        for key in ("prompts_per_iteration", "game_batch", "minibatch_size"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        self.check_optimiser()
        for key in ("kl_coef", "instructions_coef"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 0)
        require_choice("algorithm.kl_estimator", self.kl_estimator, ("weighted", "k1", "k3"))
        require_choice("algorithm.log_probability", self.log_probability, ("mean", "sum"))
        require_choice("algorithm.average", self.average, ("game", "utterance"))
        if self.iterations_per_epoch is not None:
            require_at_least("algorithm.iterations_per_epoch", self.iterations_per_epoch, 1)
        require(
            self.iterations % self.per_epoch == 0,
            f"algorithm.iterations ({self.iterations}) must be a multiple of "
            f"algorithm.iterations_per_epoch ({self.iterations_per_epoch})",
        )
        require(
            not self.asks_endpoint or self.endpoint is not None,
            "an endpoint that plays needs algorithm.endpoint: endpoint@algorithm.endpoint=openai, "
            "with a + before it where the experiment has none",
        )
        require(
            not self.from_file or self.games.endswith((".jsonl", ".json")),
            f"algorithm.games must be self_play, scripted, endpoint, none, or a file that ends in "
            f".jsonl or .json, got '{self.games}'",
        )
        self.check_opponents()
        require(
            not self.from_file or self.iterations <= self.per_epoch,
            f"algorithm.games={self.games} is one set of games; algorithm.iterations "
            f"({self.iterations}) asks for {self.iterations // self.per_epoch}",
        )
        require(
            not self.collect_only or self.iterations == self.per_epoch == 1,
            f"algorithm.collect_only=true needs algorithm.iterations=1 and "
            f"algorithm.iterations_per_epoch=null, got {self.iterations} and "
            f"{self.iterations_per_epoch}; algorithm.prompts_per_iteration says how many games",
        )
        require(
            not self.collect_only or not (self.from_file or self.games == NONE),
            f"algorithm.collect_only=true and algorithm.games={self.games}: there is nothing to "
            f"collect",
        )
        require(
            self.games != NONE or self.instructions.per_iteration > 0 or self.iterations == 0,
            "algorithm.games=none needs algorithm.instructions.per_iteration above 0: there is "
            "nothing else to learn",
        )

    def check_instructions(self, model: str, context: int) -> None:
        """ConfigError where an instruction could be longer than what a model reads at once.

        model: its setting and name, as model=tiny
        """
        longest = self.instructions.max_tokens
        learns = self.instructions.per_iteration > 0 and self.iterations > 0
        require(
            not learns or self.collect_only or longest <= context,
            f"algorithm.instructions.max_tokens={longest} exceeds the context of {model} "
            f"({context} tokens)",
        )

    def check_opponents(self) -> None:
        """Check the names and kinds of the opponents."""
        key = "algorithm.opponents"
        require(bool(self.played_against), f"{key} must name somebody: all of them are null")
        require(
            "agent_0" not in self.opponents,
            f"{key}.agent_0 is the name of the policy itself; choose another one",
        )

    @property
    def played_against(self) -> dict[str, str]:
        """Name -> itself | start | scripted | random | endpoint, or the folder of a run."""
        return {name: kind for name, kind in self.opponents.items() if kind is not None}

    @property
    def runs_played_against(self) -> dict[str, str]:
        """Name -> folder, of the opponents that are agents of other runs."""
        return {name: kind for name, kind in self.played_against.items() if kind not in OPPONENTS}

    @property
    def asks_endpoint(self) -> bool:
        """Whether a model behind an endpoint plays, games to learn from or held-out ones."""
        played = [self.games] if self.iterations > 0 else []
        return ENDPOINT in (*played, *self.opponents.values())

    def endpoint_asked(self) -> EndpointConfig | None:
        return self.endpoint if self.asks_endpoint else None

    @property
    def from_file(self) -> bool:
        """Whether the games come from a file of games that were played before."""
        return self.games not in (SELF_PLAY, SCRIPTED, ENDPOINT, NONE)

    @property
    def per_epoch(self) -> int:
        """Iterations that learn from one set of games."""
        return self.iterations_per_epoch or max(1, self.iterations)

    @property
    def games_per_epoch(self) -> int:
        """Games of one set."""
        return self.per_epoch * self.prompts_per_iteration

    def follows_run_length(self) -> bool:
        return False  # the schedule runs over one set of games

    def turns_per_policy(self) -> int:
        """One full minibatch; the number of winners' utterances is known only after the games."""
        return self.minibatch_size

    def rows_sampled(self) -> int:
        return self.game_batch

    def reads_reference(self) -> bool:
        """It plays; updates read what the policy itself said before them."""
        return START in self.played_against.values()

    def opponent_models(self) -> int:
        return len(self.runs_played_against)


@dataclass
class ImitationConfig(OfflineConfig):
    """Settings of `algorithm=imitation`: winners are to be imitated (Cheng et al., eq. 8)."""


@dataclass
class SpagConfig(OfflineConfig):
    """Settings of `algorithm=spag`: self-play and offline reinforcement learning (eq. 12)."""

    decay: float  # gamma: weight of a turn relative to the one after it
    normaliser: str  # exact | printed: whether a game's rewards add up to 1
    threshold: float  # xi: only utterances of a higher reward are trained on (1, 0 or -1)
    clip_range: float | None  # of the probability ratio; None: no clipping
    kl_in_advantage: bool  # the penalty is a part of the advantage, and clipped with it

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.decay < 1, f"algorithm.decay must lie in (0, 1), got {self.decay}")
        require_choice("algorithm.normaliser", self.normaliser, ("exact", "printed"))
        require(
            self.clip_range is None or 0 < self.clip_range < 1,
            f"algorithm.clip_range must lie in (0, 1), got {self.clip_range}",
        )
        require(
            not self.kl_in_advantage or self.kl_estimator == "weighted",
            f"algorithm.kl_in_advantage=true is the weighted estimate itself; "
            f"algorithm.kl_estimator={self.kl_estimator} would play no part",
        )
        require(
            self.threshold < 1,
            f"algorithm.threshold must be below 1, what winners get, got {self.threshold}",
        )
