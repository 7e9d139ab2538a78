"""A verifier for debates: a language model that learns to say whether an answer is right.

Its data are the frozen model's own answers, balanced within every question: without that, it
learns which questions are hard instead of which answers are right (Park et al., 2025, App. E).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from cory.algorithms.parts import Parts
from cory.config import VerifierConfig
from cory.episode import Episode, Metrics, Prompt, Turn
from cory.evaluation.verifier import VerifierEvaluator
from cory.functional.losses import token_bce
from cory.models.policy import Policy, Reference
from cory.rewards.verifier import readings
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.supervised import Collected, Example, FinetunePlan, SupervisedTrainer

NAME = "verifier"


def build_verifier(config: VerifierConfig, parts: Parts) -> SupervisedTrainer:
    """One policy whose value head judges answers of the model that it started from."""
    voices = parts.new_policies([NAME])
    author = Reference("reference", voices[NAME])
    collector = AnswerCollector(config, voices[NAME], author, parts.task, parts.streams)
    return SupervisedTrainer(
        config,
        parts.plan,
        voices,
        parts.task,
        parts.streams,
        collect=collector,
        course=lambda policy, iteration: FinetunePlan(config.epochs, config.learning_rate),
        loss=judgement_loss,
        statistics=judgement_statistics,
        named=lambda what, policy: f"verifier/{what}",
        measure=VerifierEvaluator(voices[NAME], author, parts.task, config.sampling),
    )


def judgement_loss(logprobs: Tensor, values: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of the verdict after every token of an answer; logprobs play no part."""
    return token_bce(values, labels, mask)


def judgement_statistics(
    logprobs: Tensor, values: Tensor, labels: Tensor, mask: Tensor
) -> Mapping[str, Tensor]:
    """Of each answer, whether the verdict at its end was right when it was learnt."""
    last = (mask.sum(1, keepdim=True) - 1).clamp(min=0)
    verdict = values.gather(1, last).squeeze(1) > 0
    return {"accuracy": (verdict == (labels > 0.5)).float()}


@dataclass
class Answers:
    """The answers to one question that were found so far."""

    prompt: Prompt
    turns: list[Turn] = field(default_factory=list)

    def of(self, right: bool) -> list[Turn]:
        """Those with one label, in the order in which they came."""
        return [turn for turn in self.turns if turn.right == right]


@dataclass(frozen=True)
class Wanted:
    """A request for an answer with one label."""

    answers: Answers  # to whose question
    text: str
    right: bool


