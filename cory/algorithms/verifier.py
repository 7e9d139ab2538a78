"""A verifier for debates: a language model with a head that predicts whether an answer is right.

Its training data are the frozen model's own answers, balanced within every question: without that,
it learns which questions are hard instead of which answers are right (Park et al., 2025, App. E).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from torch import Tensor

from cory import distributed
from cory.config import SamplingConfig, VerifierConfig
from cory.episode import Episode, Metrics, Prompt, Turn
from cory.evaluation.responses import (
    MEASURED,
    BeforeEach,
    EvalRequest,
    PromptScores,
    ResponseSet,
    in_batches,
    line_turn,
)
from cory.functional.losses import token_bce, verdict_logits
from cory.functional.statistics import auc, mean
from cory.models.policy import Policy
from cory.rewards.verifier import correctness_probabilities, readings
from cory.rollout.scheduler import RollOut, single_turn
from cory.runs.files import Line
from cory.seeding import Streams
from cory.tasks import Task
from cory.tasks.answers import judged
from cory.trainers.components import Components
from cory.trainers.supervised import CollectedExamples, Example, Losses, SupervisedTrainer

VERIFIER, AUTHOR = "verifier", "reference"
Ask = Callable[[Sequence[Prompt], Sequence[str]], list[Turn]]  # texts about prompts -> answers


def build_verifier(config: VerifierConfig, components: Components) -> SupervisedTrainer:
    """One policy whose value head judges answers of the model it started from."""
    policies = components.new_policies([VERIFIER])
    policy, task = policies[VERIFIER], components.task
    policy.model.likelihood_coef = config.likelihood_coef
    author = policy.reference(AUTHOR)
    collector = AnswerCollector(config, policy, author, task, components.streams)
    return SupervisedTrainer(
        components,
        policies,
        collector,
        VerifierEvaluator(policy, author, task, config.sampling),
        loss=partial(verdict_loss, config.likelihood_coef),
        metric_name=lambda what, policy: f"verifier/{what}",
        average=config.average,
    )


def verdict_loss(
    likelihood_coef: float, logprobs: Tensor, values: Tensor | None, labels: Tensor, mask: Tensor
) -> Losses:
    """Cross-entropy of the verdict after every token of an answer with the answer's label.

    And the accuracy: whether the verdict at each answer's end is right, before the step.
    """
    assert values is not None  # a verifier has a value head
    logits = verdict_logits(values, logprobs, likelihood_coef)
    last = (mask.sum(1, keepdim=True) - 1).clamp(min=0)
    verdict = logits.gather(1, last).squeeze(1) > 0
    accuracy = (verdict == (labels > 0.5)).float()
    return token_bce(logits, labels, mask), {"accuracy": accuracy}


@dataclass
class QuestionAnswers:
    prompt: Prompt
    turns: list[Turn] = field(default_factory=list)

    def labelled(self, right: bool) -> list[Turn]:
        return [turn for turn in self.turns if turn.right == right]


@dataclass(frozen=True)
class AnswerRequest:
    answers: QuestionAnswers  # of its question
    text: str
    right: bool


@dataclass(frozen=True)
class AnswerCollector:
    """Samples answers of the frozen model, labels them by the task, and balances the labels."""

    config: VerifierConfig
    policy: Policy  # the verifier's
    author: Policy  # the frozen model
    task: Task
    streams: Streams

    def __call__(self, iteration: int) -> CollectedExamples:
        config, draw = self.config, self.streams.length
        coolest, hottest = config.temperatures
        temperature = float(draw.uniform(coolest, hottest))
        sampling = config.sampling.replace(temperature=temperature, top_p=config.top_p)
        roll_out = RollOut.of({AUTHOR: self.author}, sampling, (), draw)

        def ask(prompts: Sequence[Prompt], texts: Sequence[str]) -> list[Turn]:
            """The frozen model's answer to each text, labelled by each prompt's right answer.

            A text takes the place of its prompt's own.
            """
            asked = [replace(p, text=text) for p, text in zip(prompts, texts, strict=True)]
            answer = replace(roll_out, key=self.streams.key_of_roll_out())
            turns = [episode.turns[0] for episode in answer(single_turn(AUTHOR), asked)]
            given = [(t.response, str(p.answer)) for p, t in zip(prompts, turns, strict=True)]
            for turn, right in zip(turns, judged(self.task, given), strict=True):
                turn.right, turn.score = right, float(right)
            return turns

        questions = [QuestionAnswers(p) for p in self.task.sample(config.prompts_per_iteration)]
        asked = [answers for answers in questions for _ in range(config.answers_per_question)]
        prompts = [answers.prompt for answers in asked]
        for answers, turn in zip(asked, ask(prompts, [p.text for p in prompts]), strict=True):
            answers.turns.append(turn)
        metrics = {
            "verifier/right_share": mean(bool(t.right) for a in questions for t in a.turns),
            "verifier/temperature": temperature,
        }
        if config.requests:
            self._fulfil(questions, ask)
        chosen = [self._chosen(answers) for answers in questions]
        metrics["verifier/questions_kept"] = mean(map(bool, chosen))
        # an iteration may have thousands of answers; one of each question is kept for samples.jsonl
        episodes = [Episode(answers.prompt, answers.turns[:1]) for answers in questions]
        return CollectedExamples(
            {VERIFIER: [e for examples in chosen for e in examples]}, episodes, metrics
        )

    def _fulfil(self, questions: Sequence[QuestionAnswers], ask: Ask) -> None:
        """Ask for the missing labels; an answer with another label than requested is not kept."""
        for requests_of in (self.wrong_requests, self.paraphrases):
            requests = [request for answers in questions for request in requests_of(answers)]
            if not requests:
                continue
            turns = ask([r.answers.prompt for r in requests], [r.text for r in requests])
            for request, turn in zip(requests, turns, strict=True):
                if turn.right == request.right:
                    request.answers.turns.append(turn)

    def wrong_requests(self, answers: QuestionAnswers) -> list[AnswerRequest]:
        """Requests for missing wrong answers, worded by how rare these are."""
        config, texts = self.config, self.config.request_texts
        wrong = answers.labelled(False)
        if not wrong:
            text = texts.wrong_none
        elif len(wrong) >= texts.enough * config.keep_per_label:
            text = texts.wrong_common
        else:
            text = texts.wrong_rare
        shown = wrong or answers.turns  # an example of how answers look
        return [
            AnswerRequest(answers, filled(text, answers.prompt, shown[number % len(shown)]), False)
            for number in range(config.keep_per_label - len(wrong))
        ]

    def paraphrases(self, answers: QuestionAnswers) -> list[AnswerRequest]:
        """Requests to paraphrase answers of a missing label, in the style of others."""
        requests = []
        for label in (True, False):
            known = answers.labelled(label)
            styles = answers.labelled(not label) or known
            missing = self.config.keep_per_label - len(known) if known else 0
            for number in range(missing):
                text = filled(
                    self.config.request_texts.paraphrase,
                    answers.prompt,
                    known[number % len(known)],
                    styles[number % len(styles)],
                )
                requests.append(AnswerRequest(answers, text, label))
        return requests

    def _chosen(self, answers: QuestionAnswers) -> list[Example]:
        """The examples from one question: as many right as wrong answers, or all in their order."""
        config, texts = self.config, self.policy.texts
        question = texts.render(answers.prompt.opening)
        responses = [turn.response for turn in answers.turns]
        rows = readings(texts, [question] * len(responses), responses, None)
        opening, asked = answers.prompt.opening, len(texts.ids([question])[0])
        fitting = [
            Example(context, response, float(bool(turn.right)), opening, len(context) - asked)
            for turn, (context, response) in zip(answers.turns, rows, strict=True)
            if len(context) + len(response) <= config.max_tokens
        ]
        if not config.balance:
            return fitting[: 2 * config.keep_per_label]
        right, wrong = ([e for e in fitting if e.label == label] for label in (1.0, 0.0))
        each = min(len(right), len(wrong), config.keep_per_label)
        return [*right[:each], *wrong[:each]]


def filled(text: str, prompt: Prompt, answer: Turn, style: Turn | None = None) -> str:
    return text.format(
        query=prompt.text,
        answer=answer.response.strip(),
        style="" if style is None else style.response.strip(),
    )


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
        return verdict_metrics(request.scores.by_prompt(given), request.scores)

    def _answer(self, request: EvalRequest, answers: ResponseSet, rows: range) -> list[Line]:
        """Answers and verdicts of some rows, as samples.jsonl keeps them."""
        prompts = [answers.prompt(row) for row in rows]
        key = (request.seed, MEASURED)
        roll_out = RollOut.of({AUTHOR: self.author}, self.sampling, key, first=rows.start)
        turns = [episode.turns[0] for episode in roll_out(single_turn(AUTHOR), prompts)]
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
