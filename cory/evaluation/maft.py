"""How good a team of specialised agents is, and how different what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cory.config import MaftConfig
from cory.episode import Metrics, Prompt
from cory.evaluation.debates import DebateMeasure, answers_of, draws, golds_of
from cory.evaluation.diversity import Debated, Diversity
from cory.evaluation.evaluate import Part, Request, stream
from cory.functional.votes import elected_answer
from cory.models.policy import Actor, Policy
from cory.tasks import Task

# the place of the model as it came, behind all places of those who speak in a debate
BASE_PLACE = 10**6


@dataclass(frozen=True)
class AgentsMeasure:
    """Numbers about the debates of an evaluation; what TeamExam asks for."""

    config: MaftConfig
    voices: Mapping[str, Policy]
    base: Actor  # the model as it came
    diversity: Diversity

    def __call__(self, task: Task, part: Part, request: Request) -> Metrics:
        """Accuracy of votes and of the first agent by turn, and the diversity of the answers."""
        config, agents = self.config, self.config.evaluation_agents
        metrics = DebateMeasure(agents, config.vote_ties)(task, part, request)
        rows = [row["turns"] for row in part.lines]
        answers = [answers_of(task, turns, agents) for turns in rows]
        golds = golds_of(task, part)
        for turn in range(config.evaluation_turns):
            who = f"turn_{turn + 1}"
            metrics[f"eval/vote_se/{who}"] = binomial_se(metrics[f"eval/vote/{who}"], len(golds))
            first = [given[turn][0] == gold for given, gold in zip(answers, golds, strict=True)]
            single = sum(first) / len(first)
            metrics[f"eval/single/{who}"] = single
            metrics[f"eval/single_se/{who}"] = binomial_se(single, len(first))
        base = self._base(part.prompts, request)
        debates = [
            Debated(
                question=part.prompt(row).text,
                answers=given,
                votes=[
                    elected_answer(said, config.vote_ties, draws(request, row, turn))
                    for turn, said in enumerate(given)
                ],
                responses=by_turn([turn["response"] or "" for turn in turns], agents),
                contexts=[turn["context"] or part.prompt(row).text for turn in turns[-agents:]],
                base=base[row],
            )
            for row, (given, turns) in enumerate(zip(answers, rows, strict=True))
        ]
        kinds = [kind_of(config, turn) for turn in range(config.evaluation_turns)]
        last = config.evaluation_turns - 1
        # a model behind an endpoint has no voice here, and is asked for no likelihood
        spoke = [config.policy(last, agent) for agent in range(agents)]
        voices = [self.voices[name] for name in spoke if name in self.voices]
        return metrics | self.diversity.measure(debates, kinds, voices)

    def _base(self, prompts: Sequence[Prompt], request: Request) -> list[list[str]]:
        """What the model says to each problem without any training, where it is asked for."""
        if not self.config.diversity.kl_to_base:
            return [[] for _ in prompts]
        sampling = self.config.sampling
        limit = sampling.max_response_tokens
        # numbers of its own: a place after all that speak in the debates
        numbers: torch.Generator = stream(request.seed, BASE_PLACE)
        texts = [prompt.text for prompt in prompts]
        spoken = self.base.turns("base", 0, texts, limit, sampling, numbers)
        return [[turn.response] for turn, _ in spoken]


def kind_of(config: MaftConfig, turn: int) -> str:
    """What those who speak at a turn are called: generation, critic or single."""
    return config.policy(turn, 0).partition("_")[0]


def by_turn(said: Sequence[Any], agents: int) -> list[list[Any]]:
    """What was said, by turn and agent."""
    return [list(said[start : start + agents]) for start in range(0, len(said), agents)]


def binomial_se(share: float, count: int) -> float:
    """Standard error of a share of so many."""
    return math.sqrt(share * (1 - share) / count)