class AnswerCollector:
    """Asks the frozen model, labels what it says by the task, and balances it."""

    def __init__(
        self, config: VerifierConfig, voice: Policy, author: Reference, task: Task, streams: Streams
    ) -> None:
        """voice: the verifier's; author: who answers."""
        self.config = config
        self.voice = voice
        self.author = author
        self.task = task
        self.streams = streams

    def __call__(self, iteration: int) -> Collected:
        """Examples from the next questions."""
        config, draw = self.config, self.streams.length
        low, high = config.sampling.min_response_tokens, config.sampling.max_response_tokens
        limit = int(draw.integers(low, high + 1))
        coolest, hottest = config.temperatures
        temperature = float(draw.uniform(coolest, hottest))
        sampling = replace(config.sampling, temperature=temperature, top_p=config.top_p)

        def ask(prompts: Sequence[Prompt], texts: Sequence[str]) -> list[Turn]:
            """What the frozen model answers to each text, labelled by each question."""
            spoken = self.author.turns("solo", 0, texts, limit, sampling, self.streams.sampling)
            turns = [turn for turn, _ in spoken]
            for prompt, turn in zip(prompts, turns, strict=True):
                turn.right = self.task.is_right(turn.response, str(prompt.answer))
                turn.score = float(turn.right)
            return turns

        found = [Answers(prompt) for prompt in self.task.sample(config.prompts_per_iteration)]
        asked = [answers for answers in found for _ in range(config.answers_per_question)]
        prompts = [answers.prompt for answers in asked]
        for answers, turn in zip(asked, ask(prompts, [p.text for p in prompts]), strict=True):
            answers.turns.append(turn)
        metrics = {
            "verifier/right_share": sum(bool(t.right) for a in found for t in a.turns) / len(asked),
            "verifier/temperature": temperature,
        }
        if config.requests:
            metrics |= self._fulfil(found, ask)
        chosen = [self._chosen(answers) for answers in found]
        metrics["verifier/questions_kept"] = sum(map(bool, chosen)) / len(found)
        # an iteration may have thousands of answers; as many as it has questions are kept as text
        episodes = [Episode(answers.prompt, answers.turns[:1]) for answers in found]
        return Collected({NAME: [e for examples in chosen for e in examples]}, episodes, metrics)

    def _fulfil(
        self, found: Sequence[Answers], ask: Callable[[Sequence[Prompt], Sequence[str]], list[Turn]]
    ) -> Metrics:
        """Ask for what is missing; an answer whose label is another one than wanted is not kept."""
        asked = kept = 0
        for wanted_of in (self.wrong_requests, self.paraphrases):
            wanted = [request for answers in found for request in wanted_of(answers)]
            if not wanted:
                continue
            turns = ask([w.answers.prompt for w in wanted], [w.text for w in wanted])
            asked += len(wanted)
            for request, turn in zip(wanted, turns, strict=True):
                if turn.right == request.right:
                    request.answers.turns.append(turn)
                    kept += 1
        return {
            "verifier/requested": float(asked),
            "verifier/requests_kept": kept / asked if asked else 0.0,
        }

    def wrong_requests(self, answers: Answers) -> list[Wanted]:
        """For the wrong answers that are missing, worded by how rare they are."""
        config, texts = self.config, self.config.request_texts
        wrong = answers.of(False)
        if not wrong:
            text = texts.wrong_none
        elif len(wrong) >= texts.enough * config.keep_per_label:
            text = texts.wrong_common
        else:
            text = texts.wrong_rare
        shown = wrong or answers.turns  # an example of how answers look
        return [
            Wanted(answers, filled(text, answers.prompt, shown[number % len(shown)]), False)
            for number in range(config.keep_per_label - len(wrong))
        ]

    def paraphrases(self, answers: Answers) -> list[Wanted]:
        """For what is still missing: known answers of that label, in the style of others."""
        wanted = []
        for label in (True, False):
            known = answers.of(label)
            styles = answers.of(not label) or known
            missing = self.config.keep_per_label - len(known) if known else 0
            for number in range(missing):
                text = filled(
                    self.config.request_texts.paraphrase,
                    answers.prompt,
                    known[number % len(known)],
                    styles[number % len(styles)],
                )
                wanted.append(Wanted(answers, text, label))
        return wanted

    def _chosen(self, answers: Answers) -> list[Example]:
        """What is learnt from one question: as many right as wrong answers, or all as they came."""
        config, tokenizer = self.config, self.voice.team.tokenizer
        question = self.voice.team.render(answers.prompt.text)
        said = [turn.response for turn in answers.turns]
        rows = readings(tokenizer, [question] * len(said), said, None)
        fitting = [
            Example(context, response, float(bool(turn.right)))
            for turn, (context, response) in zip(answers.turns, rows, strict=True)
            if len(context) + len(response) <= config.max_tokens
        ]
        if not config.balance:
            return fitting[: 2 * config.keep_per_label]
        right, wrong = ([e for e in fitting if e.label == label] for label in (1.0, 0.0))
        each = min(len(right), len(wrong), config.keep_per_label)
        return [*right[:each], *wrong[:each]]


def filled(text: str, prompt: Prompt, answer: Turn, style: Turn | None = None) -> str:
    """A request with its question and examples."""
    return text.format(
        query=prompt.text,
        answer=answer.response.strip(),
        style="" if style is None else style.response.strip(),
    )
