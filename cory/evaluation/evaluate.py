"""Evaluates agents on held-out prompts: alone on the bare query, and together in their roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from cory import distributed
from cory.config import EvaluationConfig, SamplingConfig
from cory.episode import TEXT_ONLY, Context, Episode, Metrics, Prompt, Turn, reward_columns
from cory.evaluation.prompt_scores import PromptScores, by_prompt
from cory.functional.statistics import any_of_first, interval, mean, pass_at_k
from cory.models.fingerprint import alike, weights_fingerprint
from cory.models.policy import Actor, Policy
from cory.models.sampling.generation import draw_uniforms
from cory.rewards import Reward
from cory.rollout.interactions import PIONEER, Interaction, single_turn
from cory.rollout.speak import Speaking, speak_with
from cory.runs.jsonl import Line
from cory.runs.partial_results import PartialResults, resumable
from cory.seeding import place_stream
from cory.tasks import Task

TEAM = "team"
MEASURED = "evaluation"  # the kinds of line in samples.jsonl; runs/recorder.py writes the third
PROBE = "probe"
# before_each(rows done, rows in all): called before each batch of rows
BeforeEach = Callable[[int, int], None]


@dataclass(frozen=True)
class EvalRequest:
    """The settings of one evaluation and its place in the run."""

    config: EvaluationConfig
    seed: int
    iteration: int
    final: bool  # no training follows: the probes are asked, too
    # agents are as they were before any training; only what is compared with later is measured
    untrained: bool = False
    scores: PromptScores = field(default_factory=PromptScores)  # filled by the evaluator


class Evaluator(Protocol):
    """Evaluates a run's policies on held-out prompts."""

    def __call__(
        self, request: EvalRequest, partial_results: PartialResults, before_each: BeforeEach
    ) -> Metrics:
        """The metrics; every response is left in `partial_results.lines`, and what prompts
        contribute in `request.scores`.

        Training is not affected: the responses are a function of weights, roles and seed.
        """
        ...


@dataclass
class ResponseSet:
    """The responses of one agent, or of the team: every prompt once, then every prompt again."""

    who: str  # an agent, alone on the bare query; or TEAM, in its roles
    kind: str  # MEASURED | PROBE
    prompts: list[Prompt]
    samples: int | None  # responses per prompt; None: one, greedily
    streams: list[torch.Generator]  # one for each place in the order of speaking
    alone: Mapping[str, ResponseSet] = field(default_factory=dict)  # TEAM: each agent's own
    lines: list[Line] = field(default_factory=list)  # one per row

    def __len__(self) -> int:
        return len(self.prompts) * (self.samples or 1)

    def prompt(self, row: int) -> Prompt:
        """The prompt of a row."""
        return self.prompts[row % len(self.prompts)]

    def sample(self, row: int) -> int | None:
        """Which of its prompt's responses a row is; None: the greedy one."""
        return None if self.samples is None else row // len(self.prompts)


