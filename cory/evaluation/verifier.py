"""How well a verifier tells right answers to held-out questions from wrong ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cory import distributed
from cory.config import SamplingConfig
from cory.episode import Metrics, Prompt
from cory.evaluation.evaluate import MEASURED, BeforeEach, Request, fingerprint, stream
from cory.functional.ranking import auc
from cory.models.generation import draw_uniforms
from cory.models.policy import Policy, Reference
from cory.rewards.verifier import correctness_probabilities, readings
from cory.runs.jsonl import Line
from cory.runs.partial_results import PartialResults, resumable
from cory.tasks import Task

Verdict = tuple[float, bool]  # probability of being right, and whether it is


class VerifierEvaluator:
    """A frozen model answers held-out questions, and the verifier says which answers are right."""

    def __init__(self, voice: Policy, author: Reference, task: Task, sampling: SamplingConfig):
        """author: who answers."""
        self.voice = voice
        self.author = author
        self.task = task
        self.sampling = sampling

    def __call__(
        self, request: Request, pieces: PartialResults, before_each: BeforeEach
    ) -> Metrics:
        """Measure the verifier; every answer and verdict is left in `pieces.lines`.

        Nothing of the training is touched: the answers are a function of the seed.
        """
        config = request.config
        prompts = self.task.held_out(config.prompts, config.split)
        count = len(prompts) * config.samples
        size = self.voice.hardware.rollout_batch_size * distributed.count()
        numbers, limit = stream(request.seed, 0), self.sampling.max_response_tokens
        batches = resumable(
            pieces,
            request.iteration,
            fingerprint({self.voice.name: self.voice}),
            [range(count)],
            size,
            answer=lambda _, rows: self._lines(request, prompts, rows, numbers),
            skip=lambda _, rows: draw_uniforms(len(rows), limit, numbers),
            before_each=before_each,
        )
        lines = [line for _, batch in batches for line in batch]
        return verdict_metrics(by_question(lines, len(prompts)))

    def _lines(
        self, request: Request, prompts: Sequence[Prompt], rows: range, numbers: torch.Generator
    ) -> list[Line]:
        """Answers and verdicts as samples.jsonl keeps them."""
        asked = [prompts[row % len(prompts)] for row in rows]
        limit = self.sampling.max_response_tokens
        texts = [prompt.text for prompt in asked]
        spoken = self.author.turns("solo", 0, texts, limit, self.sampling, numbers)
        turns = [turn for turn, _ in spoken]
        scores = self.scores([turn.context for turn in turns], [turn.response for turn in turns])
        return [
            {
                "iteration": request.iteration,
                "kind": MEASURED,
                "who": self.voice.name,
                "split": request.config.split,
                "sample": row // len(prompts),
                "prompt_id": prompt.id,
                "prompt": prompt.text,
                "answer": prompt.answer,
                "turns": [
                    {
                        "agent": turn.agent,
                        "role": turn.role,
                        "context": None if turn.context == prompt.text else turn.context,
                        "response": turn.response,
                        "score": score,
                        "right": self.task.is_right(turn.response, str(prompt.answer)),
                    }
                ],
            }
            for row, prompt, turn, score in zip(rows, asked, turns, scores, strict=True)
        ]

    def scores(self, questions: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The verifier's probability that each answer is right.

        questions: as they were shown to whoever answered
        """
        team, model = self.voice.team, self.voice.model
        rows = readings(team.tokenizer, questions, answers, team.context_length)
        size = self.voice.hardware.rollout_batch_size
        pad = int(team.tokenizer.pad_token_id)
        model.eval()
        with self.voice.engine.whole():
            model.activate()
            return distributed.map_rows(
                rows, size, lambda batch: correctness_probabilities(model, batch, pad)
            )


def by_question(lines: Sequence[Line], questions: int) -> list[list[Verdict]]:
    """The verdicts on each question's answers, in the order in which they were given."""
    given = [(turn["score"], turn["right"]) for line in lines for turn in line["turns"]]
    return [given[number::questions] for number in range(questions)]


def verdict_metrics(questions: Sequence[Sequence[Verdict]]) -> Metrics:
    """Accuracy and AUC over all answers, over as many right as wrong of each question, and within.

    A number is left out where there is no right or no wrong answer to take it from.
    """
    metrics: Metrics = {}
    pools = {
        "natural": [verdict for given in questions for verdict in given],
        "balanced": [verdict for given in questions for verdict in balanced(given)],
    }
    for pool, given in pools.items():
        if given:
            hits = sum((score > 0.5) == right for score, right in given)
            metrics[f"eval/verifier_accuracy/{pool}"] = hits / len(given)
        area = area_of(given)
        if area is not None:
            metrics[f"eval/verifier_auc/{pool}"] = area
    within = [area for given in questions if (area := area_of(given)) is not None]
    if within:
        metrics["eval/verifier_auc/within"] = sum(within) / len(within)
    return metrics


def balanced(given: Sequence[Verdict]) -> list[Verdict]:
    """As many right as wrong ones, the first of each."""
    right, wrong = ([v for v in given if v[1] == label] for label in (True, False))
    return [verdict for pair in zip(right, wrong, strict=False) for verdict in pair]


def area_of(given: Sequence[Verdict]) -> float | None:
    """The AUC; None where one of the labels is missing."""
    right, wrong = ([score for score, is_right in given if is_right == x] for x in (True, False))
    return auc(right, wrong) if right and wrong else None
