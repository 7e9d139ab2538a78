"""Evaluates agents on held-out prompts: alone on the bare query, and together in their roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cory import distributed
from cory.config import SamplingConfig
from cory.episode import Episode, Metrics
from cory.evaluation.response_scores import score_metrics
from cory.evaluation.responses import (
    MEASURED,
    PROBE,
    TEAM,
    BeforeEach,
    EvalRequest,
    ResponseSet,
    as_line,
    in_batches,
    line_turn,
)
from cory.models.policy import Actor, Policy
from cory.rewards import Reward
from cory.rollout.scheduler import Play, RollOut, single_turn
from cory.runs.files import Line
from cory.tasks import Task

# Evaluates a run's policies on held-out prompts: to the metrics. Responses are left in
# `request.lines`, prompts' parts in `request.scores`. Training is not affected: the responses are a
# function of weights, roles and seed.
Evaluator = Callable[[EvalRequest, BeforeEach], Metrics]


@dataclass(frozen=True)
class TeamEvaluator:
    """Evaluates agents one by one, and together by a play; an `Evaluator`."""

    agents: Mapping[str, Policy]
    task: Task
    reward: Reward
    sampling: SamplingConfig
    play: Play  # with the roles as they are now
    actors: Mapping[str, Actor]
    team_metrics: Callable[[Task, ResponseSet, EvalRequest], Metrics] = score_metrics
    alone: bool = True  # the agents are also asked one by one
    rows: int | None = None  # rows per batch and process; None: as many as agents sample at once

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`."""
        sets = self._response_sets(request)
        # as much at once as the processes together take, so that memory does not grow with the rows
        rows_each = self.rows or next(iter(self.agents.values())).hardware.responses_at_once
        size = rows_each * distributed.count()

        def answer(responses: ResponseSet, rows: range) -> list[Line]:
            """Episodes as samples.jsonl keeps them."""
            lines = []
            for row, episode in zip(rows, self._respond(request, responses, rows), strict=True):
                prompt, who = episode.prompt, responses.who
                line = as_line(request, responses.kind, who, responses.sample(row), prompt)
                lines.append(line | {"turns": [line_turn(turn, prompt) for turn in episode.turns]})
            return lines

        answered = in_batches(request, sets, size, answer, before_each)
        metrics: Metrics = {}
        request.scores.prompts = [prompt.id for prompt in sets[0].prompts]
        for responses, lines in zip(sets, answered, strict=True):
            responses.lines = lines
            if responses.kind == MEASURED:
                metrics_of = self.team_metrics if responses.who == TEAM else score_metrics
                metrics |= metrics_of(self.task, responses, request)
        return metrics

    def _response_sets(self, request: EvalRequest) -> list[ResponseSet]:
        """The responses to sample, without their lines, in the order in which they are sampled."""
        config = request.config
        speakers = [*self.agents] if self.alone else [TEAM]
        prompts = self.task.held_out(config.prompts, config.split)
        probes = [
            replace(self.task.prompt_of(text), id=f"{PROBE}-{number}")
            for number, text in enumerate(config.probes)
        ]
        sets: list[ResponseSet] = []
        for samples in (config.samples, None) if config.greedy else (config.samples,):
            sets += [ResponseSet(name, MEASURED, prompts, samples) for name in speakers]
            if config.team and self.alone:
                sets.append(ResponseSet(TEAM, MEASURED, prompts, samples))
        if request.final and probes:
            for samples in (1, None):
                sets += [ResponseSet(name, PROBE, probes, samples) for name in speakers]
        return sets

    def _respond(self, request: EvalRequest, responses: ResponseSet, rows: range) -> list[Episode]:
        """One episode per row; the reward scores it unless it is a probe."""
        prompts = [responses.prompt(row) for row in rows]
        team = responses.who == TEAM
        roll_out = RollOut(
            self.actors if team else self.agents,
            self.sampling.max_response_tokens,
            None if responses.samples is None else self.sampling,
            (request.seed, responses.kind),
            rows.start,
            self.reward,
            request.iteration + 1,
        )
        episodes = roll_out(self.play if team else single_turn(responses.who), prompts)
        if responses.kind == MEASURED:
            self.reward.score(episodes)
        return episodes