@dataclass(frozen=True)
class TeamEvaluator:
    """Evaluates agents one by one, and together by an interaction; an `Evaluator`."""

    agents: Mapping[str, Policy]
    task: Task
    reward: Reward
    sampling: SamplingConfig
    interact: Interaction  # with the roles as they are now
    actors: Mapping[str, Actor]
    places: int  # turns of an episode: how often `interact` calls `speak`
    team_metrics: Callable[[Task, ResponseSet, EvalRequest], Metrics]
    alone: bool = True  # the agents are also asked one by one
    rows: int | None = None  # rows per batch and process; None: as many as agents sample at once

    def __call__(
        self, request: EvalRequest, partial_results: PartialResults, before_each: BeforeEach
    ) -> Metrics:
        """As `Evaluator`; agents that are still alike are asked once."""
        twins = alike(self.agents) if request.untrained and self.alone else {}
        sets = self._response_sets(request, twins)
        # as much at once as the processes together take, so that memory does not grow with the rows
        rows_each = self.rows or next(iter(self.agents.values())).hardware.responses_at_once
        size = rows_each * distributed.count()

        def answer(responses: ResponseSet, rows: range) -> list[Line]:
            answered = zip(rows, self._respond(responses, rows), strict=True)
            return [self._line(request, responses, row, episode) for row, episode in answered]

        def skip(responses: ResponseSet, rows: range) -> None:
            for stream in responses.streams if responses.samples is not None else ():
                draw_uniforms(len(rows), self.sampling.max_response_tokens, stream)

        for responses, lines in resumable(
            partial_results,
            request.iteration,
            weights_fingerprint(self.agents),
            sets,
            size,
            answer=answer,
            skip=skip,
            before_each=before_each,
        ):
            responses.lines += lines
        metrics: Metrics = {}
        request.scores.prompts = [prompt.id for prompt in sets[0].prompts]
        for responses in [*sets, *twin_sets(sets, twins)]:
            if responses.kind == MEASURED:
                metrics_of = self.team_metrics if responses.who == TEAM else score_metrics
                metrics |= metrics_of(self.task, responses, request)
        return metrics

    def _response_sets(self, request: EvalRequest, twins: Mapping[str, str]) -> list[ResponseSet]:
        """The responses to sample, without their lines, in the order in which they are sampled.

        twins: agent -> the one that is asked in its place
        """
        config, seed, agents = request.config, request.seed, self.agents
        prompts = self.task.held_out(config.prompts, config.split)
        probes = [
            replace(self.task.prompt_of(text), id=f"{PROBE}-{number}")
            for number, text in enumerate(config.probes)
        ]

        def own(name: str, kind: str, asked: list[Prompt], samples: int | None) -> ResponseSet:
            return ResponseSet(name, kind, asked, samples, [place_stream(seed, 0)])

        sets: list[ResponseSet] = []
        for samples in (config.samples, None) if config.greedy else (config.samples,):
            asked = agents if self.alone else {}
            alone = {
                name: own(name, MEASURED, prompts, samples)
                for name in asked
                if twins.get(name, name) == name
            }
            sets += alone.values()
            alone |= {name: alone[twins[name]] for name in asked if name not in alone}
            if config.team:
                streams = [place_stream(seed, place) for place in range(self.places)]
                sets.append(ResponseSet(TEAM, MEASURED, prompts, samples, streams, alone))
        if request.final and probes:
            sets += [own(name, PROBE, probes, samples) for samples in (1, None) for name in agents]
        return sets

    def _respond(self, responses: ResponseSet, rows: range) -> list[Episode]:
        """One episode per row; the reward scores it unless it is a probe."""
        prompts = [responses.prompt(row) for row in rows]
        team = responses.who == TEAM
        streams = iter(responses.streams)
        speak = speak_with(
            self.actors if team else self.agents,
            self.sampling.max_response_tokens,
            None if responses.samples is None else self.sampling,
            streams,
        )

        def repeat_alone(actor: str, role: str) -> list[Turn]:
            next(streams)
            return [repeated(responses.alone[actor].lines[row], actor, role) for row in rows]

        if team:
            episodes = self.interact(prompts, SpeakOrRepeat(speak, repeat_alone))
        else:
            episodes = single_turn(prompts, speak, responses.who)
        if responses.kind == MEASURED:
            self.reward.score(episodes)
        return episodes

    def _line(
        self, request: EvalRequest, responses: ResponseSet, row: int, episode: Episode
    ) -> Line:
        """An episode as samples.jsonl keeps it."""
        prompt, sample = episode.prompt, responses.sample(row)
        turns = [line_turn(turn, prompt) for turn in episode.turns]
        return as_line(request, responses.kind, responses.who, sample, prompt) | {"turns": turns}


@dataclass(frozen=True)
class SpeakOrRepeat:
    """A `Speak` in which the pioneer repeats what it said alone.

    It sees what it saw then, so that its response would be the same.
    """

    speak: Speaking
    repeat: Callable[[str, str], list[Turn]]  # actor, role -> what it said

    def __call__(
        self, actor: str, role: str, round: int, contexts: Sequence[Context | None]
    ) -> list[Turn]:
        """A turn per context, as `Speak`."""
        if role == PIONEER:
            return self.repeat(actor, role)
        return self.speak(actor, role, round, contexts)

    def together(
        self,
        actor: str,
        roles: Sequence[str],
        round: int,
        contexts: Sequence[Sequence[Context | None]],
    ) -> list[list[Turn]]:
        """As `SpeaksTogether`; pioneers do not speak with others."""
        return self.speak.together(actor, roles, round, contexts)


def twin_sets(sets: Sequence[ResponseSet], twins: Mapping[str, str]) -> list[ResponseSet]:
    """What agents alone say that were not asked: the same as their twins."""
    return [
        replace(responses, who=name)
        for responses in sets
        if responses.kind == MEASURED and responses.who != TEAM
        for name, twin in twins.items()
        if twin == responses.who and name != twin
    ]


def repeated(line: Line, agent: str, role: str) -> Turn:
    """An agent's response alone, as a turn in another role."""
    (turn,) = line["turns"]
    context = turn["context"] or line["prompt"]
    return Turn(agent, role, 0, context, turn["response"], [], TEXT_ONLY)


