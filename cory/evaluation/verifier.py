"""Evaluates a verifier: how well it tells right answers to held-out questions from wrong ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from cory import distributed
from cory.config import SamplingConfig
from cory.episode import Metrics, Prompt
from cory.evaluation.prompt_scores import PromptScores
from cory.evaluation.responses import (
    MEASURED,
    BeforeEach,
    EvalRequest,
    as_line,
    in_batches,
    line_turn,
)
from cory.functional.statistics import mean
from cory.functional.verdicts import auc, auc_contributions
from cory.models.policy import Policy, asked_of
from cory.rewards.verifier import correctness_probabilities, readings
from cory.runs.files import Line
from cory.tasks import Task

Verdict = tuple[float, bool]  # the verifier's probability of a right answer; whether it is right


@dataclass(frozen=True)
class VerifierEvaluator:
    """A frozen model answers held-out questions and the verifier judges them; an `Evaluator`."""

    policy: Policy  # the verifier's
    author: Policy  # the frozen model that answers
    task: Task
    sampling: SamplingConfig

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`; each line is an answer and its verdict."""
        config = request.config
        prompts = self.task.held_out(config.prompts, config.split)
        count = len(prompts) * config.samples
        size = self.policy.hardware.responses_at_once * distributed.count()

        def answer(_: range, rows: range) -> list[Line]:
            return self._lines(request, prompts, rows)

        batches = in_batches(request, [range(count)], size, answer, before_each)
        lines = [line for _, batch in batches for line in batch]
        questions = by_question(lines, len(prompts))
        request.scores.prompts = [prompt.id for prompt in prompts]
        add_contributions(request.scores, questions)
        return verdict_metrics(questions)

    def _lines(self, request: EvalRequest, prompts: Sequence[Prompt], rows: range) -> list[Line]:
        """Answers and verdicts of some rows, as samples.jsonl keeps them."""
        asked = [prompts[row % len(prompts)] for row in rows]
        limit = self.sampling.max_response_tokens
        contexts = [prompt.opening for prompt in asked]
        questions = asked_of("solo", contexts, limit, (request.seed, MEASURED), rows.start)
        turns = self.author.turns(questions, limit, self.sampling)
        scores = self.scores([turn.context for turn in turns], [turn.response for turn in turns])
        lines = []
        for row, prompt, turn, score in zip(rows, asked, turns, scores, strict=True):
            turn.score = score
            right = self.task.is_right(turn.response, str(prompt.answer))
            line = as_line(request, MEASURED, self.policy.name, row // len(prompts), prompt)
            lines.append(line | {"turns": [line_turn(turn, prompt) | {"right": right}]})
        return lines

    def scores(self, questions: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The verifier's probability that each answer is right.

        questions: as they were shown to the author
        """
        team, model = self.policy.team, self.policy.model
        rows = readings(team.texts, questions, answers, team.context_length)
        size = self.policy.hardware.rollout_batch_size
        pad = int(team.tokenizer.pad_token_id)
        model.eval()
        with self.policy.engine.whole():
            model.activate()
            return distributed.map_rows(
                rows,
                size,
                lambda batch: correctness_probabilities(model, batch, pad),
                lambda row: sum(map(len, row)),
            )


def by_question(lines: Sequence[Line], questions: int) -> list[list[Verdict]]:
    """The verdicts on each question's answers, in their order."""
    given = [(turn["score"], turn["right"]) for line in lines for turn in line["turns"]]
    return [given[number::questions] for number in range(questions)]


def verdict_metrics(questions: Sequence[Sequence[Verdict]]) -> Metrics:
    """Accuracy and AUC over all answers, over balanced ones, and AUC within each question.

    A metric is left out where there is no right or no wrong answer.
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


def add_contributions(scores: PromptScores, questions: Sequence[Sequence[Verdict]]) -> None:
    """What each question contributes to the accuracy, and to the AUC where there is one."""
    hits = [mean((score > 0.5) == right for score, right in given) for given in questions]
    scores.add("eval/verifier_accuracy/natural", hits, len(questions[0]))
    groups = [
        ([score for score, right in given if right], [score for score, right in given if not right])
        for given in questions
    ]
    if any(right for right, _ in groups) and any(wrong for _, wrong in groups):
        scores.add("eval/verifier_auc/natural", auc_contributions(groups), None)


def balanced(given: Sequence[Verdict]) -> list[Verdict]:
    """As many verdicts on right as on wrong answers, the first of each."""
    right, wrong = ([v for v in given if v[1] == label] for label in (True, False))
    return [verdict for pair in zip(right, wrong, strict=False) for verdict in pair]


def area_of(given: Sequence[Verdict]) -> float | None:
    """The AUC; None where one of the labels is missing."""
    right, wrong = ([score for score, is_right in given if is_right == x] for x in (True, False))
    return auc(right, wrong) if right and wrong else None
