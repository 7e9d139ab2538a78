"""Multiagent Finetuning (Subramaniam et al., 2025): agents that specialise by debating.

N generation agents answer, N critic agents answer after them, the majority of the last answers is
the label, and each agent is fine-tuned on its own answers that agree with it (Algorithm 1). The
fine-tuned agents' debate is the inference (Algorithm 2).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from cory import distributed
from cory.config import MaftConfig, MemberConfig
from cory.endpoint import REPLIES, Endpoint, EndpointActor
from cory.episode import Episode, Metrics, Prompt, Turn, score_of
from cory.evaluation.debates import MaftMetrics, shortened_share
from cory.evaluation.diversity import Diversity
from cory.evaluation.evaluate import TeamEvaluator
from cory.functional.credit import rounds_of
from cory.functional.statistics import mean
from cory.functional.votes import (
    Answers,
    VoteRule,
    above_mean,
    agreeing,
    mix_critic_debates,
    select,
)
from cory.models.actor import Actor
from cory.models.bundle import ModelBundle
from cory.models.engine import Engine
from cory.models.policy import Policy
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, DebateWording, Identified, Plain, SumUp, Told
from cory.rollout.scheduler import Cast, Play, RollOut
from cory.runs.signals import leave_if_asked
from cory.tasks import Form, Task
from cory.trainers.components import Components
from cory.trainers.supervised import CollectedExamples, Example, FinetunePlan, SupervisedTrainer

BASE = "base"  # the untrained model
# the first number of a random stream's key
VOTE, MIX = 2, 3


def build_maft(config: MaftConfig, components: Components) -> SupervisedTrainer:
    """Agents fine-tuned on their own debates, iteration by iteration."""
    run = components.config
    debate = partial(maft_debate, config, components.task, components.bundle_of)
    evaluated = debate(config.evaluation_agents, config.evaluation_turns)
    policies: dict[str, Policy] = {}
    actors: dict[str, Actor] = {}
    endpoint: Endpoint | None = None
    if config.endpoint is None:
        policies = components.new_policies(config.names())
        actors |= policies
        first = next(one for one in policies.values() if one.bundle is components.bundle)
        actors[BASE] = first.reference(BASE)
    else:  # one model speaks for every agent, and none learns
        endpoint = Endpoint(config.endpoint, Path(components.config.run_dir) / REPLIES)
        actors |= {name: EndpointActor(name, endpoint) for name in (*config.names(), BASE)}
    diversity = Diversity(config.diversity, components.bundle.device)
    evaluator = TeamEvaluator(
        policies,
        components.task,
        components.reward,
        config.sampling,
        evaluated.play,
        actors,
        team_metrics=MaftMetrics(config, policies, actors[BASE], diversity, endpoint),
        alone=False,
        rows=components.config.hardware.responses_at_once,
    )
    play: Play = debate(config.agents, config.turns).play
    if config.select == "correct":
        play = hinted(config, components.task, components.bundle)
    collector = DebateCollector(config, components, play, policies, actors)
    starts: dict[Engine, list[Tensor]] = {}
    if config.start == "base":  # full copies, which share an engine, start alike
        starts = {policy.engine: policy.engine.kept_weights() for policy in policies.values()}
    return SupervisedTrainer(
        components,
        policies,
        collector,
        evaluator,
        finetune_plan=lambda name, iteration: finetune_plan(
            config, name, iteration, starts.get(policies[name].engine), run.member(name)
        ),
    )


def finetune_plan(
    config: MaftConfig,
    name: str,
    iteration: int,
    start: Sequence[Tensor] | None,
    member: MemberConfig | None = None,
) -> FinetunePlan:
    """How a policy is fine-tuned in an iteration: each time as a training of its own.

    start: weights to begin from, as `FinetunePlan` has them; None: those it debated with
    """
    critic = name.startswith("critic")
    rate = config.critic_learning_rate if critic else config.learning_rate
    if iteration > 0 and config.later_learning_rate is not None:
        rate = config.later_learning_rate
    if member is not None and member.learning_rate is not None:  # in every iteration
        rate = member.learning_rate
    epochs = config.critic_epochs if critic else config.epochs
    return FinetunePlan(epochs, rate, fresh=True, start=start)


def maft_debate(
    config: MaftConfig,
    task: Form,
    bundle_of: Callable[[str], ModelBundle],
    agents: int,
    rounds: int,
) -> Debate:
    """A debate of so many generation and critic agents: who speaks where, seeing what."""

    def wording(name: str, agent: int) -> DebateWording:
        chats = config.endpoint is not None or bundle_of(name).texts.chat
        plain: DebateWording = Chat(Told(config.prompts)) if chats else Plain(task)
        if not config.identities:
            return plain
        critics = config.policies != "generation"  # else generators speak in every round
        return Identified(plain, config.prompts, agent + 1, critics)

    return Debate(
        agents=agents,
        rounds=rounds,
        speaker=config.policy,
        wording=wording,
        limit=config.sampling.max_response_tokens,
        read=task.read,
        consensus=None,
        summariser=SumUp(config.prompts, BASE) if config.summary else None,
    )


def hinted(config: MaftConfig, task: Task, bundle: ModelBundle) -> Play:
    """One answer to each problem; where it is wrong, another one with a hint.

    The hint is the right answer (STaR, Zelikman et al., 2022). An episode has two turns; the second
    is absent where none was needed.
    """

    async def play(prompt: Prompt, cast: Cast) -> None:
        agent, answer = cast[config.policy(0, 0)], str(prompt.answer)
        first = await agent.say(prompt.opening, "solo")
        if task.is_right(first.response, answer):
            agent.absent("hinted", 1)
        elif bundle.texts.chat:
            hint = config.prompts.hint.format(query=prompt.text, answer=answer)
            await agent.say(prompt.asking(hint), "hinted", 1)
        else:
            await agent.say(task.observer_context(prompt.text, [answer]), "hinted", 1)

    return play


@dataclass
class DebateCollector:
    """Lets the agents debate, and selects the responses that agree with the label: the vote.

    Right answers are used for metrics only, except with labels=answer and with select=correct. With
    labels=reward no label is needed: a response with a score above its problem's mean agrees.
    """

    config: MaftConfig
    components: Components
    play: Play
    policies: Mapping[str, Policy]
    actors: Mapping[str, Actor]

    def __call__(self, iteration: int) -> CollectedExamples:
        prompts = self.components.task.sample(self.config.prompts_per_iteration)
        episodes = self._debates(iteration, prompts)
        if self.config.labels == "reward":
            self.components.reward.score(episodes)
        # by one process: where formulas are compared, time may run out in one and not in another
        selected = partial(self._selected, iteration, prompts, episodes)
        examples, metrics = distributed.first_works(selected)
        metrics |= shortened_share(episodes)
        return CollectedExamples(examples, episodes[: self.components.config.samples_kept], metrics)

    def _selected(
        self, iteration: int, prompts: Sequence[Prompt], episodes: Sequence[Episode]
    ) -> tuple[dict[str, list[Example]], Metrics]:
        """Of the debates about these prompts, the examples of every policy."""
        config, task = self.config, self.components.task
        debates = [
            # a hinted second answer (STaR) is no round of a debate
            [
                [None if turn.absent else task.read(turn.response) for turn in turns]
                for turns in rounds_of(episode, config.agents)[: config.turns]
            ]
            for episode in episodes
        ]
        vote = VoteRule(config.vote_ties, config.unreadable_votes)
        votes = [
            vote.elected(answers[-1], self._draws(VOTE, iteration, number))
            for number, answers in enumerate(debates)
        ]
        golds = [None if prompt.answer is None else task.read(prompt.answer) for prompt in prompts]
        agreed: Sequence[Answers] = debates
        labels: Sequence[Hashable | None] = golds if config.labels == "answer" else votes
        metrics: Metrics = {}
        if any(prompt.answer is not None for prompt in prompts):
            metrics = debate_metrics(debates, votes, golds)
        if config.labels == "reward":
            scores = [  # of each debate's answers, [round][agent]
                [[score_of(turn) for turn in turns] for turns in rounds_of(one, config.agents)]
                for one in episodes
            ]
            agreed, labels = [above_mean(own) for own in scores], [True] * len(scores)
            metrics["supervised/score/team"] = mean(mean(map(mean, own)) for own in scores)
        if config.select == "correct":
            return self._correct(episodes), metrics
        if config.select == "agreeing":
            return self._agreeing(episodes, agreed, labels), metrics
        examples, counts = self._own(iteration, episodes, agreed, labels)
        return examples, metrics | counts

    def _debates(self, iteration: int, prompts: list[Prompt]) -> list[Episode]:
        run, stream = self.components.config, self.components.streams.length
        size = run.hardware.responses_at_once * distributed.count()
        key = (run.seed, "debates", iteration)
        roll_out = RollOut.of(self.actors, self.config.sampling, key, stream)
        episodes: list[Episode] = []
        for start in range(0, len(prompts), size):
            # the debates of an iteration may take hours: they can be left after each batch
            leave_if_asked(f"saved before iteration {iteration + 1}, whose debates begin again")
            of_batch = replace(roll_out, first=start)
            episodes += of_batch(self.play, prompts[start : start + size])
        return episodes

    def _own(
        self,
        iteration: int,
        episodes: Sequence[Episode],
        debates: Sequence[Answers],
        labels: Sequence[Hashable | None],
    ) -> tuple[dict[str, list[Example]], Metrics]:
        """Each agent's first answers that are the label, and debates that ended in it (eq. 1)."""
        config = self.config
        examples: dict[str, list[Example]] = {name: [] for name in config.names()}
        metrics: Metrics = {}
        rounds = range(config.turns) if config.critic_loss == "all_turns" else [config.turns - 1]
        for agent in range(config.agents):
            selected = select(debates, labels, agent)
            generator, critic = config.policy(0, agent), config.policy(1, agent)
            said = [episode.turns[agent :: config.agents] for episode in episodes]  # by round
            examples[generator] += [example_of(said[number][0]) for number in selected.generation]
            if config.turns == 1 or config.policies == "generation":
                continue
            draw = self._draws(MIX, iteration, agent)
            mixed = mix_critic_debates(selected.corrected, selected.kept, config.critic_share, draw)
            examples[critic] += [example_of(said[number][n]) for number in mixed for n in rounds]
            for kind, found in (("corrected", selected.corrected), ("kept", selected.kept)):
                name = f"supervised/{kind}/{critic}"
                metrics[name] = metrics.get(name, 0.0) + len(found)
        return examples, metrics

    def _agreeing(
        self,
        episodes: Sequence[Episode],
        debates: Sequence[Answers],
        labels: Sequence[Hashable | None],
    ) -> dict[str, list[Example]]:
        """Every answer that is the label, for the agent that gave it."""
        examples: dict[str, list[Example]] = {name: [] for name in self.config.names()}
        for episode, answers, label in zip(episodes, debates, labels, strict=True):
            given = [answer for answers_of_round in answers for answer in answers_of_round]
            for turn, answer in zip(episode.turns, given, strict=True):
                if label is not None and answer == label:
                    examples[turn.agent].append(example_of(turn))
        return examples

    def _correct(self, episodes: Sequence[Episode]) -> dict[str, list[Example]]:
        """First answers that are right, and right ones that took a hint, as if without it: STaR."""
        (name,) = self.config.names()
        examples = []
        for episode in episodes:
            bare = episode.turns[0]
            for turn in episode.turns:
                right = self.components.task.is_right(turn.response, str(episode.prompt.answer))
                if not turn.absent and right:
                    own = Example(bare.context_ids, turn.response_ids, 1.0, bare.asked)
                    examples.append(own)
                    break
        return {name: examples}

    def _draws(self, purpose: int, iteration: int, number: int) -> np.random.Generator:
        return np.random.default_rng((self.components.config.seed, purpose, iteration, number))


def example_of(turn: Turn) -> Example:
    return Example(turn.context_ids, turn.response_ids, 1.0, turn.asked)


def debate_metrics(
    debates: Sequence[Answers], votes: Sequence[Hashable | None], golds: Sequence[Hashable | None]
) -> Metrics:
    """Share of agents that agree with the votes; and, where known, with the right answers."""
    metrics = {
        "debate/consensus/team": mean(
            len(agreeing(answers[-1], vote)) / len(answers[-1])
            for answers, vote in zip(debates, votes, strict=True)
        ),
        "debate/labelled/team": mean(vote is not None for vote in votes),
    }
    known = [n for n, gold in enumerate(golds) if gold is not None]
    if known:
        metrics["debate/pseudo_right/team"] = mean(votes[n] == golds[n] for n in known)
        for number in range(len(debates[0])):
            right = mean(answer == golds[n] for n in known for answer in debates[n][number])
            metrics[f"debate/right/turn_{number + 1}"] = right
    return metrics