def as_line(request: EvalRequest, kind: str, who: str, sample: int | None, prompt: Prompt) -> Line:
    """A line of samples.jsonl, without what is specific to its kind of evaluation.

    sample: which response to the prompt; None: the greedy one
    """
    return {
        "iteration": request.iteration,
        "kind": kind,
        "who": who,
        "split": request.config.split if kind == MEASURED else None,
        "sample": sample,
        "prompt_id": prompt.id,
        "prompt": prompt.text,
        "answer": prompt.answer,
    }


def line_turn(turn: Turn, prompt: Prompt) -> dict[str, Any]:
    """A turn in a line of samples.jsonl."""
    return {
        "agent": turn.agent,
        "role": turn.role,
        "context": None if turn.context == prompt.text else turn.context,
        "response": None if turn.absent else turn.response,
        "score": turn.score,
        **reward_columns(turn),
    }


def score_metrics(task: Task, responses: ResponseSet, request: EvalRequest) -> Metrics:
    """Mean scores, and the share of prompts solved where the right answers are known."""
    metrics: Metrics = {}
    for who, turns in turns_by_role(responses).items():
        # float32, as all means of scores here
        scores = [float(turn["score"]) for row in turns for turn in row]
        score = torch.tensor(scores).mean().item()
        each = [mean(float(turn["score"]) for turn in row) for row in turns]
        count = len(responses.prompts)
        known = responses.prompts[0].answer is not None
        solved = solved_by_prompt(task, responses, turns) if known else None
        if responses.samples is not None:
            metrics[f"eval/score/{who}"] = score
            counted = {*scores} <= {0.0, 1.0}  # what is right, or passes a test
            tries = responses.samples if counted else None
            request.scores.add(f"eval/score/{who}", by_prompt(each, count), tries)
            metrics |= part_metrics(who, turns)
            if solved is not None:
                for k in request.config.k:
                    metrics |= pass_metrics(who, k, solved)
                k = min(request.config.k)
                passed = [pass_at_k(sum(own), len(own), k) for own in solved]
                request.scores.add(f"eval/pass_at_{k}/{who}", passed, responses.samples)
        elif solved is None:
            metrics[f"eval/greedy/{who}"] = score
            request.scores.add(f"eval/greedy/{who}", by_prompt(each, count), None)
        else:
            first = [float(tries[0]) for tries in solved]
            metrics |= mean_with_interval("greedy", who, first, len(solved))
            request.scores.add(f"eval/greedy/{who}", first, 1)
    return metrics


def part_metrics(who: str, turns: list[list[dict[str, Any]]]) -> Metrics:
    """Mean score of each part of a sum of rewards, over the turns that it applies to."""
    scores: dict[str, list[float]] = {}
    for turn in (turn for row in turns for turn in row):
        for part, score in turn.get("parts", {}).items():
            if score is not None:
                scores.setdefault(part, []).append(score)
    return {f"eval/reward/{part}/{who}": sum(found) / len(found) for part, found in scores.items()}


def turns_by_role(responses: ResponseSet) -> dict[str, list[list[dict[str, Any]]]]:
    """The turns of each row, by the role they were said in (TEAM only), and all of them."""
    rows = [row["turns"] for row in responses.lines]
    by_role = {}
    if responses.who == TEAM:
        for place, turn in enumerate(rows[0]):
            by_role[turn["role"]] = [[row[place]] for row in rows]
    return by_role | {responses.who: rows}


def solved_by_prompt(
    task: Task, responses: ResponseSet, turns: list[list[dict[str, Any]]]
) -> list[list[bool]]:
    """For each prompt and each of its rows: whether one of the row's turns is right.

    turns: of each row, those that count
    """
    right = [
        any(task.is_right(turn["response"], str(responses.prompt(row).answer)) for turn in chosen)
        for row, chosen in enumerate(turns)
    ]
    return [right[start :: len(responses.prompts)] for start in range(len(responses.prompts))]


def pass_metrics(who: str, k: int, solved: list[list[bool]]) -> Metrics:
    """pass@k by the unbiased estimator, and by the paper's: one of the first k is right.

    solved: of each prompt, whether each of its responses was right
    """
    unbiased = [pass_at_k(sum(tries), len(tries), k) for tries in solved]
    first = [float(any_of_first(tries, k)) for tries in solved]
    responses = sum(map(len, solved))
    return mean_with_interval(f"pass_at_{k}", who, unbiased, responses) | mean_with_interval(
        f"any_of_{k}", who, first, len(first)
    )


def mean_with_interval(name: str, who: str, values: list[float], responses: int) -> Metrics:
    """The mean of the prompts' values and its 95 % interval."""
    low, high = interval(values, responses)
    return {
        f"eval/{name}/{who}": sum(values) / len(values),
        f"eval/{name}_low/{who}": low,
        f"eval/{name}_high/{who}": high,
    }
