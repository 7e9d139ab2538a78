"""Multiagent Finetuning (Subramaniam et al., 2025): agents that specialise by debating.

N generation agents answer, N critic agents answer after them, the majority of the last answers is
the label, and each agent is fine-tuned on its own answers that agree with it (Algorithm 1). The
fine-tuned agents' debate is the inference (Algorithm 2).
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from torch import Tensor

from cory.algorithms.maft_data import DebateCollector
from cory.config import MaftConfig, MemberConfig
from cory.endpoint import Endpoint
from cory.episode import Prompt
from cory.evaluation.debates import MaftMetrics
from cory.evaluation.diversity import Diversity
from cory.evaluation.evaluate import TeamEvaluator
from cory.models.actor import Actor
from cory.models.bundle import ModelBundle
from cory.models.policy import Policy
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, DebateWording, Identified, Plain, SumUp, Told
from cory.rollout.endpoint_actor import REPLIES, EndpointActor
from cory.rollout.scheduler import Cast, Play
from cory.tasks import Form, Task
from cory.trainers.components import Components
from cory.trainers.supervised import FinetunePlan, SupervisedTrainer

BASE = "base"  # the untrained model


def build_maft(config: MaftConfig, components: Components) -> SupervisedTrainer:
    """Agents fine-tuned on their own debates, iteration by iteration."""
    run = components.config
    debate = partial(maft_debate, config, components.task, components.bundle_of)
    evaluated = debate(config.evaluation_agents, config.evaluation_turns)
    policies: dict[str, Policy] = {}
    pretrained: dict[str, dict[str, Tensor]] = {}
    actors: dict[str, Actor] = {}
    endpoint: Endpoint | None = None
    if config.endpoint is None:
        if config.start == "base":  # before policies are built: they may round the loaded weights
            for group, bundle in components.bundles.items():
                loaded = bundle.pretrained.named_parameters()
                pretrained[group] = {name: weight.detach() for name, weight in loaded}
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
    starts: dict[str, dict[str, Tensor]] = {}
    if config.start == "base":
        # the weights that a policy trains, before any update: whole, in main memory
        for name, policy in policies.items():
            trained, own = policy.engine.trainable, pretrained[run.group_of(name)]
            if policy.model.base is None:  # a full copy starts as they were loaded
                starts[name] = {weight: own[weight.removeprefix("lm.")] for weight in trained}
                continue
            with policy.whole():
                starts[name] = {n: weight.detach().cpu().clone() for n, weight in trained.items()}
    return SupervisedTrainer(
        components,
        policies,
        collector,
        evaluator,
        finetune_plan=lambda name, iteration: finetune_plan(
            config, name, iteration, starts.get(name), run.member(name)
        ),
    )


def finetune_plan(
    config: MaftConfig,
    name: str,
    iteration: int,
    start: Mapping[str, Tensor] | None,
    member: MemberConfig | None = None,
) -> FinetunePlan:
    """How a policy is fine-tuned in an iteration: each time as a training of its own.

    start: weights to begin from; None: those it debated with
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
