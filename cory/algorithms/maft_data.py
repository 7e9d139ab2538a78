"""What agents learn from their debates: D^G and D^C of each, or what baselines learn instead."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from cory import distributed
from cory.algorithms.parts import Parts
from cory.config import AGREEING, CORRECT, MaftConfig
from cory.episode import Context, Episode, Metrics, Prompt, Turn, as_plain, of_plain
from cory.evaluation.debates import shortened
from cory.evaluation.evaluate import fingerprint
from cory.functional.credit import rounds_of
from cory.functional.selection import Answers, mix_critic_debates, select
from cory.functional.votes import elected_answer
from cory.models.generation import draw_uniforms
from cory.models.policy import Actor, Policy
from cory.rollout.interactions import Interaction, Speak
from cory.runs.jsonl import Line
from cory.runs.partial_results import PartialResults, resumable
from cory.runs.run_dir import DEBATES
from cory.seeding import keyed
from cory.trainers.supervised import Collected, Example

# begin the keys of random numbers
SPEAK, VOTE, MIX = 1, 2, 3


class DebateCollector:
    """Lets the agents debate, and sorts what they said by whether it agrees with the vote.

    No right answer is looked at, but for select=correct; how good the votes are is only measured.
    """

    def __init__(
        self,
        config: MaftConfig,
        parts: Parts,
        interact: Interaction,
        places: int,
        voices: Mapping[str, Policy],
        speakers: Mapping[str, Actor],
    ) -> None:
        """places: how often `interact` lets somebody speak"""
        self.config = config
        self.parts = parts
        self.interact = interact
        self.places = places
        self.voices = voices
        self.speakers = speakers
        self.run_dir = Path(parts.config.run_dir)

    def __call__(self, iteration: int) -> Collected:
        """The examples of every policy."""
        config, task = self.config, self.parts.task
        prompts = task.sample(config.prompts_per_iteration)
        episodes = self._debates(iteration, prompts)
        debates = [
            answers_in(episode, config.agents, task.read)[: config.turns] for episode in episodes
        ]
        labels = [
            elected_answer(answers[-1], config.vote_ties, self._draws(VOTE, iteration, number))
            for number, answers in enumerate(debates)
        ]
        found: Metrics = {}
        if config.select == CORRECT:
            examples = self._correct(episodes)
        elif config.select == AGREEING:
            examples = self._agreeing(episodes, debates, labels)
        else:
            examples, found = self._own(iteration, episodes, debates, labels)
        golds = [None if prompt.answer is None else task.read(prompt.answer) for prompt in prompts]
        metrics = debate_metrics(debates, labels, golds) | shortened(episodes) | found
        return Collected(examples, episodes[: self.parts.config.samples_kept], metrics)

    def _debates(self, iteration: int, prompts: Sequence[Prompt]) -> list[Episode]:
        """A debate about each problem; those on disk are not held again.

        Numbers are drawn for all problems of a place in order, so that neither the size of a
        roll-out batch nor a restart changes what is said.
        """
        sampling = self.config.sampling
        limit = sampling.max_response_tokens
        size = self.parts.config.hardware.rollout_batch_size * distributed.count()
        streams = [self._stream(iteration, place) for place in range(self.places)]

        def answer(asked: Sequence[Prompt], rows: range) -> list[Line]:
            held = self.interact([asked[row] for row in rows], self._speak(streams))
            return [as_plain(episode) for episode in held]

        def skip(asked: Sequence[Prompt], rows: range) -> None:
            for stream in streams:
                draw_uniforms(len(rows), limit, stream)

        results = PartialResults(self.run_dir / DEBATES, "")  # the directory holds one run's
        batches = resumable(
            results,
            iteration,
            fingerprint(self.voices),
            [prompts],
            size,
            answer=answer,
            skip=skip,
            before_each=self._stop_if_asked,
        )
        episodes = [of_plain(line) for _, lines in batches for line in lines]
        results.close()
        return episodes

    def _speak(self, streams: Sequence[torch.Generator]) -> Speak:
        """Lets the next speaker speak, with the numbers of its place."""
        places, sampling = iter(streams), self.config.sampling

        def speak(
            speaker: str, role: str, round: int, contexts: Sequence[Context | None]
        ) -> list[Turn]:
            limit, stream = sampling.max_response_tokens, next(places)
            spoken = self.speakers[speaker].turns(role, round, contexts, limit, sampling, stream)
            return [turn for turn, _ in spoken]

        return speak

    def _stop_if_asked(self, held: int, wanted: int) -> None:
        """The debates of an iteration may take hours: they can be left after each batch."""
        self.parts.stop.check(f"with {held} of {wanted} debates of an iteration")

    def _own(
        self,
        iteration: int,
        episodes: Sequence[Episode],
        debates: Sequence[Answers],
        labels: Sequence[Hashable | None],
    ) -> tuple[dict[str, list[Example]], Metrics]:
        """Of each agent, first answers that are the label, and debates that ended in it (eq. 1)."""
        config = self.config
        examples: dict[str, list[Example]] = {name: [] for name in config.names()}
        metrics: Metrics = {}
        learnt = range(config.turns) if config.critic_loss == "all_turns" else [config.turns - 1]
        for agent in range(config.agents):
            found = select(debates, labels, agent)
            generator, critic = config.policy(0, agent), config.policy(1, agent)

            def example(number: int, turn: int, agent: int = agent) -> Example:
                return example_of(episodes[number].turns[turn * config.agents + agent])

            examples[generator] += [example(number, 0) for number in found.generation]
            if config.turns == 1 or config.policies == "generation":
                continue
            draws = self._draws(MIX, iteration, agent)
            chosen = mix_critic_debates(found.corrected, found.kept, config.critic_share, draws)
            examples[critic] += [example(number, turn) for number in chosen for turn in learnt]
            for kind, numbers in (("corrected", found.corrected), ("kept", found.kept)):
                name = f"supervised/{kind}/{critic}"
                metrics[name] = metrics.get(name, 0.0) + len(numbers)
        return examples, metrics

    def _agreeing(
        self,
        episodes: Sequence[Episode],
        debates: Sequence[Answers],
        labels: Sequence[Hashable | None],
    ) -> dict[str, list[Example]]:
        """Every answer that is the label, for whoever gave it."""
        examples: dict[str, list[Example]] = {name: [] for name in self.config.names()}
        for episode, answers, label in zip(episodes, debates, labels, strict=True):
            given = [answer for said in answers for answer in said]
            for turn, answer in zip(episode.turns, given, strict=True):
                if label is not None and answer == label:
                    examples[turn.agent].append(example_of(turn))
        return examples

    def _correct(self, episodes: Sequence[Episode]) -> dict[str, list[Example]]:
        """First answers that are right, and right ones that took a hint, as if without it: STaR."""
        (name,) = self.config.names()
        examples = []
        for episode in episodes:
            first, *hinted = episode.turns
            for turn in (first, *hinted):
                right = self.parts.task.is_right(turn.response, str(episode.prompt.answer))
                if not turn.absent and right:
                    examples.append(Example(first.context_ids, turn.response_ids, 1.0))
                    break
        return {name: examples}

    def _stream(self, iteration: int, place: int) -> torch.Generator:
        return keyed((self.parts.config.seed, SPEAK, iteration, place))

    def _draws(self, what: int, iteration: int, number: int) -> np.random.Generator:
        return np.random.default_rng((self.parts.config.seed, what, iteration, number))


def answers_in(
    episode: Episode, agents: int, read: Callable[[str], Hashable | None]
) -> list[list[Hashable | None]]:
    """What was answered, by turn and agent."""
    return [
        [None if turn.absent else read(turn.response) for turn in turns]
        for turns in rounds_of(episode, agents)
    ]


def example_of(turn: Turn) -> Example:
    """A turn as something to learn."""
    return Example(turn.context_ids, turn.response_ids, 1.0)


def debate_metrics(
    debates: Sequence[Answers],
    labels: Sequence[Hashable | None],
    golds: Sequence[Hashable | None],
) -> Metrics:
    """How many agents agree with the labels; and, where they are known, with the right answers."""
    last = [
        sum(answer is not None and answer == label for answer in answers[-1]) / len(answers[-1])
        for answers, label in zip(debates, labels, strict=True)
    ]
    metrics = {"debate/consensus/team": sum(last) / len(last)}
    known = [n for n, gold in enumerate(golds) if gold is not None]
    if known:
        metrics["debate/pseudo_right/team"] = sum(labels[n] == golds[n] for n in known) / len(known)
        for turn in range(len(debates[0])):
            given = [(answer, golds[n]) for n in known for answer in debates[n][turn]]
            right = sum(answer == gold for answer, gold in given) / len(given)
            metrics[f"debate/right/turn_{turn + 1}"] = right
    return metrics
