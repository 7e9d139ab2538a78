"""Evaluates a verifier: how well it tells right answers to held-out questions from wrong ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cory import distributed
from cory.config import SamplingConfig
from cory.episode import Metrics, Turn
from cory.evaluation.responses import (
    MEASURED,
    BeforeEach,
    EvalRequest,
    PromptScores,
    ResponseSet,
    in_batches,
    line_turn,
)
from cory.functional.statistics import auc, mean
from cory.models.actor import asked_of
from cory.models.policy import Policy
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
        answers = ResponseSet(self.policy.name, MEASURED, prompts, config.samples)
        size = self.policy.hardware.responses_at_once * distributed.count()
        in_batches(request, [answers], size, partial(self._answer, request), before_each)
        given = [(turn["score"], turn["right"]) for line in answers.lines for turn in line["turns"]]
        questions = [given[number :: len(prompts)] for number in range(len(prompts))]
        return verdict_metrics(questions, request.scores)

    def _answer(self, request: EvalRequest, answers: ResponseSet, rows: range) -> list[Line]:
        """Answers and verdicts of some rows, as samples.jsonl keeps them."""
        prompts = [answers.prompt(row) for row in rows]
        limit = self.sampling.max_response_tokens
        contexts = [prompt.opening for prompt in prompts]
        asked = asked_of("solo", contexts, limit, (request.seed, MEASURED), rows.start)
        turns = self.author.turns(asked, limit, self.sampling)
        lines = []
        for prompt, turn, score in zip(prompts, turns, self._scores(turns), strict=True):
            turn.score = score
            right = self.task.is_right(turn.response, str(prompt.answer))
            lines.append({"turns": [line_turn(turn, prompt) | {"right": right}]})
        return lines

    def _scores(self, turns: Sequence[Turn]) -> list[float]:
        """The verifier's probability that each answer is right, to what its author was shown."""
        bundle, model = self.policy.bundle, self.policy.model
        shown, said = [turn.context for turn in turns], [turn.response for turn in turns]
        rows = readings(self.policy.texts, shown, said, bundle.context_length)
        size, pad = self.policy.hardware.rollout_batch_size, int(bundle.tokenizer.pad_token_id)
        judge = partial(correctness_probabilities, model, pad=pad)
        model.eval()
        with self.policy.engine.whole():
            model.activate()
            return distributed.map_rows(rows, size, judge, lambda row: sum(map(len, row)))


def verdict_metrics(questions: Sequence[Sequence[Verdict]], scores: PromptScores) -> Metrics:
    """Accuracy and AUC over all answers, over balanced ones, and AUC within each question.

    What each question contributes to the accuracy goes to `scores`. A metric is left out where
    there is no right or no wrong answer.

    questions: the verdicts on each question's answers, in their order
    """
    metrics: Metrics = {}
    pools = {
        "natural": [verdict for given in questions for verdict in given],
        "balanced": [verdict for given in questions for verdict in balanced(given)],
    }
    for pool, given in pools.items():
        if given:
            metrics[f"eval/verifier_accuracy/{pool}"] = accuracy(given)
        if all(sides := by_label(given)):
            metrics[f"eval/verifier_auc/{pool}"] = auc(*sides)
    groups = [by_label(given) for given in questions]
    within = [auc(*sides) for sides in groups if all(sides)]
    if within:
        metrics["eval/verifier_auc/within"] = mean(within)
    hits = [accuracy(given) for given in questions]
    scores.add("eval/verifier_accuracy/natural", hits, len(questions[0]))
    return metrics


def accuracy(given: Sequence[Verdict]) -> float:
    """The share of answers that are judged as they are."""
    return mean((score > 0.5) == right for score, right in given)


def by_label(given: Sequence[Verdict]) -> tuple[list[float], list[float]]:
    """The scores of right answers, and of wrong ones."""
    right = [score for score, is_right in given if is_right]
    return right, [score for score, is_right in given if not is_right]


def balanced(given: Sequence[Verdict]) -> list[Verdict]:
    """As many verdicts on right as on wrong answers, the first of each."""
    pairs = zip(*by_label(given), strict=False)
    return [verdict for right, wrong in pairs for verdict in ((right, True), (wrong, False))]
