"""The components that a run is assembled from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from cory import distributed
from cory.config import BatchPlan, Config, PPOConfig
from cory.models.actor_critic import ActorCriticModel, store_as_products
from cory.models.bundle import ModelBundle, StoredWeights, load_frozen
from cory.models.engine import Engine
from cory.models.policy import Policy, PPOPolicy
from cory.rewards import Reward
from cory.runs.export import agent_folders, start_from
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.steps import Stateful

# name -> directory of the finished run that an agent is of; None: it begins as the model came
Others = Mapping[str, Path | None]
Loaders = Mapping[str, Callable[[], Policy]]


@dataclass(frozen=True)
class Components:
    """The components an algorithm is assembled from."""

    config: Config
    plan: BatchPlan
    bundles: Mapping[str, ModelBundle]  # by their place in `Config.models`
    task: Task
    reward: Reward
    streams: Streams

    @property
    def bundle(self) -> ModelBundle:
        """That of `model`, whose tokens prompts are counted in."""
        return self.bundles["model"]

    def bundle_of(self, name: str) -> ModelBundle:
        """That of a policy, or of an agent that does not learn."""
        return self.bundles[self.config.group_of(name)]

    def by_bundle(self, names: Iterable[str]) -> list[tuple[ModelBundle, list[str]]]:
        """Those of some bundle, for each that has some."""
        parted = [
            (one, [n for n in names if self.bundle_of(n) is one]) for one in self.bundles.values()
        ]
        return [(bundle, own) for bundle, own in parted if own]

    @property
    def carried(self) -> dict[str, Stateful]:
        """The components whose state a checkpoint keeps."""
        return {"task": self.task.sampler, "streams": self.streams}

    def new_policies(self, names: Sequence[str]) -> dict[str, Any]:
        """Policies to train, starting from their pretrained models or `init_from`.

        Of an algorithm that is PPO's, each is a `PPOPolicy`.
        """
        return self.new_team(names, {}, "")[0]

    def new_team(
        self, names: Sequence[str], others: Others, setting: str
    ) -> tuple[dict[str, Any], Loaders]:
        """As `new_policies`, and functions that load others, which are never trained.

        Adapters among these are in memory from the start.

        setting: the one that names the others
        """
        learners: dict[str, Policy] = {}
        loaders: dict[str, Callable[[], Policy]] = {}
        for bundle, known in self.by_bundle([*names, *others]):
            own = [name for name in known if name in names]
            runs = {name: others[name] for name in known if name in others}
            if bundle.config.sharing == "adapters":
                learners |= self._on_one_base(own, bundle, runs, setting, loaders)
                continue
            if own:
                one_engine = self.config.algorithm.one_engine("copies")
                make = self._sharing_an_engine if one_engine else self._policies
                learners |= make(self._models(own, bundle), bundle)
                self._store(bundle)
            for name, run_dir in runs.items():
                loaders[name] = self._loader(bundle, name, run_dir, f"{setting}.{name}")
        return {name: learners[name] for name in names}, loaders

    def _on_one_base(
        self,
        names: Sequence[str],
        bundle: ModelBundle,
        others: Others,
        setting: str,
        loaders: dict[str, Callable[[], Policy]],
    ) -> dict[str, Policy]:
        """As `new_team`, of adapters; adds to the loaders."""
        # first of all: under ZeRO-3 a learner's engine splits the base with all of its adapters
        models = list(self._models(names, bundle, list(others)))
        for model in models[len(names) :]:
            run_dir = others[model.name]
            if run_dir is not None:
                start_from(run_dir, [model], self.config, f"{setting}.{model.name}")
        learners = self._policies(models[: len(names)], bundle)
        # which keeps the base of the adapters
        engine = next((policy.engine for policy in learners.values()), None)
        for model in models[len(names) :]:
            policy = Policy(bundle, model, engine, self.config.hardware)
            loaders[model.name] = partial(policy.as_member, self.config)
        self._store(bundle)
        return learners

    def _loader(
        self, bundle: ModelBundle, name: str, run_dir: Path | None, setting: str
    ) -> Callable[[], Policy]:
        """Loads an agent; a run that does not fit is refused at once."""
        path = bundle.config.path
        if run_dir is not None:
            path = str(agent_folders(run_dir, [name], self.config, setting)[name])

        def load() -> Policy:
            own = bundle.config
            lm = load_frozen(own, path, setting, bundle.device, remote_code=own.remote_code)
            store_as_products(lm)
            policy = Policy(bundle, ActorCriticModel(name, lm), None, self.config.hardware)
            return policy.as_member(self.config)

        return load

    def _sharing_an_engine(
        self, models: Iterator[ActorCriticModel], bundle: ModelBundle
    ) -> dict[str, Policy]:
        """Policies with full copies whose weights take turns in one engine."""
        (first,) = self._policies(islice(models, 1), bundle).values()
        engine = first.engine
        kept = [StoredWeights(first.name, engine)]
        for model in models:
            engine.set_weights(model.trainable())
            kept.append(StoredWeights(model.name, engine))
        policies = [Policy(bundle, first.model, engine, self.config.hardware, own) for own in kept]
        return {policy.name: policy.as_member(self.config) for policy in policies}

    def _store(self, bundle: ModelBundle) -> None:
        """Keep what never trains in the precision of its products, once all copies are made."""
        copies = bundle.config.sharing == "copies"
        for start in bundle.starts.values():  # in place of the pretrained model
            store_as_products(start)
        if bundle.starts or (copies and not self.config.algorithm.reads_reference()):
            bundle.pretrained.to("meta")  # its weights are freed; the configuration stays
        # a copy that trains keeps them exact; a shared base never trains, but ZeRO-3 splits it
        if copies or self.config.hardware.zero_stage < 3:
            store_as_products(bundle.pretrained)

    def _models(
        self, names: Sequence[str], bundle: ModelBundle, others: Sequence[str] = ()
    ) -> Iterator[ActorCriticModel]:
        """Models with the weights that the run starts from: pretrained, or of `init_from`.

        others: of further models, which come after them and start pretrained
        """
        run_dir, folders = self.config.init_from, dict[str, Path]()
        if run_dir is not None:
            folders = agent_folders(Path(run_dir), names, self.config, "init_from")
            algorithm, own = self.config.algorithm, bundle.config
            learns = isinstance(algorithm, PPOConfig) and algorithm.iterations > 0
            if learns and own.reference == "pretrained":
                distributed.note(
                    f"init_from={run_dir}: the KL is to {own.path} "
                    f"({bundle.group}.reference=init_from: to that run's agents)"
                )
        head = self.config.algorithm.has_value_head()
        all_names = [*names, *others]
        for model in bundle.new_models(all_names, self.streams.init, head, self.config.model_of):
            if model.name in folders:
                model.load(folders[model.name], "init_from", bundle.config.remote_code)
                if bundle.config.reference == "init_from":
                    bundle.keep_start(model, folders[model.name])
            yield model

    def _policies(
        self, models: Iterable[ActorCriticModel], bundle: ModelBundle
    ) -> dict[str, Policy]:
        """A policy of each model, with its engine: of copies one is whole at a time.

        Under ZeRO-3 the first engine of those that share a base splits it with all of its adapters.
        """
        hardware = self.config.hardware
        shared, precision = bundle.config.sharing == "adapters", bundle.config.precision
        siblings: list[Engine] = []
        made: dict[str, Policy] = {}
        for model in list(models) if shared else models:
            if hardware.gradient_checkpointing:
                model.lm.gradient_checkpointing_enable({"use_reentrant": False})
            own = siblings if shared else []
            config = self.config.algorithm_of(model.name)
            engine = Engine(model, config, hardware, self.plan, precision, own)
            if isinstance(config, PPOConfig):
                start = self.config.init_from is None or bundle.config.reference == "init_from"
                new: Policy = PPOPolicy(bundle, model, engine, config, hardware, start)
            else:
                new = Policy(bundle, model, engine, hardware)
            made[new.name] = new.as_member(self.config)
        return made
