"""What debates say about a team: votes, single answers, and who convinced whom."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cory.episode import Episode, Metrics
from cory.evaluation.evaluate import TEAM, Part, Request, estimate
from cory.functional.credit import rounds_of
from cory.functional.transitions import answer_changes, transition_rates
from cory.functional.votes import vote_score
from cory.tasks import Task


@dataclass(frozen=True)
class DebateMeasure:
    """Numbers about the debates of an evaluation; what TeamExam asks for."""

    agents: int
    ties: str

    def __call__(self, task: Task, part: Part, request: Request) -> Metrics:
        """Accuracy of votes and single answers by turn, and how answers changed between turns."""
        answers = [answers_of(task, row["turns"], self.agents) for row in part.lines]
        golds = golds_of(task, part)
        right = [
            [[answer == gold for answer in said] for said in rounds]
            for rounds, gold in zip(answers, golds, strict=True)
        ]
        prefix = "" if part.samples is not None else "greedy_"
        metrics: Metrics = {}
        for turn in range(len(answers[0])):
            votes = [
                vote_score(
                    rounds[turn],
                    gold,
                    self.ties,
                    draws(request, row, turn),
                )
                for row, (rounds, gold) in enumerate(zip(answers, golds, strict=True))
            ]
            who, count = f"turn_{turn + 1}", len(part.prompts)
            by_prompt = [votes[start::count] for start in range(count)]
            means = [sum(own) / len(own) for own in by_prompt]
            metrics |= estimate(f"{prefix}vote", who, means, len(votes))
            singles = [value for rounds in right for value in rounds[turn]]
            metrics[f"eval/{prefix}right/{who}"] = sum(singles) / len(singles)
        if part.samples is None:
            return metrics
        scores = [turn["score"] for row in part.lines for turn in row["turns"]]
        given = torch.tensor([score for score in scores if score is not None])
        metrics[f"eval/score/{TEAM}"] = given.mean().item()
        return metrics | transitions(right)


def golds_of(task: Task, part: Part) -> list[Hashable | None]:
    """The right answer to each row's question."""
    return [task.read(str(part.prompt(row).answer)) for row in range(len(part))]


def draws(request: Request, row: int, turn: int) -> np.random.Generator:
    """Random numbers for the ties of one vote."""
    return np.random.default_rng([request.seed, row, turn])


def answers_of(
    task: Task, turns: Sequence[dict[str, str | None]], agents: int
) -> list[list[Hashable | None]]:
    """What was answered, by turn and agent; after the end of a debate, its last answers."""
    rounds: list[list[Hashable | None]] = []
    for start in range(0, len(turns), agents):
        said = [turn["response"] for turn in turns[start : start + agents]]
        over = [response is None for response in said]
        rounds.append(
            list(rounds[-1])
            if all(over)
            else [None if response is None else task.read(response) for response in said]
        )
    return rounds


def transitions(right: Sequence[Sequence[Sequence[bool]]]) -> Metrics:
    """Changes of answers, for each turn after the first and over all of them.

    right: [episode][turn][agent]
    """
    found = [change for rounds in right for change in answer_changes(rounds)]
    metrics: Metrics = {}
    for turn in sorted({change.turn for change in found}):
        own = transition_rates([change for change in found if change.turn == turn])
        metrics |= {f"eval/{name}/turn_{turn + 1}": rate for name, rate in own.items()}
    whole = transition_rates(found)
    return metrics | {f"eval/{name}/{TEAM}": rate for name, rate in whole.items()}


def roll_out_metrics(episodes: list[Episode], agents: int) -> Metrics:
    """How the debates of a training iteration went, by turn."""
    debates = [rounds_of(episode, agents) for episode in episodes]
    longest = max(map(len, debates))
    metrics: Metrics = {}
    for number in range(longest):
        turns = [turn for rounds in debates if number < len(rounds) for turn in rounds[number]]
        who, count = f"turn_{number + 1}", len(turns)
        if turns[0].right is not None:
            metrics[f"debate/right/{who}"] = sum(bool(turn.right) for turn in turns) / count
        metrics[f"debate/bonus/{who}"] = sum(turn.bonus for turn in turns) / count
        metrics[f"debate/penalised/{who}"] = sum(turn.flawed for turn in turns) / count
    whole = max(len(episode.turns) // agents for episode in episodes)
    metrics |= shortened(episodes)
    metrics["debate/ended_early"] = sum(len(rounds) < whole for rounds in debates) / len(debates)
    return metrics


def shortened(episodes: Sequence[Episode]) -> Metrics:
    """How many of those who spoke could not be shown all of it."""
    spoken = [turn for episode in episodes for turn in episode.turns if not turn.absent]
    return {"debate/shortened": sum(turn.shortened for turn in spoken) / len(spoken)}
