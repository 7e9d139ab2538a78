"""Agents of a finished MAFT run debate any question (Subramaniam et al., 2025, Algorithm 2)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from cory.algorithms.maft import BASE, MaftDebates
from cory.config import (
    Config,
    MaftConfig,
    builder,
    parse_config,
    products_of,
    require,
)
from cory.config.checks import require_at_least, require_positive
from cory.episode import Episode, Prompt
from cory.functional.credit import rounds_of
from cory.functional.votes import VoteRule
from cory.inference.exported import exported_policies, model_here, require_device
from cory.inference.question_files import Question
from cory.models.actor_critic import ActorCriticModel
from cory.models.fingerprint import weight_sums
from cory.models.policy import Actor, Policy
from cory.models.precision import set_float32_products, store_as_products
from cory.models.sampling.generation import draw_uniforms
from cory.models.team import Team
from cory.rollout.speak import speak_with
from cory.runs.jsonl import Line
from cory.runs.stored_settings import read_settings
from cory.seeding import place_stream
from cory.tasks import Form


@dataclass(frozen=True)
class DebateOptions:
    """Settings of debates that replace those of the run's evaluation; None: as there."""

    agents: int | None
    turns: int | None
    seed: int | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    batch_size: int | None
    remote_code: bool = False  # the checkpoint's own Python may run; settings cannot allow it

    def __post_init__(self) -> None:
        for name in ("agents", "turns", "max_tokens", "batch_size"):
            if getattr(self, name) is not None:
                require_at_least(f"--{name.replace('_', '-')}", getattr(self, name), 1)
        if self.seed is not None:
            require_at_least("--seed", self.seed, 0)
        if self.temperature is not None:
            require_positive("--temperature", self.temperature)
        require(
            self.top_p is None or 0 < self.top_p <= 1,
            f"--top-p must lie in (0, 1], got {self.top_p}",
        )


def settings_of(run_dir: Path, options: DebateOptions, device: str) -> Config:
    """The settings of a run with these options; ConfigError where its agents cannot debate.

    run_dir: of a run, or of its agents after an iteration (`iterations/<n>`)
    device: cpu, cuda or cuda:<n>
    """
    require_device(device, "--device")
    cfg = read_settings(run_dir)
    name = OmegaConf.select(cfg, "algorithm.name")
    require(name == "maft", f"{run_dir} is a run of algorithm={name}; only those of maft debate")
    config = parse_config(cfg)
    model = model_here(config.model, device, options.remote_code, run_dir, "model", "--remote-code")
    algorithm: MaftConfig = config.algorithm
    require(
        algorithm.endpoint is None,
        f"{run_dir}: a model behind an endpoint spoke in this run; it has no agents",
    )
    own = algorithm.sampling
    limit = options.max_tokens or own.max_response_tokens
    sampling = replace(
        own,
        temperature=options.temperature or own.temperature,
        top_p=options.top_p or own.top_p,
        min_response_tokens=limit,
        max_response_tokens=limit,
    )
    algorithm = replace(
        algorithm,
        evaluation_agents=options.agents or algorithm.evaluation_agents,
        evaluation_turns=options.turns or algorithm.evaluation_turns,
        sampling=sampling,
    )
    batch = options.batch_size or config.hardware.responses_at_once
    return replace(
        config,
        model=model,
        algorithm=algorithm,
        hardware=replace(config.hardware, generation_batch_size=batch),
        seed=config.seed if options.seed is None else options.seed,
    )


