"""Evaluates agents on held-out prompts: alone on the bare query, and together in their roles.

Metrics of scored responses: mean scores, shares of prompts solved, pass@k; returns of teams. And
what each agent's words, or its training, are worth to a team: with one partner changed, and with
the same random numbers for every utterance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import torch

from cory import distributed
from cory.config import Config, SamplingConfig
from cory.episode import Metrics, TokenRow
from cory.evaluation.responses import (
    MEASURED,
    PROBE,
    TEAM,
    BeforeEach,
    EvalRequest,
    PromptScores,
    ResponseSet,
    in_batches,
    line_turn,
)
from cory.functional.losses import utterance_logprobs
from cory.functional.statistics import mean, pass_at_k
from cory.models.actor import Actor, Silent
from cory.models.policy import Policy
from cory.rewards import Reward
from cory.rollout.scheduler import Play, RollOut, single_turn
from cory.runs.files import Line
from cory.tasks import Task


def score_metrics(task: Task, responses: ResponseSet, request: EvalRequest) -> Metrics:
    """Mean scores, and the share of prompts solved where the right answers are known."""
    metrics: Metrics = {}
    known = responses.prompts[0].answer is not None
    whole = [row["turns"] for row in responses.lines]
    by_who = {}  # a team's turns of each row by the role they were said in, then all of them
    for place, turn in enumerate(whole[0] if responses.who == TEAM else ()):
        by_who[turn["role"]] = [[row[place]] for row in whole]
    for who, turns in (by_who | {responses.who: whole}).items():
        # float32, as all means of scores here
        scores = [float(turn["score"]) for row in turns for turn in row]
        score = torch.tensor(scores).mean().item()
        each = [mean(float(turn["score"]) for turn in row) for row in turns]
        solved = solved_by_prompt(task, responses, turns, request) if known else None
        if responses.samples is not None:
            metrics[f"eval/score/{who}"] = score
            counted = {*scores} <= {0.0, 1.0}  # what is right, or passes a test
            request.scores.add(f"eval/score/{who}", each, responses.samples if counted else None)
            parts: dict[str, list[float]] = {}  # of a sum of rewards
            for turn in (turn for row in turns for turn in row):
                for part, own in turn.get("parts", {}).items():
                    if own is not None:  # else it does not apply
                        parts.setdefault(part, []).append(own)
            metrics |= {f"eval/reward/{part}/{who}": mean(own) for part, own in parts.items()}
            if solved is not None:
                metrics |= pass_metrics(who, solved, request)
        elif solved is None:
            metrics[f"eval/greedy/{who}"] = score
            request.scores.add(f"eval/greedy/{who}", each, None)
        else:
            first = [float(tries[0]) for tries in solved]
            metrics[f"eval/greedy/{who}"] = mean(first)
            request.scores.add(f"eval/greedy/{who}", first, 1)
    return metrics


def solved_by_prompt(
    task: Task, responses: ResponseSet, turns: list[list[dict[str, Any]]], request: EvalRequest
) -> list[Sequence[bool]]:
    """For each prompt and each of its rows: whether one of the row's turns is right.

    turns: of each row, those that count
    """
    right = [
        any(task.is_right(turn["response"], str(responses.prompt(row).answer)) for turn in chosen)
        for row, chosen in enumerate(turns)
    ]
    return request.scores.by_prompt(right)


def pass_metrics(who: str, solved: list[Sequence[bool]], request: EvalRequest) -> Metrics:
    """pass@k, unbiased, and that of Ma et al. (2024, 4.2): whether any of the first k is right.

    solved: by prompt, of each sample; what prompts contribute to the least k joins the request
    """
    metrics: Metrics = {}
    for k in request.config.k:
        passed = [pass_at_k(sum(tries), len(tries), k) for tries in solved]
        if k == min(request.config.k):
            # of independent groups of k tries there are so many
            request.scores.add(f"eval/pass_at_{k}/{who}", passed, len(solved[0]) // k)
        metrics[f"eval/pass_at_{k}/{who}"] = mean(passed)
        metrics[f"eval/any_of_{k}/{who}"] = mean(float(any(tries[:k])) for tries in solved)
    return metrics


def response_logprobs(policy: Policy, rows: Sequence[TokenRow]) -> list[float]:
    """Log-probability of each response under a policy as it is: the mean over its tokens."""

    def score(batch: Sequence[TokenRow]) -> list[float]:
        ids, attention_mask, mask = policy.tensors(batch)
        # not called as a module: at its end ZeRO-3 would take a training pass to be over
        logprobs = policy.model.forward(ids, attention_mask, mask).logprobs
        each: list[float] = utterance_logprobs(logprobs, mask).tolist()
        return each

    policy.model.eval()
    with policy.whole(), torch.no_grad():
        size = policy.hardware.rollout_batch_size
        return distributed.map_rows(rows, size, score, lambda row: row.tokens)


def return_metrics(
    agents: Sequence[str], task: Task, responses: ResponseSet, request: EvalRequest
) -> Metrics:
    """Mean returns of the team and of each agent; where answers are known, pass@k of the last turn.

    But for its first argument a `TeamEvaluator.team_metrics`.
    """
    rows = [row["turns"] for row in responses.lines]
    scores = [
        [(turn.get("member", turn["role"]), float(turn["score"])) for turn in row] for row in rows
    ]
    paid = returns_of(agents, scores)
    name = "greedy" if responses.samples is None else "score"
    metrics: Metrics = {}
    for who, values in paid.items():
        metrics[f"eval/{name}/{who}"] = mean(values)
        request.scores.add(f"eval/{name}/{who}", values, None)
    if responses.samples is not None and responses.prompts[0].answer is not None:
        solved = solved_by_prompt(task, responses, [row[-1:] for row in rows], request)
        metrics |= pass_metrics(TEAM, solved, request)
    return metrics


def returns_of(
    agents: Sequence[str], episodes: Sequence[Sequence[tuple[str, float]]]
) -> dict[str, list[float]]:
    """What each agent is paid in each episode, 0 where it does not speak.

    episodes: agent and score of every utterance
    returns: by agent, and of the TEAM: the mean over the agents that speak
    """
    paid = {
        name: [sum(score for who, score in episode if who == name) for episode in episodes]
        for name in agents
    }
    team = [
        sum(score for _, score in episode) / len({name for name, _ in episode})
        for episode in episodes
    ]
    return {TEAM: team, **paid}


Probes = Mapping[str, Mapping[str, Actor]]  # name of a probe -> who speaks in whose place


def probes_of(config: Config, learners: Mapping[str, Policy], fixed: Sequence[str] = ()) -> Probes:
    """What `evaluation.probes_of_team` asks for.

    learners: who speaks for the agents that learn, by the names that plays have for them
    fixed: those that do not learn; they are muted, too
    """
    names, policies, found = [*learners], [*learners.values()], dict[str, dict[str, Actor]]()
    for kind in config.evaluation.probes_of_team:
        if kind == "muted":
            found |= {f"{kind}_{name}": {name: Silent(name)} for name in [*names, *fixed]}
        elif kind == "untrained":
            for name, policy in learners.items():
                start = policy.reference(policy.name).as_member(config)
                found[f"{kind}_{name}"] = {name: start}
        elif kind == "swapped":  # each speaks for the one before it
            found[kind] = dict(zip(names, [*policies[1:], policies[0]], strict=True))
    return found


def worth_asking(probes: Probes, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The probes without those that mute somebody after whom nobody else speaks.

    lines: of the unchanged team, as of samples.jsonl
    """
    spoken, heard = set[str](), set[str]()
    for line in lines:
        speakers = [(turn["agent"], turn["role"]) for turn in line["turns"]]
        spoken.update(*speakers)
        heard.update(*(one for one, later in combinations(speakers, 2) if one != later))
    unheard = spoken - heard
    return [
        probe
        for probe, changed in probes.items()
        if not any(name in unheard and isinstance(who, Silent) for name, who in changed.items())
    ]


