"""Multiagent Finetuning (Subramaniam et al., 2025): agents that specialise by debating.

N generation agents answer, N critic agents answer after them, the majority of the last answers is
the label, and each agent is fine-tuned on its own answers that agree with it (Algorithm 1). The
debate of the agents that come out of it is the inference (Algorithm 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from cory.algorithms.maft_data import DebateCollector
from cory.algorithms.maft_endpoint import EndpointDebate, EndpointSpeaker
from cory.algorithms.parts import Parts
from cory.algorithms.sft import imitation_loss, no_statistics
from cory.config import CORRECT, MaftConfig
from cory.endpoint.batch import Endpoint
from cory.episode import Context, Episode, Prompt
from cory.evaluation.diversity import Diversity
from cory.evaluation.evaluate import EvalContext, TeamEvaluator, evaluate
from cory.evaluation.maft import AgentsMeasure
from cory.models.policy import Actor, Policy, Reference
from cory.models.team import Team
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, Plain, Wording
from cory.rollout.interactions import Interaction, Speak
from cory.rollout.maft_prompts import Identified, SumUp, Told
from cory.rollout.opponents import JOURNAL
from cory.tasks import Form, Task
from cory.tasks.data.subset import refuse_shared
from cory.trainers.supervised import FinetunePlan, SupervisedTrainer

BASE = "base"  # the model as it came


def build_maft(config: MaftConfig, parts: Parts) -> SupervisedTrainer:
    """Agents that learn from their debates, and debate again."""
    seats = Seats(config, parts.task, parts.team)
    examined = seats.debate(config.evaluation_agents, config.evaluation_turns)
    voices: dict[str, Policy] = {}
    speakers: dict[str, Actor] = {}
    interact: Interaction = examined
    measured = evaluate
    if config.endpoint is None:
        voices = parts.new_policies(config.names())
        speakers |= voices
        speakers[BASE] = Reference(BASE, next(iter(voices.values())))
    else:  # one model in every seat, and none that learns
        endpoint = Endpoint(config.endpoint, Path(parts.config.run_dir) / JOURNAL)
        interact = remote = EndpointDebate(endpoint, examined)
        speakers |= {name: EndpointSpeaker(name, remote) for name in (*config.names(), BASE)}
        measured = remote.measured
    debate = seats.debate(config.agents, config.turns)
    collector = DebateCollector(
        config,
        parts,
        Hinted(config, parts.task, parts.team) if config.select == CORRECT else debate,
        2 if config.select == CORRECT else debate.places,
        voices,
        speakers,
    )
    asked = parts.task.held_out(parts.config.evaluation.prompts, parts.config.evaluation.split)
    if config.iterations > 0:
        refuse_shared(parts.task.held_out(None, "train"), asked)
    questions = [prompt.text for prompt in asked]
    diversity = Diversity(config.diversity, parts.team.device, questions)
    measure = AgentsMeasure(config, voices, speakers[BASE], diversity)
    exam = TeamEvaluator(interact, speakers, examined.places, measure, alone=False)
    rows = parts.config.hardware.rollout_batch_size
    bench = EvalContext(voices, parts.task, parts.reward, exam, config.sampling, rows)
    starts = {name: start_of(voice) for name, voice in voices.items() if config.start == "base"}
    return SupervisedTrainer(
        config,
        parts.plan,
        voices,
        parts.task,
        parts.streams,
        collect=collector,
        course=lambda policy, iteration: course(config, policy, iteration, starts.get(policy)),
        loss=imitation_loss,
        statistics=no_statistics,
        named=lambda what, policy: f"supervised/{what}/{policy}",
        measure=partial(measured, bench),
    )


def course(
    config: MaftConfig, policy: str, iteration: int, start: Mapping[str, Tensor] | None
) -> FinetunePlan:
    """How a policy is fine-tuned in an iteration: each time as a training of its own.

    start: weights to begin from; None: those it debated with
    """
    critic = config.is_critic(policy)
    rate = config.critic_learning_rate if critic else config.learning_rate
    if iteration > 0 and config.later_learning_rate is not None:
        rate = config.later_learning_rate
    epochs = config.critic_epochs if critic else config.epochs
    return FinetunePlan(epochs, rate, fresh=True, start=start)


def start_of(voice: Policy) -> dict[str, Tensor]:
    """What a policy trains, as it is before anything is learnt: whole, in main memory.

    A full copy starts as the frozen model, which is there anyway.
    """
    names = [name for name in voice.engine.trainable if not name.startswith("value_head.")]
    if voice.model.base is None:
        frozen = dict(voice.team.pretrained.named_parameters())
        return {name: frozen[name.removeprefix("lm.")] for name in names}
    with voice.whole():
        return {name: voice.engine.trainable[name].detach().cpu().clone() for name in names}


@dataclass(frozen=True)
class Seats:
    """Who sits where in a debate and what they see, with or without training."""

    config: MaftConfig
    task: Form
    team: Team

    def debate(self, agents: int, turns: int) -> Debate:
        """A debate of so many agents and turns."""
        config = self.config
        chats = self.team.config.chat or config.endpoint is not None
        plain: Wording = Chat(Told(config.prompts)) if chats else Plain(self.task)

        def wording(agent: int) -> Wording:
            if not config.identities:
                return plain
            return Identified(plain, config.prompts, agent + 1, critics=lambda turn: turn > 0)

        return Debate(
            agents=agents,
            turns=turns,
            speaker=config.policy,
            wording=wording,
            fits=lambda agent, context: self._fits(context),
            read=self.task.read,
            consensus=None,
            judge=None,
            summariser=SumUp(config.prompts, BASE) if config.summary else None,
        )

    def _fits(self, context: Context) -> bool:
        """Whether the model can still answer; one behind an endpoint is for its server to say."""
        if self.config.endpoint is not None:
            return True
        limit = self.config.sampling.max_response_tokens
        return self.team.tokens(context) + limit <= self.team.context_length


@dataclass(frozen=True)
class Hinted:
    """One answer to each problem; where it is wrong, one more with the right answer as a hint.

    An interaction (STaR, Zelikman et al., 2022).
    """

    config: MaftConfig
    task: Task
    team: Team

    def __call__(self, prompts: list[Prompt], speak: Speak) -> list[Episode]:
        """An episode of two turns per prompt; the second is absent where none was needed."""
        name = self.config.policy(0, 0)
        first = speak(name, "solo", 0, [prompt.text for prompt in prompts])
        hints: list[Context | None] = [
            None if self.task.is_right(turn.response, str(prompt.answer)) else self._hint(prompt)
            for prompt, turn in zip(prompts, first, strict=True)
        ]
        again = speak(name, "hinted", 1, hints)
        return [
            Episode(prompt, [one, other])
            for prompt, one, other in zip(prompts, first, again, strict=True)
        ]

    def _hint(self, prompt: Prompt) -> str:
        answer = str(prompt.answer)
        if not self.team.config.chat:
            return self.task.observer_context(prompt.text, [answer])
        return self.config.prompts.hint.format(query=prompt.text, answer=answer)
