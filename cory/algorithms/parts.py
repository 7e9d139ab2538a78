"""The components that algorithms are assembled from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from cory.config import BatchPlan, Config
from cory.models.actor_critic import ActorCriticModel, store_as_products
from cory.models.bundle import ModelBundle
from cory.models.engine import Engine
from cory.models.optimiser import StoredWeights
from cory.models.policy import Policy, PPOPolicy
from cory.rewards import Reward
from cory.runs.export import agent_folders, load_agent, start_from
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.state import Stateful


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

    def new_ppo_policies(
        self, names: Sequence[str], bundle: ModelBundle | None = None
    ) -> dict[str, PPOPolicy]:
        """Policies trained by PPO, starting from the pretrained model or `init_from`.

        bundle: of their models; None: the first one
        """
        bundle = bundle or self.bundle
        policies = self._ppo_policies(self._models(names, bundle), bundle)
        self._store(bundle)
        return policies

    def _ppo_policies(
        self, models: Iterable[ActorCriticModel], bundle: ModelBundle
    ) -> dict[str, PPOPolicy]:
        config, start = self.config, self.config.init_from is None
        return {
            model.name: PPOPolicy(bundle, model, engine, config.algorithm, config.hardware, start)
            for model, engine in self._engines(models, bundle)
        }

    def new_ppo_team(
        self, names: Sequence[str], others: Mapping[str, Path | None]
    ) -> tuple[dict[str, PPOPolicy], dict[str, Policy]]:
        """Policies trained by PPO, and others, which are never trained.

        others: name -> directory of the finished run that it is of; None: it begins as the model
            came
        """
        bundle, config = self.bundle, self.config
        if bundle.config.sharing == "copies":
            learners = self.new_ppo_policies(names)
            return learners, {
                name: Policy(bundle, self._fixed_model(name, folder), None, config.hardware)
                for name, folder in others.items()
            }
        # first of all: under ZeRO-3 a learner's engine splits the base with all of its adapters
        head = config.algorithm.has_value_head()
        models = list(bundle.new_models([*names, *others], self.streams.init, head))
        for model in models[len(names) :]:
            run_dir = others[model.name]
            if run_dir is not None:
                setting = f"algorithm.fixed.{model.name}"
                start_from(run_dir, [model], bundle.config, "model", setting)
        own = self._initialised(models[: len(names)], names, bundle)
        learners = self._ppo_policies(own, bundle)
        engine = next(iter(learners.values())).engine  # which keeps the base of the adapters
        frozen = models[len(names) :]
        self._store(bundle)
        return learners, {
            model.name: Policy(bundle, model, engine, config.hardware) for model in frozen
        }

    def _fixed_model(self, name: str, run_dir: Path | None) -> ActorCriticModel:
        """The agent of this name in another run, or its only one; None: the model as it came."""
        bundle, setting = self.bundle, f"algorithm.fixed.{name}"
        if run_dir is None:
            return bundle.loaded(name, bundle.config.path, setting)
        folder = agent_folders(run_dir, [name], bundle.config, "model", setting)[name]
        return bundle.loaded(name, str(folder), setting)

    def new_policies(
        self, names: Sequence[str], bundle: ModelBundle | None = None
    ) -> dict[str, Policy]:
        """Policies trained otherwise; all else as `new_ppo_policies`."""
        bundle, hardware = bundle or self.bundle, self.config.hardware
        if self.config.algorithm.one_engine(bundle.config.sharing):
            policies = self._sharing_an_engine(names, bundle)
        else:
            policies = {
                model.name: Policy(bundle, model, engine, hardware)
                for model, engine in self._engines(self._models(names, bundle), bundle)
            }
        self._store(bundle)
        return policies

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

    def new_players(
        self, name: str, others: Mapping[str, Path]
    ) -> tuple[Policy, Mapping[str, Callable[[], Policy]]]:
        """A policy to train, and functions that load the agents of other runs, never trained.

        Adapters among these are in memory from the start. A frozen reference is kept only where the
        settings say that it is read.

        others: name -> directory of a finished run with one agent
        """
        bundle, hardware = self.bundle, self.config.hardware
        if bundle.config.sharing == "copies":
            learner = self.new_policies([name])[name]
            if not self.config.algorithm.reads_reference():
                bundle.drop_reference()
            return learner, {other: self._loader(other, others[other]) for other in others}
        models: list[ActorCriticModel] = []
        # first of all: under ZeRO-3 the learner's engine splits the base with all of its adapters
        head = self.config.algorithm.has_value_head()
        for model in bundle.new_models([name, *others], self.streams.init, head):
            if models:
                setting = f"algorithm.opponents.{model.name}"
                start_from(others[model.name], [model], bundle.config, "model", setting)
            models.append(model)
        learners = self._initialised(models[:1], [name], bundle)
        ((model, engine),) = self._engines(learners, bundle)
        learner = Policy(bundle, model, engine, hardware)
        # an adapter lies on the base that the learner's engine keeps
        frozen = {
            model.name: Policy(bundle, model, learner.engine, hardware) for model in models[1:]
        }
        self._store(bundle)
        return learner, {name: partial(frozen.__getitem__, name) for name in frozen}

    def _loader(self, name: str, run_dir: Path) -> Callable[[], Policy]:
        """Loads the agent of another run; refused at once where the run does not fit."""
        bundle, setting = self.bundle, f"algorithm.opponents.{name}"
        folder = agent_folders(run_dir, [name], bundle.config, "model", setting)[name]

        def load() -> Policy:
            model = bundle.loaded(name, str(folder), setting)
            return Policy(bundle, model, None, self.config.hardware)

        return load

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