class Debaters:
    """The agents of a run, or in their place the model that they started from.

    A debate is a function of weights, seed, question and the question's number: neither the batch
    size nor a restart changes it, beyond rounding. The run's own evaluation gives the same debates.
    """

    def __init__(self, run_dir: Path, config: Config, device: str, base: bool) -> None:
        """base: take the model before training in place of the agents"""
        self.config = config
        self.algorithm: MaftConfig = config.algorithm
        self.form: Form = builder("task", config.task.name).form(config.task)
        place = torch.device(device)
        set_float32_products(products_of(config), place)
        self.team = Team(config.model, place)
        policies = {} if base else self._agents(run_dir)
        self.weights = BASE if base else digest(weight_sums(policies))
        self.actors = self._actors(policies)
        for lm in (self.team.pretrained, *(policy.model.lm for policy in policies.values())):
            store_as_products(lm)
        debates = MaftDebates(self.algorithm, self.form, self.team)
        self.table = debates.debate(
            self.algorithm.evaluation_agents, self.algorithm.evaluation_turns
        )
        self.streams = [place_stream(config.seed, place) for place in range(self.table.places)]
        self.row = 0  # the next question's number

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that a debate depends on, beside its question."""
        config, algorithm, sampling = self.config, self.algorithm, self.algorithm.sampling
        words = {"task": asdict(config.task), "prompts": asdict(algorithm.prompts)}
        return {
            "task": config.task.name,
            "model": config.model.path,
            "precision": config.model.precision,
            "products": config.model.compute_precision,
            "quantisation": [config.model.quantisation, config.model.double_quantisation],
            "attention": config.model.attention,
            "weights": self.weights,
            "wording": digest(words | {"chat": config.model.chat}),
            "policies": algorithm.policies,
            "summary": algorithm.summary,
            "identities": algorithm.identities,
            "vote_ties": algorithm.vote_ties,
            "unreadable_votes": algorithm.unreadable_votes,
            "agents": algorithm.evaluation_agents,
            "turns": algorithm.evaluation_turns,
            "seed": config.seed,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "repetition_penalty": sampling.repetition_penalty,
            "max_tokens": sampling.max_response_tokens,
        }

    def check(self, questions: Sequence[Question]) -> None:
        """Refuse, by its row, a question that cannot be asked or an answer that cannot be read."""
        limit, room = self.algorithm.sampling.max_response_tokens, self.team.context_length
        for row, question in enumerate(questions):
            require(bool(question.text.strip()), f"question {row} is empty")
            tokens = self.team.tokens(self._prompt(question).opening)
            require(
                tokens + limit <= room,
                f"question {row}: its {tokens} tokens and --max-tokens ({limit}) exceed the "
                f"context of model={self.config.model.name} ({room} tokens)",
            )
            require(
                question.answer is None or self.form.read(question.answer) is not None,
                f"question {row}: task={self.config.task.name} reads no answer in "
                f"'{str(question.answer)[-60:]}'",
            )

    def skip(self, rows: int) -> None:
        """Continue as if `rows` questions had been debated: draw their random numbers."""
        for own in self.streams:
            draw_uniforms(rows, self.algorithm.sampling.max_response_tokens, own)
        self.row += rows

    def debate(self, questions: Sequence[Question]) -> list[Line]:
        """Debate each question; a line of a file of debates for each."""
        sampling = self.algorithm.sampling
        limit = sampling.max_response_tokens
        speak = speak_with(self.actors, limit, sampling, iter(self.streams))
        episodes = self.table([self._prompt(question) for question in questions], speak)
        first = self.row
        self.row += len(questions)
        return [
            self._line(first + number, question, episode)
            for number, (question, episode) in enumerate(zip(questions, episodes, strict=True))
        ]

    def _prompt(self, question: Question) -> Prompt:
        return self.form.prompt_of(question.text)

    def _line(self, row: int, question: Question, episode: Episode) -> Line:
        rounds = rounds_of(episode, self.algorithm.evaluation_agents)
        answers = [[self.form.read(turn.response) for turn in turns] for turns in rounds]
        rule = VoteRule(self.algorithm.vote_ties, self.algorithm.unreadable_votes)

        def draws(turn: int) -> np.random.Generator:  # the same as in an evaluation
            return np.random.default_rng([self.config.seed, row, turn])

        votes = [rule.elected(given, draws(turn)) for turn, given in enumerate(answers)]
        right = None
        if question.answer is not None:
            gold = self.form.read(question.answer)
            right = {
                "first": answers[0][0] == gold,
                "votes": [
                    rule.score(given, gold, draws(turn)) for turn, given in enumerate(answers)
                ],
            }
        return {
            "row": row,
            "question": question.text,
            "answer": question.answer,
            "turns": [
                [
                    {
                        "agent": turn.agent,
                        "summary": turn.summary,
                        "response": turn.response,
                        "read": shown(answer),
                    }
                    for turn, answer in zip(turns, given, strict=True)
                ]
                for turns, given in zip(rounds, answers, strict=True)
            ],
            "votes": [shown(vote) for vote in votes],
            "agreeing": [
                sum(vote is not None and answer == vote for answer in given)
                for vote, given in zip(votes, answers, strict=True)
            ],
            "vote": shown(votes[-1]),
            "right": right,
            "settings": self.settings,
        }

    def _agents(self, run_dir: Path) -> dict[str, Policy]:
        """The policies that speak, loaded from the run's export."""
        config, algorithm = self.config, self.algorithm
        names = [
            algorithm.policy(turn, agent)
            for turn in range(algorithm.evaluation_turns)
            for agent in range(algorithm.evaluation_agents)
        ]
        found = list(dict.fromkeys(names))
        return exported_policies(self.team, found, config.hardware, run_dir, "model", "RUN_DIR")

    def _actors(self, policies: Mapping[str, Policy]) -> dict[str, Actor]:
        """The actors by name: the policies, and the base model, which summarises."""
        if policies:
            return {**policies, BASE: next(iter(policies.values())).reference(BASE)}
        model = ActorCriticModel(BASE, self.team.pretrained)
        base = Policy(self.team, model, None, self.config.hardware).reference(BASE)
        return dict.fromkeys((*self.algorithm.names(), BASE), base)


def digest(values: Mapping[str, Any]) -> str:
    """A short hash of values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def shown(answer: object) -> str | None:
    """An answer as text; None where none could be read."""
    return None if answer is None else str(answer)
