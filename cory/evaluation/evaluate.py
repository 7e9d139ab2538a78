"""How good agents are on held-out prompts: alone on the bare query, and together in their roles."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from cory import distributed
from cory.config import EvaluationConfig, SamplingConfig
from cory.episode import Context, Episode, Metrics, Prompt, Turn
from cory.functional.pass_at_k import any_of_first, interval, pass_at_k
from cory.models.fingerprint import byte_sum
from cory.models.generation import draw_uniforms
from cory.models.policy import Actor, Policy
from cory.rewards import Reward
from cory.rollout.interactions import PIONEER, Interaction
from cory.runs.jsonl import Line
from cory.runs.partial_results import PartialResults, resumable
from cory.seeding import keyed
from cory.tasks import Task

TEAM = "team"
SAID = [0]  # tokens of a response that only its text is kept of; any, so that it is not absent
MEASURED = "evaluation"  # kinds of line in samples.jsonl; record.py writes the third
PROBE = "probe"
# before_each(rows so far, rows in all): called before each piece
BeforeEach = Callable[[int, int], None]


@dataclass(frozen=True)
class TeamEvaluator:
    """How agents are measured together."""

    interact: Interaction  # with the roles as they are now
    speakers: Mapping[str, Actor]
    places: int  # how often it lets somebody speak
    measure: Callable[[Task, Part, Request], Metrics]  # what the answers say
    alone: bool = True  # the agents are also asked one by one


@dataclass(frozen=True)
class EvalContext:
    """What agents are measured with."""

    agents: Mapping[str, Policy]
    task: Task
    reward: Reward
    team: TeamEvaluator
    sampling: SamplingConfig
    rows: int | None = None  # answered at once by one process; None: as many as its agents take


@dataclass(frozen=True)
class Request:
    """What is to be measured, and when."""

    config: EvaluationConfig
    seed: int
    iteration: int
    final: bool  # nothing is trained after it: the probes are asked, too


@dataclass
class Part:
    """Rows that are answered alike: every prompt once, then every prompt again, and so on."""

    who: str  # an agent, alone on the bare query; or TEAM, in its roles
    kind: str  # MEASURED | PROBE
    prompts: list[Prompt]
    samples: int | None  # responses per prompt; None: one, greedily
    streams: list[torch.Generator]  # one for each place in the order of speaking
    alone: Mapping[str, Part] = field(default_factory=dict)  # TEAM: what each agent says alone
    lines: list[Line] = field(default_factory=list)  # one per row

    def __len__(self) -> int:
        return len(self.prompts) * (self.samples or 1)

    def prompt(self, row: int) -> Prompt:
        return self.prompts[row % len(self.prompts)]

    def sample(self, row: int) -> int | None:
        """Which of the prompt's responses a row is; None: the greedy one."""
        return None if self.samples is None else row // len(self.prompts)


def evaluate(
    bench: EvalContext, request: Request, pieces: PartialResults, before_each: BeforeEach
) -> Metrics:
    """Measure the agents; every response is left in `pieces.lines`.

    Nothing of the training is touched: the responses are a function of weights, roles and seed.
    """
    parts = parts_of(bench, request)
    # as much at once as the processes together take, so that memory does not grow with the rows
    rows_each = bench.rows or next(iter(bench.agents.values())).hardware.rollout_batch_size
    size = rows_each * distributed.count()

    def answer(part: Part, rows: range) -> list[Line]:
        answered = zip(rows, answers(bench, part, rows), strict=True)
        return [line(request, part, row, episode) for row, episode in answered]

    def skip(part: Part, rows: range) -> None:
        for stream in part.streams if part.samples is not None else ():
            draw_uniforms(len(rows), bench.sampling.max_response_tokens, stream)

    for part, lines in resumable(
        pieces,
        request.iteration,
        fingerprint(bench.agents),
        parts,
        size,
        answer=answer,
        skip=skip,
        before_each=before_each,
    ):
        part.lines += lines
    metrics: Metrics = {}
    for part in parts:
        if part.kind == MEASURED:
            measure = bench.team.measure if part.who == TEAM else metrics_of
            metrics |= measure(bench.task, part, request)
    return metrics


def parts_of(bench: EvalContext, request: Request) -> list[Part]:
    """What is to be answered, in this order."""
    config, seed, agents = request.config, request.seed, bench.agents
    prompts = bench.task.held_out(config.prompts, config.split)
    probes = [
        replace(bench.task.prompt_of(text), id=f"{PROBE}-{number}")
        for number, text in enumerate(config.probes)
    ]
    ways: list[int | None] = [config.samples, *([None] if config.greedy else [])]
    parts: list[Part] = []
    for samples in ways:
        asked = agents if bench.team.alone else {}
        alone = {name: Part(name, MEASURED, prompts, samples, [stream(seed, 0)]) for name in asked}
        parts += alone.values()
        if config.team:
            streams = [stream(seed, place) for place in range(bench.team.places)]
            parts.append(Part(TEAM, MEASURED, prompts, samples, streams, alone))
    if request.final and probes:
        for samples in (1, None):
            parts += [Part(name, PROBE, probes, samples, [stream(seed, 0)]) for name in agents]
    return parts


