"""The components that algorithms are assembled from; credit rules of the user's."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from cory import distributed
from cory.config import BatchPlan, Config, ConfigError, require
from cory.episode import Episode
from cory.models.actor_critic import ActorCriticModel, store_as_products
from cory.models.bundle import ModelBundle
from cory.models.engine import Engine
from cory.models.optimiser import StoredWeights
from cory.models.policy import Policy, PPOPolicy
from cory.rewards import Reward
from cory.rewards.python_function import as_number
from cory.runs.export import agent_folders, load_agent, start_from
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.steps import Stateful
from cory.user_function import RAISED, UserFunction, load_function, told

CreditRule = Callable[[list[Episode]], None]  # fills turn.credit of every turn
P = TypeVar("P", bound=Policy)
Make = Callable[[ModelBundle, ActorCriticModel, Engine], P]
# name -> directory of the finished run that an agent is of; None: it begins as the model came
Others = Mapping[str, Path | None]
Loaders = Mapping[str, Callable[[], Policy]]


@dataclass(frozen=True)
class Parts:
    """The components an algorithm is assembled from."""

    config: Config
    plan: BatchPlan
    bundle: ModelBundle
    partner: ModelBundle | None  # of the second model, if any
    task: Task
    reward: Reward
    streams: Streams

    @property
    def carried(self) -> dict[str, Stateful]:
        """The components whose state a checkpoint keeps."""
        return {"task": self.task, "streams": self.streams}

    def new_policies(
        self, names: Sequence[str], bundle: ModelBundle | None = None
    ) -> dict[str, Policy]:
        """Policies to train, starting from the pretrained model or `init_from`.

        bundle: of their models; None: the first one
        """
        bundle = bundle or self.bundle
        if self.config.algorithm.one_engine(bundle.config.sharing):
            policies = self._sharing_an_engine(names, bundle)
            self._store(bundle)
            return policies
        return self._policies(self._plain, names, bundle)

    def new_ppo_policies(
        self, names: Sequence[str], bundle: ModelBundle | None = None
    ) -> dict[str, PPOPolicy]:
        """Policies to train by PPO; all else as `new_policies`."""
        return self._policies(self._ppo, names, bundle or self.bundle)

    def new_ppo_team(
        self, names: Sequence[str], others: Others
    ) -> tuple[dict[str, PPOPolicy], dict[str, Policy]]:
        """Policies to train by PPO, and others, which are never trained."""
        learners, loaders = self._with_others(self._ppo, names, others, "algorithm.fixed")
        return learners, {name: load() for name, load in loaders.items()}

    def new_player(self, name: str, others: Others) -> tuple[Policy, Loaders]:
        """A policy to train, and functions that load others, which are never trained.

        Adapters among these are in memory from the start. A frozen reference is kept only where the
        settings say that it is read.
        """
        setting = "algorithm.opponents"
        learners, loaders = self._with_others(self._plain, [name], others, setting)
        copies = self.bundle.config.sharing == "copies"
        if copies and not self.config.algorithm.reads_reference():
            self.bundle.pretrained.to("meta")  # its weights are freed; the configuration stays
        return learners[name], loaders

    def _with_others(
        self, make: Make[P], names: Sequence[str], others: Others, setting: str
    ) -> tuple[dict[str, P], Loaders]:
        """Policies to train, and functions that give others of the first model.

        setting: the group of settings that names the others
        """
        bundle, hardware = self.bundle, self.config.hardware
        if bundle.config.sharing == "copies":
            learners = self._policies(make, names, bundle)
            return learners, {
                name: self._loader(name, run_dir, f"{setting}.{name}")
                for name, run_dir in others.items()
            }
        # first of all: under ZeRO-3 a learner's engine splits the base with all of its adapters
        head = self.config.algorithm.has_value_head()
        models = list(bundle.new_models([*names, *others], self.streams.init, head))
        for model in models[len(names) :]:
            run_dir = others[model.name]
            if run_dir is not None:
                start_from(run_dir, [model], bundle.config, "model", f"{setting}.{model.name}")
        own = self._engines(self._initialised(models[: len(names)], names, bundle), bundle)
        learners = {model.name: make(bundle, model, engine) for model, engine in own}
        engine = next(iter(learners.values())).engine  # which keeps the base of the adapters
        frozen = {m.name: Policy(bundle, m, engine, hardware) for m in models[len(names) :]}
        self._store(bundle)
        return learners, {name: partial(frozen.__getitem__, name) for name in frozen}

    def _loader(self, name: str, run_dir: Path | None, setting: str) -> Callable[[], Policy]:
        """Loads an agent; a run that does not fit is refused at once."""
        bundle, path = self.bundle, self.bundle.config.path
        if run_dir is not None:
            path = str(agent_folders(run_dir, [name], bundle.config, "model", setting)[name])
        hardware = self.config.hardware
        return lambda: Policy(bundle, bundle.loaded(name, path, setting), None, hardware)

    def _policies(self, make: Make[P], names: Sequence[str], bundle: ModelBundle) -> dict[str, P]:
        engines = self._engines(self._models(names, bundle), bundle)
        policies = {model.name: make(bundle, model, engine) for model, engine in engines}
        self._store(bundle)
        return policies

    def _plain(self, bundle: ModelBundle, model: ActorCriticModel, engine: Engine) -> Policy:
        return Policy(bundle, model, engine, self.config.hardware)

    def _ppo(self, bundle: ModelBundle, model: ActorCriticModel, engine: Engine) -> PPOPolicy:
        config, start = self.config, self.config.init_from is None
        return PPOPolicy(bundle, model, engine, config.algorithm, config.hardware, start)

    def _sharing_an_engine(self, names: Sequence[str], bundle: ModelBundle) -> dict[str, Policy]:
        """Policies with full copies whose weights take turns in one engine."""
        models = self._models(names, bundle)
        ((first, engine),) = self._engines(islice(models, 1), bundle)
        stored = [StoredWeights(first.name, engine)]
        for model in models:
            engine.set_weights(model.trainable())
            stored.append(StoredWeights(model.name, engine))
        hardware = self.config.hardware
        return {own.name: Policy(bundle, first, engine, hardware, own) for own in stored}

    def _store(self, bundle: ModelBundle) -> None:
        """Keep what never trains in the precision of its products, once all copies are made."""
        # a copy that trains keeps them exact; a shared base never trains, but ZeRO-3 splits it
        if bundle.config.sharing == "copies" or self.config.hardware.zero_stage < 3:
            store_as_products(bundle.pretrained)

    def _models(self, names: Sequence[str], bundle: ModelBundle) -> Iterator[ActorCriticModel]:
        head = self.config.algorithm.has_value_head()
        new = bundle.new_models(list(names), self.streams.init, head)
        return self._initialised(new, names, bundle)

    def _initialised(
        self, models: Iterable[ActorCriticModel], names: Sequence[str], bundle: ModelBundle
    ) -> Iterator[ActorCriticModel]:
        """The models with the weights that the run starts from: pretrained, or of `init_from`."""
        run_dir, folders = self.config.init_from, dict[str, Path]()
        if run_dir is not None:
            folders = agent_folders(Path(run_dir), names, bundle.config, bundle.group, "init_from")
        for model in models:
            if model.name in folders:
                load_agent(model, folders[model.name], bundle.config, "init_from")
            yield model

    def _engines(
        self, models: Iterable[ActorCriticModel], bundle: ModelBundle
    ) -> Iterator[tuple[ActorCriticModel, Engine]]:
        """Each model with its engine: of copies one is whole at a time.

        Under ZeRO-3 the first engine of those that share a base splits it with all of its adapters.
        """
        config, shared = self.config, bundle.config.sharing == "adapters"
        siblings: list[Engine] = []
        for model in list(models) if shared else models:
            if config.hardware.gradient_checkpointing:
                model.lm.gradient_checkpointing_enable({"use_reentrant": False})
            own = siblings if shared else []
            precision = config.model.precision
            yield (
                model,
                Engine(model, config.algorithm, config.hardware, self.plan, precision, own),
            )


def numbered(count: int) -> list[str]:
    """`agent_0` to `agent_<count - 1>`."""
    return [f"agent_{number}" for number in range(count)]


def credit_rule(value: str, rules: Mapping[str, CreditRule]) -> CreditRule:
    """The rule that `algorithm.credit` names: one of these, or the user's function.

    The function takes the utterances of an episode, in their order, each with `agent`, `role`,
    `text` and `score`, and returns a number for each.
    """
    if value in rules:
        return rules[value]
    function = load_function("algorithm.credit", value)

    def assign(episodes: list[Episode]) -> None:
        # by one process: what it draws is the same in all
        credits = distributed.first_works(lambda: [credits_of(function, e) for e in episodes])
        for episode, values in zip(episodes, credits, strict=True):
            for turn, credit in zip(episode.turns, values, strict=True):
                turn.credit = credit

    return assign


def credits_of(function: UserFunction, episode: Episode) -> list[float]:
    """What the user's function returns for an episode; ConfigError unless it is what it must be."""
    said = f"{function.said}, prompt {episode.prompt.id}"
    try:
        returned = function.call(episode.turns)
    except RAISED as error:  # whatever a user's function raises
        raise ConfigError(f"{said}: {told(error, function.file)}") from error
    turns = len(episode.turns)
    values = returned if isinstance(returned, list) else []
    numbers = [number for value in values if (number := as_number(value)) is not None]
    require(
        len(numbers) == len(values) == turns,
        f"{said}: must return a list of {turns} numbers, one per utterance; got {returned!r}",
    )
    return numbers
