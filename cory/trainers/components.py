"""The components that a run is assembled from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

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
    bundle: ModelBundle
    partner: ModelBundle | None  # of the second model, if any
    task: Task
    reward: Reward
    streams: Streams

    @property
    def carried(self) -> dict[str, Stateful]:
        """The components whose state a checkpoint keeps."""
        return {"task": self.task.sampler, "streams": self.streams}

    def new_policies(
        self, names: Sequence[str], bundle: ModelBundle | None = None
    ) -> dict[str, Policy]:
        """Policies to train, starting from the pretrained model or `init_from`.

        bundle: of their models; None: the first one
        """
        bundle = bundle or self.bundle
        if self.config.algorithm.one_engine(bundle.config.sharing):
            policies = self._sharing_an_engine(names, bundle)
        else:
            new = self._policies(self._models(names, bundle), bundle)
            policies = {policy.name: policy for policy in new}
        self._store(bundle)
        return policies

    def new_ppo_policies(
        self, names: Sequence[str], bundle: ModelBundle | None = None
    ) -> dict[str, PPOPolicy]:
        """As `new_policies`, of an algorithm that is PPO's."""
        return cast(dict[str, PPOPolicy], self.new_policies(names, bundle))

    def new_ppo_team(
        self, names: Sequence[str], others: Others
    ) -> tuple[dict[str, PPOPolicy], dict[str, Policy]]:
        """Policies to train by PPO, and others, which are never trained."""
        learners, loaders = self._with_others(names, others, "algorithm.fixed")
        ppo = cast(dict[str, PPOPolicy], learners)
        return ppo, {name: load() for name, load in loaders.items()}

    def partner_as(self, name: str) -> Policy:
        """The second model as it came, which responds under this name and never learns."""
        assert self.partner is not None  # settings without one were refused
        self._store(self.partner)
        model = ActorCriticModel(name, self.partner.pretrained)
        return Policy(self.partner, model, None, self.config.hardware)

    def new_player(self, name: str, others: Others) -> tuple[Policy, Loaders]:
        """A policy to train, and functions that load others, which are never trained.

        Adapters among these are in memory from the start. A frozen reference is kept only where the
        settings say that it is read.
        """
        setting = "algorithm.opponents"
        learners, loaders = self._with_others([name], others, setting)
        copies = self.bundle.config.sharing == "copies"
        if copies and not self.config.algorithm.reads_reference():
            self.bundle.pretrained.to("meta")  # its weights are freed; the configuration stays
        return learners[name], loaders

    def _with_others(
        self, names: Sequence[str], others: Others, setting: str
    ) -> tuple[dict[str, Policy], Loaders]:
        """Policies to train, and functions that give others of the first model.

        setting: the group of settings that names the others
        """
        bundle, hardware = self.bundle, self.config.hardware
        if bundle.config.sharing == "copies":
            return self.new_policies(names), {
                name: self._loader(name, run_dir, f"{setting}.{name}")
                for name, run_dir in others.items()
            }
        # first of all: under ZeRO-3 a learner's engine splits the base with all of its adapters
        models = list(self._models(names, bundle, list(others)))
        for model in models[len(names) :]:
            run_dir = others[model.name]
            if run_dir is not None:
                start_from(run_dir, [model], bundle.config, "model", f"{setting}.{model.name}")
        own = self._policies(models[: len(names)], bundle)
        learners = {policy.name: policy for policy in own}
        engine = next(iter(learners.values())).engine  # which keeps the base of the adapters
        own_sampling = self.config.own_sampling
        frozen = {
            m.name: Policy(bundle, m, engine, hardware, sampling=own_sampling(m.name))
            for m in models[len(names) :]
        }
        self._store(bundle)
        return learners, {name: partial(frozen.__getitem__, name) for name in frozen}

    def _loader(self, name: str, run_dir: Path | None, setting: str) -> Callable[[], Policy]:
        """Loads an agent; a run that does not fit is refused at once."""
        bundle, path = self.bundle, self.bundle.config.path
        if run_dir is not None:
            path = str(agent_folders(run_dir, [name], bundle.config, "model", setting)[name])

        def load() -> Policy:
            own = bundle.config
            lm = load_frozen(own, path, setting, bundle.device, remote_code=own.remote_code)
            store_as_products(lm)
            model, sampling = ActorCriticModel(name, lm), self.config.own_sampling(name)
            return Policy(bundle, model, None, self.config.hardware, sampling=sampling)

        return load

    def _sharing_an_engine(self, names: Sequence[str], bundle: ModelBundle) -> dict[str, Policy]:
        """Policies with full copies whose weights take turns in one engine."""
        models = self._models(names, bundle)
        (first,) = self._policies(islice(models, 1), bundle)
        engine = first.engine
        stored = [StoredWeights(first.name, engine)]
        for model in models:
            engine.set_weights(model.trainable())
            stored.append(StoredWeights(model.name, engine))
        return {
            own.name: Policy(
                bundle,
                first.model,
                engine,
                self.config.hardware,
                own,
                self.config.own_sampling(own.name),
            )
            for own in stored
        }

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
            folders = agent_folders(Path(run_dir), names, bundle.config, bundle.group, "init_from")
        head = self.config.algorithm.has_value_head()
        for model in bundle.new_models([*names, *others], self.streams.init, head):
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
        shared, precision = bundle.config.sharing == "adapters", self.config.model.precision
        siblings: list[Engine] = []
        for model in list(models) if shared else models:
            if hardware.gradient_checkpointing:
                model.lm.gradient_checkpointing_enable({"use_reentrant": False})
            own = siblings if shared else []
            config = self.config.algorithm_of(model.name)
            sampling = self.config.own_sampling(model.name)
            engine = Engine(model, config, hardware, self.plan, precision, own)
            if isinstance(config, PPOConfig):
                start = self.config.init_from is None or bundle.config.reference == "init_from"
                yield PPOPolicy(bundle, model, engine, config, hardware, start, sampling)
            else:
                yield Policy(bundle, model, engine, hardware, sampling=sampling)