def of_probe(probe: str, metrics: Metrics, scores: PromptScores, request: EvalRequest) -> Metrics:
    """The metrics of the changed team: `eval/score/team` is `eval/muted_sender/score/team`.

    scores: what prompts contribute to them; they join those of the request
    """

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name.replace("/", f"/{probe}/", 1): value for name, value in values.items()}

    request.scores.values |= renamed(scores.values)
    request.scores.shares |= renamed(scores.shares)
    return renamed(metrics)


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
    probes: Probes = field(default_factory=dict)

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        sets = self._response_sets(request)
        # as much at once as the processes together take, so that memory does not grow with the rows
        rows_each = self.rows or next(iter(self.agents.values())).hardware.responses_at_once
        size = rows_each * distributed.count()

        def ask(sets: Sequence[ResponseSet]) -> None:
            in_batches(request, sets, size, partial(self._answer, request), before_each)

        ask(sets)
        metrics: Metrics = {}
        for responses in sets:
            if responses.kind == MEASURED:
                metrics_of = self.team_metrics if responses.who == TEAM else score_metrics
                metrics |= metrics_of(self.task, responses, request)
        if self.probes:
            team = next(one for one in sets if one.who == TEAM)  # its sampled responses
            for probe in worth_asking(self.probes, team.lines):
                ask([changed := replace(team, probe=probe, lines=[])])
                own = replace(request, scores=PromptScores(request.scores.prompts))
                found = self.team_metrics(self.task, changed, own)
                metrics |= of_probe(probe, found, own.scores, request)
        return metrics

    def _response_sets(self, request: EvalRequest) -> list[ResponseSet]:
        """The responses to sample, without their lines, in the order in which they are sampled."""
        config = request.config
        speakers = [*self.agents] if self.alone else [TEAM]
        team = config.team or self.probes
        measured = [*speakers, TEAM] if team and self.alone else speakers
        prompts = self.task.held_out(config.prompts, config.split)
        sets = [
            ResponseSet(name, MEASURED, prompts, samples)
            for samples in ((config.samples, None) if config.greedy else (config.samples,))
            for name in measured
        ]
        if request.final:
            probes = [
                replace(self.task.prompt_of(text), id=f"{PROBE}-{number}")
                for number, text in enumerate(config.probes)
            ]
            for samples in (1, None):
                sets += [ResponseSet(name, PROBE, probes, samples) for name in speakers]
        return sets

    def _answer(self, request: EvalRequest, responses: ResponseSet, rows: range) -> list[Line]:
        """An episode per row, as samples.jsonl keeps it; the reward scores it unless a probe."""
        prompts = [responses.prompt(row) for row in rows]
        team = responses.who == TEAM
        changed = self.probes[responses.probe] if responses.probe else {}
        actors: Mapping[str, Actor] = {**self.actors, **changed} if team else self.agents
        roll_out = RollOut.of(
            actors,
            self.sampling,
            (request.seed, responses.kind),
            greedy=responses.samples is None,
            first=rows.start,
            reward=self.reward,
            iteration=request.done,
        )
        episodes = roll_out(self.play if team else single_turn(responses.who), prompts)
        if responses.kind == MEASURED:
            self.reward.score(episodes)
        return [{"turns": [line_turn(turn, e.prompt) for turn in e.turns]} for e in episodes]
