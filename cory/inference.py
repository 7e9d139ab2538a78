"""Agents of a finished run: they answer any prompt, alone or in their roles."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cory.algorithms.cory import Roles, pioneer_observer
from cory.algorithms.maft import BASE, maft_debate
from cory.algorithms.maporl import TrainedDebates
from cory.algorithms.team import team_actors
from cory.config import (
    Config,
    CoryConfig,
    MaftConfig,
    ModelConfig,
    TeamConfig,
    builder,
    parse_config,
    plan_of,
    products_of,
    require,
)
from cory.config.debate import DebateConfig
from cory.episode import Prompt, Turn
from cory.evaluation.responses import MEASURED
from cory.functional.votes import VoteRule
from cory.models.actor import Actor
from cory.models.actor_critic import ActorCriticModel, set_float32_products, store_as_products
from cory.models.bundle import ModelBundle
from cory.models.policy import Policy
from cory.rollout.scheduler import Play, RollOut, single_turn
from cory.rollout.team import team_play
from cory.runs.export import agent_folders, start_from
from cory.runs.run_dir import read_settings
from cory.seeding import Streams
from cory.trainers.components import Components


class BareForm:
    """Prompts of a task without questions, as word games: a text is its own prompt."""

    def prompt_of(self, text: str) -> Prompt:
        return Prompt(id="asked", text=text)

    def read(self, response: str) -> None:
        """None: a response gives no answer."""


class TrainedTeam:
    """The agents of a finished run, ready to answer; see `load_team`."""

    def __init__(self, run_dir: Path, config: Config, device: str) -> None:
        self.run_dir, self.config = run_dir, config
        algorithm, place = config.algorithm, torch.device(device)
        set_float32_products(products_of(config), place)
        task: Any = builder("task", config.task.name)
        self.form: Any = task.form(config.task) if hasattr(task, "form") else BareForm()
        self.models = {key: ModelBundle(model, place, key) for key, model in config.models.items()}
        self.names: list[str] = list(algorithm.names())  # of the agents
        # agents of other runs, beside which these have learnt
        others = {name: Path(folder) for name, folder in getattr(algorithm, "runs", {}).items()}
        rivals = self._loaded(dict.fromkeys(self.names, run_dir) | others)
        own = {name: rivals.pop(name) for name in self.names}
        self.actors: dict[str, Actor] = {**own}  # everybody who may speak
        if isinstance(algorithm, DebateConfig):
            self.actors = self._debates(algorithm).actors(own)
        if isinstance(algorithm, TeamConfig):
            self.actors = team_actors(config, own, rivals, self.bundle_of, run_dir)
        self.actors[BASE] = own[self.names[0]].reference(BASE)  # the model before training

    def bundle_of(self, name: str) -> ModelBundle:
        return self.models[self.config.group_of(name)]

    def ask(
        self,
        prompt: str,
        agent: str | None = None,
        columns: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> list[Turn]:
        """What is said about a prompt, in the order of speaking; arguments as of `ask_all`."""
        (turns,) = self.ask_all([prompt], agent, columns=[columns or {}], **how)
        return turns

    def ask_all(
        self,
        prompts: Sequence[str],
        agent: str | None = None,
        greedy: bool = False,
        seed: int | None = None,
        max_tokens: int | None = None,
        columns: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[list[Turn]]:
        """What is said about each prompt; with other prompts before it, other numbers are drawn.

        The agents speak in the roles with which training began: pioneer and observers, which read
        what was said before (`cory`); a debate (`maporl`, `debate_sft`, `maft`); the user's play
        (`team`); else the first one alone.

        agent: this one alone; `base` is the model before training
        greedy: take the likeliest token instead of sampling as the run did
        seed: of the random numbers; None: the run's
        max_tokens: the most of a response; None: the run's
        columns: for each prompt, what a line of the user's data has beside its text, for a play
            that reads them
        ConfigError: an agent that is not there, a prompt that is empty or too long
        """
        require(
            agent is None or agent in self.actors,
            f"agent={agent}: {self.run_dir} has {', '.join(self.actors)}",
        )
        require(
            max_tokens is None or max_tokens >= 1, f"max_tokens={max_tokens}: must be at least 1"
        )
        algorithm = limited(self.config.algorithm, max_tokens)
        actors = {name: limited(actor, max_tokens) for name, actor in self.actors.items()}
        play = self.play(algorithm) if agent is None else single_turn(agent)
        require(all(prompt.strip() for prompt in prompts), "a prompt is empty")
        asked = [
            replace(self.form.prompt_of(prompt), columns=own, answer=own.get("answer"))
            for prompt, own in zip(prompts, columns or [{}] * len(prompts), strict=True)
        ]
        # as in the run's evaluations, which began with these numbers
        key = (self.config.seed if seed is None else seed, MEASURED)
        roll_out = RollOut.of(actors, algorithm.sampling, key, greedy=greedy)
        return [[t for t in episode.turns if not t.absent] for episode in roll_out(play, asked)]

    def vote(self, said: Sequence[Turn]) -> str | None:
        """The answer that most gave in the last round, by the run's rule; None: none was read."""
        last = [turn for turn in said if turn.round == said[-1].round]
        algorithm = self.config.algorithm
        ties = getattr(algorithm, "vote_ties", "lexicographic")
        rule = VoteRule(ties, getattr(algorithm, "unreadable_votes", "dropped"))
        answers = [self.form.read(turn.text) for turn in last]
        elected = rule.elected(answers, np.random.default_rng(self.config.seed))
        return None if elected is None else str(elected)

    def _debates(self, algorithm: Any) -> TrainedDebates:
        """The debates of `maporl` and `debate_sft`, which need neither data nor a reward."""
        config = self.config
        reward: Any = None
        streams = Streams(config.seed)
        components = Components(config, plan_of(config), self.models, self.form, reward, streams)
        return TrainedDebates(algorithm, components)

    def _loaded(self, folders: Mapping[str, Path]) -> dict[str, Policy]:
        """The policies of these names, each from a run, without value heads."""
        policies: dict[str, Policy] = {}
        config = self.config
        for bundle in self.models.values():
            names = [name for name in folders if self.bundle_of(name) is bundle]
            if not names:  # of a fixed agent alone
                continue
            models = list(bundle.new_models(names, torch.Generator(), False, config.model_of))
            if bundle.config.reference == "init_from":
                self._keep_starts(bundle, [one for one in models if one.name in self.names])
            for run_dir in {folders[name] for name in names}:
                of_run = [model for model in models if folders[model.name] == run_dir]
                start_from(run_dir, of_run, config, "load_team")
            for model in models:
                store_as_products(model.lm)
                policy = Policy(bundle, model, None, config.hardware)
                policies[model.name] = policy.as_member(config)
            for frozen in (bundle.pretrained, *bundle.starts.values()):
                store_as_products(frozen)
        return policies

    def _keep_starts(self, bundle: ModelBundle, models: Sequence[ActorCriticModel]) -> None:
        """The references of a run with `model.reference=init_from`: the agents that it began as."""
        config = self.config
        names, run_dir = [model.name for model in models], Path(str(config.init_from))
        folders = agent_folders(run_dir, names, config, "init_from")
        for model in models:
            model.load(folders[model.name], "init_from", bundle.config.remote_code)
            bundle.keep_start(model, folders[model.name])

    def play(self, algorithm: Any = None) -> Play:
        """Who speaks, seeing what; algorithm: its settings, None: the run's."""
        algorithm = algorithm or self.config.algorithm
        if isinstance(algorithm, CoryConfig):
            transfer = self.form.observer_context if algorithm.knowledge_transfer else None
            return pioneer_observer(Roles(self.names), transfer)
        if isinstance(algorithm, TeamConfig):
            return team_play(algorithm)
        if isinstance(algorithm, DebateConfig):
            require(
                not getattr(algorithm, "verifier_feedback", False),
                f"{self.run_dir}: its debaters are told a verifier's scores, which is not loaded; "
                f"agent=<name> asks one alone",
            )
            return self._debates(algorithm).debate(algorithm.agents, algorithm.turns).play
        if isinstance(algorithm, MaftConfig):
            agents, rounds = algorithm.evaluation_agents, algorithm.evaluation_turns
            return maft_debate(algorithm, self.form, self.bundle_of, agents, rounds).play
        return single_turn(self.names[0])