def stream(seed: int, place: int) -> torch.Generator:
    """Random numbers of whoever speaks at a place; agents alone all get those of the first."""
    if place > 0:  # an observer that drew the pioneer's numbers would not answer independently
        return keyed((seed, place))
    return torch.Generator().manual_seed(seed % 2**63)


def answers(bench: EvalContext, part: Part, rows: range) -> list[Episode]:
    """One episode per row, scored unless nobody knows what is right."""
    prompts = [part.prompt(row) for row in rows]
    sampling = None if part.samples is None else bench.sampling
    limit = bench.sampling.max_response_tokens
    places = iter(part.streams)

    def speak(agent: str, role: str, round: int, contexts: Sequence[Context | None]) -> list[Turn]:
        stream = next(places)
        if part.who == TEAM and role == PIONEER:  # it sees what it saw alone
            return [said(part.alone[agent].lines[row], role) for row in rows]
        speakers = bench.team.speakers if part.who == TEAM else bench.agents
        spoken = speakers[agent].turns(role, round, contexts, limit, sampling, stream)
        return [turn for turn, _ in spoken]

    if part.who == TEAM:
        episodes = bench.team.interact(prompts, speak)
    else:
        turns = speak(part.who, "solo", 0, [prompt.text for prompt in prompts])
        episodes = [Episode(p, [turn]) for p, turn in zip(prompts, turns, strict=True)]
    if part.kind == MEASURED:
        bench.reward.score(episodes)
    return episodes


def said(line: Line, role: str) -> Turn:
    """What an agent said alone, as a turn in another role."""
    (turn,) = line["turns"]
    context = turn["context"] or line["prompt"]
    return Turn(turn["agent"], role, 0, context, turn["response"], [], SAID)


def line(request: Request, part: Part, row: int, episode: Episode) -> Line:
    """An episode as samples.jsonl keeps it."""
    prompt = episode.prompt
    return {
        "iteration": request.iteration,
        "kind": part.kind,
        "who": part.who,
        "split": request.config.split if part.kind == MEASURED else None,
        "sample": part.sample(row),
        "prompt_id": prompt.id,
        "prompt": prompt.text,
        "answer": prompt.answer,
        "turns": [
            {
                "agent": turn.agent,
                "role": turn.role,
                "context": None if turn.context == prompt.text else turn.context,
                "response": None if turn.absent else turn.response,
                "score": turn.score,
            }
            for turn in episode.turns
        ],
    }


def metrics_of(task: Task, part: Part, request: Request) -> Metrics:
    """Scores of a part, and how many of its prompts were solved where the answers are known."""
    metrics: Metrics = {}
    for who, turns in speakers(part).items():
        # float32, as all means of scores here
        score = torch.tensor([turn["score"] for row in turns for turn in row]).mean().item()
        solved = solved_of(task, part, turns) if part.prompts[0].answer is not None else None
        if part.samples is not None:
            metrics[f"eval/score/{who}"] = score
            if solved is not None:
                for k in request.config.k:
                    metrics |= passed(who, k, solved)
        elif solved is None:
            metrics[f"eval/greedy/{who}"] = score
        else:
            metrics |= estimate("greedy", who, [float(first) for (first,) in solved], len(solved))
    return metrics


def speakers(part: Part) -> dict[str, list[list[dict[str, Any]]]]:
    """Whom a part has numbers about, and which turns of each row are theirs."""
    rows = [row["turns"] for row in part.lines]
    found = {}
    if part.who == TEAM:
        for place, turn in enumerate(rows[0]):
            found[turn["role"]] = [[row[place]] for row in rows]
    return found | {part.who: rows}


def solved_of(task: Task, part: Part, turns: list[list[dict[str, Any]]]) -> list[list[bool]]:
    """Of each prompt, for each of its rows: whether one of the row's turns is right.

    turns: some of each row's
    """
    right = [
        any(task.is_right(turn["response"], str(part.prompt(row).answer)) for turn in chosen)
        for row, chosen in enumerate(turns)
    ]
    return [right[start :: len(part.prompts)] for start in range(len(part.prompts))]


def passed(who: str, k: int, solved: list[list[bool]]) -> Metrics:
    """pass@k by the unbiased estimator, and by the paper's: one of the first k is right.

    solved: of each prompt, whether each of its responses was right
    """
    unbiased = [pass_at_k(sum(tries), len(tries), k) for tries in solved]
    first = [float(any_of_first(tries, k)) for tries in solved]
    responses = sum(map(len, solved))
    return estimate(f"pass_at_{k}", who, unbiased, responses) | estimate(
        f"any_of_{k}", who, first, len(first)
    )


def estimate(name: str, who: str, values: list[float], responses: int) -> Metrics:
    """The mean of the prompts' values and its 95 % interval."""
    low, high = interval(values, responses)
    return {
        f"eval/{name}/{who}": sum(values) / len(values),
        f"eval/{name}_low/{who}": low,
        f"eval/{name}_high/{who}": high,
    }


def fingerprint(agents: Mapping[str, Policy]) -> str:
    """A name for the agents' weights; another one once they have moved."""
    digest = hashlib.sha256()
    for agent in agents.values():
        with agent.engine.whole():
            for name, parameter in agent.engine.trainable.items():
                digest.update(f"{agent.name} {name} {byte_sum(parameter.detach())}\n".encode())
    return digest.hexdigest()
