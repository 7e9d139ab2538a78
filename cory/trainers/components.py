"""The components that a run is assembled from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

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

    def new_policies(self, names: Sequence[str]) -> dict[str, Policy]:
        """Policies to train, starting from their pretrained models or `init_from`."""
        made: dict[str, Policy] = {}
        for bundle, own in self.by_bundle(names):
            if self.config.algorithm.one_engine(bundle.config.sharing):
                made |= self._sharing_an_engine(own, bundle)
            else:
                new = self._policies(self._models(own, bundle), bundle)
                made |= {policy.name: policy for policy in new}
            self._store(bundle)
        return {name: made[name] for name in names}

    def new_ppo_policies(self, names: Sequence[str]) -> dict[str, PPOPolicy]:
        """As `new_policies`, of an algorithm that is PPO's."""
        return cast(dict[str, PPOPolicy], self.new_policies(names))

    def new_ppo_team(
        self, names: Sequence[str], others: Others
    ) -> tuple[dict[str, PPOPolicy], dict[str, Policy]]:
        """Policies to train by PPO, and others, which are never trained."""
        learners: dict[str, Policy] = {}
        loaders: dict[str, Callable[[], Policy]] = {}
        for bundle, own in self.by_bundle([*names, *others]):
            new, known = self._with_others(
                bundle,
                [name for name in own if name in names],
                {name: others[name] for name in own if name in others},
                "algorithm.fixed",
            )
            learners |= new
            loaders |= known
        ppo = cast(dict[str, PPOPolicy], {name: learners[name] for name in names})
        return ppo, {name: load() for name, load in loaders.items()}

    def new_player(self, name: str, others: Others) -> tuple[Policy, Loaders]:
        """A policy to train, and functions that load others, which are never trained.

        Adapters among these are in memory from the start. A frozen reference is kept only where the
        settings say that it is read.
        """
        learners, loaders = self._with_others(self.bundle, [name], others, "algorithm.opponents")
        copies = self.bundle.config.sharing == "copies"
        if copies and not self.config.algorithm.reads_reference():
            self.bundle.pretrained.to("meta")  # its weights are freed; the configuration stays
        return learners[name], loaders

    def _with_others(
        self, bundle: ModelBundle, names: Sequence[str], others: Others, setting: str
    ) -> tuple[dict[str, Policy], Loaders]:
        """Policies to train, and functions that give others, all of one bundle."""
        hardware = self.config.hardware
        if bundle.config.sharing == "copies":
            return self.new_policies(names), {
                name: self._loader(bundle, name, run_dir, f"{setting}.{name}")
                for name, run_dir in others.items()
            }
        # first of all: under ZeRO-3 a learner's engine splits the base with all of its adapters
        models = list(self._models(names, bundle, list(others)))
        for model in models[len(names) :]:
            run_dir = others[model.name]
            if run_dir is not None:
                start_from(run_dir, [model], self.config, f"{setting}.{model.name}")
        learners = {policy.name: policy for policy in self._policies(models[: len(names)], bundle)}
        # which keeps the base of the adapters
        engine = next((policy.engine for policy in learners.values()), None)
        frozen = {
            model.name: Policy(bundle, model, engine, hardware).as_member(self.config)
            for model in models[len(names) :]
        }
        self._store(bundle)
        return learners, {name: partial(frozen.__getitem__, name) for name in frozen}

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

    def _sharing_an_engine(self, names: Sequence[str], bundle: ModelBundle) -> dict[str, Policy]:
        """Policies with full copies whose weights take turns in one engine."""
        models = self._models(names, bundle)
        (first,) = self._policies(islice(models, 1), bundle)
        engine = first.engine
        kept = [StoredWeights(first.name, engine)]
        for model in models:
            engine.set_weights(model.trainable())
            kept.append(StoredWeights(model.name, engine))
        policies = [Policy(bundle, first.model, engine, self.config.hardware, own) for own in kept]
        return {policy.name: policy.as_member(self.config) for policy in policies}

    def _store(self, bundle: ModelBundle) -> None:
        """Keep what never trains in the precision of its products, once all copies are made."""
        for start in bundle.starts.values():  # in place of the pretrained model
            store_as_products(start)
            bundle.pretrained.to("meta")
        # a copy that trains keeps them exact; a shared base never trains, but ZeRO-3 splits it
        if bundle.config.sharing == "copies" or self.config.hardware.zero_stage < 3:
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
    ) -> Iterator[Policy]:
        """A policy of each model, with its engine: of copies one is whole at a time.

        Under ZeRO-3 the first engine of those that share a base splits it with all of its adapters.
        """
        hardware = self.config.hardware
        shared, precision = bundle.config.sharing == "adapters", bundle.config.precision
        siblings: list[Engine] = []
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
            yield new.as_member(self.config)