def limited(one: Any, limit: int | None) -> Any:
    """Settings of an algorithm, or an actor, with this limit of a response; None: as it is."""
    if limit is None or getattr(one, "sampling", None) is None:
        return one
    other = copy.copy(one)
    other.sampling = one.sampling.replace(max_response_tokens=limit)
    return other


def load_team(
    run_dir: str | Path, device: str | None = None, remote_code: bool = False
) -> TrainedTeam:
    """The agents of a finished run; ConfigError where it has none that answer.

    run_dir: of a run, or of its agents after an iteration (`iterations/<n>`, `best`)
    device: cpu, cuda or cuda:<n>; None: a GPU if there is one
    remote_code: the checkpoint's own Python may run; settings cannot allow it
    """
    place = Path(run_dir).expanduser()
    config = parse_config(read_settings(place))
    algorithm = config.algorithm
    require(
        algorithm.name != "verifier" and not algorithm.speaks_remotely(),
        f"{place} is a run of algorithm={algorithm.name} whose agents answer no prompts: they "
        f"judge answers, or a model behind an endpoint spoke for them",
    )
    device = device_or_default(device)
    model = on_device(config.model, device, remote_code, f"{place}: model")
    members = {
        name: one.replace(
            model=on_device(one.model, device, remote_code, f"{place}: members.{name}.model")
        )
        for name, one in config.members.items()
    }
    return TrainedTeam(place, config.replace(model=model, members=members), device)


def device_or_default(device: str | None) -> str:
    """A device of this machine, by its name; None: a GPU if there is one."""
    gpus = torch.cuda.device_count()
    device = device or ("cuda" if gpus else "cpu")
    known = ["cpu", *(["cuda"] if gpus else []), *(f"cuda:{number}" for number in range(gpus))]
    require(device in known, f"device={device}: this machine has {', '.join(known)}")
    return device


def on_device(model: ModelConfig, device: str, remote_code: bool, said: str) -> ModelConfig:
    """The settings of a run's model on this device: half precision in 16 bits needs a GPU."""
    require(
        remote_code or not model.remote_code,
        f"{said}.remote_code=true: the checkpoint's own Python runs only with remote_code=True "
        f"of load_team, or --remote-code",
    )
    model = model.replace(remote_code=remote_code)
    if device == "cpu" and "fp16" in (model.precision, model.compute_precision):
        return model.replace(precision="fp32", compute_precision="fp32")
    return model
