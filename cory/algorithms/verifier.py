"""A verifier for debates: a language model with a head that predicts whether an answer is right.

Its training data are the frozen model's own answers, balanced within every question: without that,
it learns which questions are hard instead of which answers are right (Park et al., 2025, App. E).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from cory.config import VerifierConfig
from cory.episode import Episode, Prompt, Turn
from cory.evaluation.verifier import VerifierEvaluator
from cory.functional.losses import token_bce, verdict_logits
from cory.functional.statistics import mean
from cory.models.actor import asked_of
from cory.models.generation import draw_limit
from cory.models.policy import Policy
from cory.rewards.verifier import readings
from cory.seeding import Streams
from cory.tasks import Task
from cory.tasks.answers import judged
from cory.trainers.components import Components
from cory.trainers.supervised import CollectedExamples, Example, Losses, SupervisedTrainer

VERIFIER = "verifier"
Ask = Callable[[Sequence[Prompt], Sequence[str]], list[Turn]]  # texts about prompts -> answers


def build_verifier(config: VerifierConfig, components: Components) -> SupervisedTrainer:
    """One policy whose value head judges answers of the model it started from."""
    policies = components.new_policies([VERIFIER])
    policies[VERIFIER].model.likelihood_coef = config.likelihood_coef
    author = policies[VERIFIER].reference("reference")
    collector = AnswerCollector(
        config, policies[VERIFIER], author, components.task, components.streams
    )
    return SupervisedTrainer(
        components,
        policies,
        collector,
        VerifierEvaluator(policies[VERIFIER], author, components.task, config.sampling),
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
    """The answers to one question so far."""

    prompt: Prompt
    turns: list[Turn] = field(default_factory=list)

    def labelled(self, right: bool) -> list[Turn]:
        """The answers with one label, in their order."""
        return [turn for turn in self.turns if turn.right == right]


@dataclass(frozen=True)
class AnswerRequest:
    """A request for an answer with one label."""

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
        """Examples from the next questions."""
        config, draw = self.config, self.streams.length
        limit = draw_limit(config.sampling, draw)
        coolest, hottest = config.temperatures
        temperature = float(draw.uniform(coolest, hottest))
        sampling = config.sampling.replace(temperature=temperature, top_p=config.top_p)

        def ask(prompts: Sequence[Prompt], texts: Sequence[str]) -> list[Turn]:
            """The frozen model's answer to each text, labelled by each prompt's right answer.

            A text takes the place of its prompt's own.
            """
            contexts = [p.asking(text) for p, text in zip(prompts, texts, strict=True)]
            asked = asked_of("solo", contexts, limit, self.streams.key_of_roll_out())
            turns = self.author.turns(asked, limit, sampling)
            given = [(t.response, str(p.answer)) for p, t in zip(prompts, turns, strict=True)]
            for turn, right in zip(turns, judged(self.task, given), strict=True):
                turn.right, turn.score = right, float(right)
            return turns

        questions = [
            QuestionAnswers(prompt) for prompt in self.task.sample(config.prompts_per_iteration)
        ]
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
        fitting = [
            Example(context, response, float(bool(turn.right)), answers.prompt.opening)
            for turn, (context, response) in zip(answers.turns, rows, strict=True)
            if len(context) + len(response) <= config.max_tokens
        ]
        if not config.balance:
            return fitting[: 2 * config.keep_per_label]
        right, wrong = ([e for e in fitting if e.label == label] for label in (1.0, 0.0))
        each = min(len(right), len(wrong), config.keep_per_label)
        return [*right[:each], *wrong[:each]]


def filled(text: str, prompt: Prompt, answer: Turn, style: Turn | None = None) -> str:
    """A request's text with its question and examples filled in."""
    return text.format(
        query=prompt.text,
        answer=answer.response.strip(),
        style="" if style is None else style.response.strip(),
    )
