"""Agents of a finished run that answer any prompt: one of them alone, or all in their roles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, overload

import torch

from cory.algorithms.maft import BASE, MaftDebates
from cory.algorithms.maporl import TrainedDebates
from cory.algorithms.parts import Parts
from cory.config import (
    Config,
    CoryConfig,
    MaftConfig,
    builder,
    parse_config,
    plan_of,
    products_of,
    require,
)
from cory.config.checks import require_at_least
from cory.config.debate import DebateConfig
from cory.config.options import is_own
from cory.episode import Episode, Prompt
from cory.inference.exported import exported_policies, model_here, require_device
from cory.models.policy import Actor, Policy
from cory.models.precision import set_float32_products, store_as_products
from cory.models.team import Team
from cory.rollout.interactions import Interaction, Roles, pioneer_observer, single_turn
from cory.rollout.speak import speak_with
from cory.runs.run_dir import AGENTS
from cory.runs.stop import StopRequest
from cory.runs.stored_settings import read_settings
from cory.seeding import Streams, place_stream
from cory.tasks import Form


@dataclass(frozen=True)
class Said:
    """What one agent said in its role."""

    agent: str
    role: str  # solo, pioneer, observer, debater_0, ... as in samples.jsonl
    round: int  # from 0
    text: str


class BareForm:
    """Prompts of a task without questions, as word games: a text is its own prompt."""

    def prompt_of(self, text: str) -> Prompt:
        return Prompt(id="asked", text=text)

    def read(self, response: str) -> None:
        """None: there is no answer to read."""

    def is_right(self, response: str, answer: str) -> bool:
        return False

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        return query


@dataclass(frozen=True)
class Agent:
    """One agent of a finished run."""

    name: str
    owner: "Agents"

    @overload
    def answer(self, prompts: str, **how: Any) -> str: ...
    @overload
    def answer(self, prompts: Sequence[str], **how: Any) -> list[str]: ...
    def answer(self, prompts: str | Sequence[str], **how: Any) -> str | list[str]:
        """The agent's response to a prompt, or to each of several, alone and in the task's form.

        how: `greedy`, `seed` and `max_tokens`, as of `Agents.together`
        """
        alone = partial(single_turn, agent=self.name)
        episodes = self.owner.episodes(prompts, alone, **how)
        texts = [episode.turns[0].response for episode in episodes]
        return texts[0] if isinstance(prompts, str) else texts


class Agents(Mapping[str, Agent]):
    """The agents of a finished run by name; see `load_agents`."""

    def __init__(self, run_dir: Path, config: Config, device: str) -> None:
        self.run_dir, self.config = run_dir, config
        place = torch.device(device)
        set_float32_products(products_of(config), place)
        kind: Any = builder("task", config.task.name)
        self.form: Form = kind.form(config.task) if hasattr(kind, "form") else BareForm()
        self.teams = {group: Team(model, place, group) for group, model in config.models.items()}
        self.policies: dict[str, Policy] = {}
        for group, names in self._names().items():
            self.policies |= self._loaded(group, names)
        for team in self.teams.values():
            store_as_products(team.pretrained)

    def __getitem__(self, name: str) -> Agent:
        if name not in self.policies:
            raise KeyError(f"{name}: there are {', '.join(self.policies)}")
        return Agent(name, self)

    def __iter__(self) -> Iterator[str]:
        return iter(self.policies)

    def __len__(self) -> int:
        return len(self.policies)

    def __repr__(self) -> str:
        return f"Agents({', '.join(self.policies)}; {self.run_dir})"

    @overload
    def together(self, prompts: str, **how: Any) -> list[Said]: ...
    @overload
    def together(self, prompts: Sequence[str], **how: Any) -> list[list[Said]]: ...
    def together(self, prompts: str | Sequence[str], **how: Any) -> list[Said] | list[list[Said]]:
        """What all agents say in their roles, in the order of speaking.

        `cory`: the pioneer, then the observers that read what was said before; agents have the
        roles with which training began. `maporl`, `sft`, `maft`: a debate. One agent answers alone.
            ConfigError for an algorithm of another package

        how: `greedy=True` takes the likeliest token instead of sampling as the run did; `seed` is
            of the random numbers (default: the run's); `max_tokens` is the most of a response
            (default: the run's). A response to several prompts depends on their order
        """
        episodes = self.episodes(prompts, self._interaction(), **how)
        said = [
            [Said(t.agent, t.role, t.round, t.response) for t in episode.turns if not t.absent]
            for episode in episodes
        ]
        return said[0] if isinstance(prompts, str) else said

    def episodes(
        self,
        prompts: str | Sequence[str | Prompt],
        interact: Interaction,
        greedy: bool = False,
        seed: int | None = None,
        max_tokens: int | None = None,
    ) -> list[Episode]:
        """An episode per prompt, a text or one of the task's; ConfigError: empty or too long."""
        sampling = self.config.algorithm.sampling
        limit = sampling.max_response_tokens if max_tokens is None else max_tokens
        require_at_least("max_tokens", limit, 1)
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        asked = [self._prompt(text, limit) for text in texts]
        own = self.config.seed if seed is None else seed
        streams = (place_stream(own, place) for place in count())
        speak = speak_with(self._actors(), limit, None if greedy else sampling, streams)
        return interact(asked, speak) if asked else []

    def _prompt(self, asked: str | Prompt, limit: int) -> Prompt:
        prompt = self.form.prompt_of(asked) if isinstance(asked, str) else asked
        text = asked if isinstance(asked, str) else asked.text
        require(bool(text.strip()), "a prompt is empty")
        for group, team in self.teams.items():
            tokens = team.tokens(prompt.opening)
            require(
                tokens + limit <= team.context_length,
                f"the {tokens} tokens of '{text[:40]}' and max_tokens={limit} exceed the context "
                f"of {group}={team.config.name} ({team.context_length} tokens)",
            )
        return prompt

    def _debates(self) -> TrainedDebates:
        """The debates of `maporl` and `sft`, which need neither data nor a reward."""
        config = self.config
        nothing: Any = None
        parts = Parts(
            config,
            plan_of(config),
            self.teams["model"],
            self.teams.get("partner"),
            self.form,  # type: ignore[arg-type]  # a debate draws no prompts
            nothing,
            Streams(config.seed),
            StopRequest(self.run_dir),
        )
        return TrainedDebates(config.algorithm, parts)

    def _names(self) -> dict[str, list[str]]:
        """The names of the agents, by the group of settings of their model."""
        algorithm = self.config.algorithm
        if isinstance(algorithm, DebateConfig):
            by_team = self._debates().names_by_team()
            return {
                group: names
                for group, own in self.teams.items()
                for team, names in by_team
                if team is own
            }
        if isinstance(algorithm, MaftConfig):
            return {"model": algorithm.names()}
        if not is_own("algorithm", algorithm.name):
            return {
                "model": sorted(f.name for f in (self.run_dir / AGENTS).iterdir() if f.is_dir())
            }
        return {"model": [f"agent_{number}" for number in range(algorithm.policy_count())]}

    def _loaded(self, group: str, names: Sequence[str]) -> dict[str, Policy]:
        found = exported_policies(
            self.teams[group], names, self.config.hardware, self.run_dir, group, "load_agents"
        )
        for policy in found.values():
            store_as_products(policy.model.lm)
        return found

    def _actors(self) -> dict[str, Actor]:
        """Everybody who may speak: the agents, and the model before training."""
        if isinstance(self.config.algorithm, DebateConfig):
            return self._debates().actors(self.policies)
        first = next(iter(self.policies.values()))
        return {**self.policies, BASE: first.reference(BASE)}

    def _interaction(self) -> Interaction:
        """Who speaks when, seeing what."""
        algorithm = self.config.algorithm
        if isinstance(algorithm, CoryConfig):
            transfer = self.form.observer_context if algorithm.knowledge_transfer else None
            roles = Roles(list(self.policies))
            return partial(pioneer_observer, roles=roles, observer_context=transfer)
        if isinstance(algorithm, DebateConfig):
            require(
                not getattr(algorithm, "verifier_feedback", False),
                f"{self.run_dir}: its debaters are told a verifier's scores, which is not loaded; "
                f"agents[name].answer(prompt) asks one alone",
            )
            return self._debates().debate(algorithm.agents, algorithm.turns)
        if isinstance(algorithm, MaftConfig):
            debates = MaftDebates(algorithm, self.form, self.teams["model"])
            return debates.debate(algorithm.evaluation_agents, algorithm.evaluation_turns)
        require(
            is_own("algorithm", algorithm.name),
            f"{self.run_dir}: how the agents of algorithm={algorithm.name} speak together is known "
            f"to its package alone; agents[name].answer(prompt) asks one",
        )
        return partial(single_turn, agent=next(iter(self.policies)))


def load_agents(
    run_dir: str | Path, device: str | None = None, remote_code: bool = False
) -> Agents:
    """The agents of a finished run, ready to answer; ConfigError where it has none.

    run_dir: of a run, or of its agents after an iteration (`iterations/<n>`, `best`)
    device: cpu, cuda or cuda:<n>; None: a GPU if there is one
    remote_code: the checkpoint's own Python may run; settings cannot allow it
    """
    place = Path(run_dir).expanduser()
    config = parse_config(read_settings(place, f"load_agents({place})"))
    algorithm = config.algorithm
    require(
        algorithm.name != "verifier" and not algorithm.speaks_remotely(),
        f"{place} is a run of algorithm={algorithm.name} whose agents answer no prompts: they "
        f"judge answers, or a model behind an endpoint spoke for them",
    )
    require(
        (place / AGENTS).is_dir(),
        f"{place}: the run has no agents; they appear when it finishes",
    )
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    require_device(where, "device")
    models: dict[str, Any] = {
        group: model_here(
            model, where, remote_code, place, group, "load_agents(..., remote_code=True)"
        )
        for group, model in (("model", config.model), ("partner", config.partner))
        if model is not None
    }
    return Agents(place, replace(config, **models), where)
