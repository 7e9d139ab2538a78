"""Agents of a finished run: they answer any prompt, alone or in their roles.

May import: algorithms, evaluation and everything below.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cory.algorithms.cory import Roles, pioneer_observer
from cory.algorithms.maft import BASE, MaftDebates
from cory.algorithms.maporl import TrainedDebates
from cory.algorithms.parts import Parts
from cory.algorithms.team import rules_of, team_actors
from cory.config import (
    Config,
    CoryConfig,
    MaftConfig,
    ModelConfig,
    TeamConfig,
    builder,
    nearest,
    parse_config,
    plan_of,
    products_of,
    require,
)
from cory.config.debate import DebateConfig
from cory.episode import Episode, Prompt
from cory.evaluation.responses import MEASURED
from cory.functional.votes import VoteRule
from cory.models.actor_critic import set_float32_products, store_as_products
from cory.models.bundle import ModelBundle
from cory.models.lora import DESCRIPTION
from cory.models.policy import Actor, Policy
from cory.rollout.scheduler import Play, RollOut, single_turn
from cory.rollout.team import team_play
from cory.runs.export import start_from
from cory.runs.run_dir import AGENTS, read_settings, require_agents
from cory.seeding import Streams
from cory.tasks import Form, NoAnswers
from cory.user_function import load_function


@dataclass(frozen=True)
class Said:
    """What one agent said in its role."""

    agent: str
    role: str  # solo, pioneer, observer, debater_0, ... as in samples.jsonl
    round: int  # from 0
    text: str


class BareForm(NoAnswers):
    """Prompts of a task without questions, as word games: a text is its own prompt."""

    def prompt_of(self, text: str) -> Prompt:
        return Prompt(id="asked", text=text)

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        return query


class TrainedTeam:
    """The agents of a finished run, ready to answer; see `load_team`."""

    def __init__(self, run_dir: Path, config: Config, device: str) -> None:
        self.run_dir, self.config = run_dir, config
        place = torch.device(device)
        set_float32_products(products_of(config), place)
        task: Any = builder("task", config.task.name)
        self.form: Form = task.form(config.task) if hasattr(task, "form") else BareForm()
        self.models = {
            group: ModelBundle(model, place, group) for group, model in config.models.items()
        }
        self.policies: dict[str, Policy] = {}
        names = config.algorithm.names()
        self.others: dict[str, Policy] = {}  # agents of other runs, beside which these have learnt
        for group in self.models:
            own = {name: run_dir for name in names if group_of(config, name) == group}
            others = getattr(config.algorithm, "runs", {}) if group == "model" else {}
            folders = own | {name: Path(folder) for name, folder in others.items()}
            for name, policy in self._loaded(group, folders).items():
                (self.policies if name in own else self.others)[name] = policy
        for bundle in self.models.values():
            store_as_products(bundle.pretrained)
        self.actors = self._actors()

    @property
    def names(self) -> list[str]:
        """The names of the agents."""
        return list(self.policies)

    def __repr__(self) -> str:
        return f"TrainedTeam({', '.join(self.names)}; {self.run_dir})"

    def ask(self, prompt: str, agent: str | None = None, **how: Any) -> list[Said]:
        """What is said about a prompt, in the order of speaking; arguments as of `ask_all`.

        columns: those of this prompt alone
        """
        columns = how.pop("columns", None)
        (said,) = self.ask_all([prompt], agent, columns=columns and [columns], **how)
        return said

    def ask_all(
        self, prompts: Sequence[str], agent: str | None = None, **how: Any
    ) -> list[list[Said]]:
        """What is said about each prompt; with other prompts before it, other numbers are drawn.

        The agents speak in the roles with which training began: pioneer and observers, which read
        what was said before (`cory`); a debate (`maporl`, `sft`, `maft`); the user's play (`team`);
        else the first one alone.

        agent: this one alone; `base` is the model before training
        how: `greedy=True` takes the likeliest token instead of sampling as the run did; `seed` is
            of the random numbers (default: the run's); `max_tokens` is the most of a response
            (default: the run's); `columns` are, for each prompt, what a line of the user's data
            has beside its text, for a play that reads them
        ConfigError: an agent that is not there, a prompt that is empty or too long
        """
        require(
            agent is None or agent in self.actors,
            f"agent={agent}: {self.run_dir} has {', '.join(self.actors)}",
        )
        play = self._play() if agent is None else single_turn(agent)
        return [
            [Said(t.agent, t.role, t.round, t.response) for t in episode.turns if not t.absent]
            for episode in self.episodes(prompts, play, **how)
        ]

    def vote(self, said: Sequence[Said]) -> str | None:
        """The answer that most gave in the last round, by the run's rule; None: none was read."""
        last = [one for one in said if one.round == said[-1].round]
        algorithm = self.config.algorithm
        ties = getattr(algorithm, "vote_ties", "lexicographic")
        rule = VoteRule(ties, getattr(algorithm, "unreadable_votes", "dropped"))
        answers = [self.form.read(one.text) for one in last]
        elected = rule.elected(answers, np.random.default_rng(self.config.seed))
        return None if elected is None else str(elected)

    def episodes(
        self,
        prompts: Sequence[str],
        play: Play,
        greedy: bool = False,
        seed: int | None = None,
        max_tokens: int | None = None,
        columns: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[Episode]:
        """An episode per prompt; arguments as of `ask_all`."""
        sampling = self.config.algorithm.sampling
        limit = sampling.max_response_tokens if max_tokens is None else max_tokens
        require(limit >= 1, f"max_tokens={limit}: must be at least 1")
        asked = [self._prompt(prompt, limit) for prompt in prompts]
        if columns is not None:
            asked = [
                replace(prompt, columns=own, answer=own.get("answer"))
                for prompt, own in zip(asked, columns, strict=True)
            ]
        # as in the run's evaluations, which began with these numbers
        key = (self.config.seed if seed is None else seed, MEASURED)
        return RollOut(self.actors, limit, None if greedy else sampling, key)(play, asked)

    def _prompt(self, text: str, limit: int) -> Prompt:
        """A text in the form of the task; at most `limit` tokens are to follow it."""
        require(bool(text.strip()), "a prompt is empty")
        prompt = self.form.prompt_of(text)
        for group, bundle in self.models.items():
            tokens = bundle.texts.tokens(prompt.opening)
            require(
                tokens + limit <= bundle.context_length,
                f"the {tokens} tokens of '{text[:40]}' and max_tokens={limit} exceed the context "
                f"of {group}={bundle.config.name} ({bundle.context_length} tokens)",
            )
        return prompt

    def _debates(self) -> TrainedDebates:
        """The debates of `maporl` and `sft`, which need neither data nor a reward."""
        config = self.config
        reward: Any = None
        form: Any = self.form  # a debate draws no prompts
        models = self.models["model"], self.models.get("partner")
        parts = Parts(config, plan_of(config), *models, form, reward, Streams(config.seed))
        return TrainedDebates(config.algorithm, parts)

    def _loaded(self, group: str, folders: Mapping[str, Path]) -> dict[str, Policy]:
        """The policies of these names, each from a run, without value heads."""
        bundle = self.models[group]
        models = list(bundle.new_models(list(folders), torch.Generator(), value_head=False))
        for run_dir in dict.fromkeys(folders.values()):
            of_run = [model for model in models if folders[model.name] == run_dir]
            start_from(run_dir, of_run, bundle.config, group, "load_team")
        for model in models:
            store_as_products(model.lm)
        return {model.name: Policy(bundle, model, None, self.config.hardware) for model in models}

    def _actors(self) -> dict[str, Actor]:
        """Everybody who may speak: the agents, and the model before training."""
        algorithm, actors = self.config.algorithm, dict[str, Actor](self.policies)
        if isinstance(algorithm, DebateConfig):
            actors = self._debates().actors(self.policies)
        if isinstance(algorithm, TeamConfig):
            actors = team_actors(algorithm, self.policies, self.others, self.run_dir)
        return {**actors, BASE: next(iter(self.policies.values())).reference(BASE)}

    def _play(self) -> Play:
        """Who speaks when, seeing what."""
        algorithm = self.config.algorithm
        if isinstance(algorithm, CoryConfig):
            transfer = self.form.observer_context if algorithm.knowledge_transfer else None
            return pioneer_observer(Roles(self.names), transfer)
        if isinstance(algorithm, TeamConfig):
            function = load_function("algorithm.play", algorithm.play)
            return team_play(function, rules_of(algorithm, self.actors))
        if isinstance(algorithm, DebateConfig):
            require(
                not getattr(algorithm, "verifier_feedback", False),
                f"{self.run_dir}: its debaters are told a verifier's scores, which is not loaded; "
                f"agent=<name> asks one alone",
            )
            return self._debates().debate(algorithm.agents, algorithm.turns).play
        if isinstance(algorithm, MaftConfig):
            debates = MaftDebates(algorithm, self.form, self.models["model"])
            return debates.debate(algorithm.evaluation_agents, algorithm.evaluation_turns).play
        return single_turn(self.names[0])


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
    agent_folders(place)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    require_device(device, "device")
    models: dict[str, Any] = {
        group: on_device(model, device, remote_code, f"{place}: {group}")
        for group, model in config.models.items()
    }
    return TrainedTeam(place, config.replace(**models), device)


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


def require_device(device: str, key: str) -> None:
    """ConfigError where this machine has no such device; key: the option that names it."""
    named = re.fullmatch(r"cuda(?::(\d+))?", device)
    there = named is not None and int(named[1] or 0) < torch.cuda.device_count()
    require(
        device == "cpu" or there,
        f"{key}={device}: this machine has none; cpu, or where there is a GPU cuda or cuda:1"
        f"{nearest(device, ['cpu', 'cuda'])}",
    )


def agent_folders(run_dir: Path, chosen: Sequence[str] | None = None) -> list[Path]:
    """The folders of a run's agents, or of the chosen ones; ConfigError where there is none."""
    require_agents(run_dir, str(run_dir))
    there = {path.name: path for path in sorted((run_dir / AGENTS).iterdir()) if path.is_dir()}
    for name in chosen or []:
        require(name in there, f"--agent={name}: {run_dir} has {', '.join(there)}")
    return [path for name, path in there.items() if chosen is None or name in chosen]


def is_adapter(agent: Path) -> bool:
    """Whether an exported agent is an adapter; else it is a whole model."""
    return (agent / DESCRIPTION).is_file()


def group_of(config: Config, agent: str) -> str:
    """The group of settings of an agent's model: with a partner, of every second agent its own."""
    number = int(agent.split("_")[1]) if agent.startswith("agent_") else 0
    return "model" if config.partner is None or number % 2 == 0 else "partner"
