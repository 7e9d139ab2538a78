"""Proximal Policy Optimization for any number of agents."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from cory import distributed
from cory.config import BatchPlan, PPOConfig
from cory.episode import Batch, Episode, Metrics, turns_of
from cory.evaluation.evaluate import Evaluator
from cory.functional.advantages import gae, kl_penalised_rewards
from cory.functional.logprobs import MAX_LOG_RATIO
from cory.functional.losses import clipped_policy_loss, clipped_value_loss
from cory.functional.masking import whiten
from cory.models.generation import draw_limit
from cory.models.policy import Actor
from cory.models.ppo_policy import PPOPolicy
from cory.rewards import Reward
from cory.rollout.interactions import Interaction
from cory.rollout.speak import speak_with
from cory.runs.stop import StopPoint, never_stop
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged, require_finite
from cory.trainers.metrics import agent_metrics, value_metrics
from cory.trainers.minibatch import Stage, optimiser_step, paced, sum_steps
from cory.trainers.sanity_checks import check_first_batch, check_first_update, local_fingerprints
from cory.trainers.state import Stateful, load_states, states_of


@dataclass
class PPOTrainer:
    """On-policy clipped updates for any number of agents (Schulman et al., 2017).

    Algorithms differ in the functions they pass, not by inheritance.
    """

    config: PPOConfig
    plan: BatchPlan
    agents: dict[str, PPOPolicy]
    task: Task
    reward: Reward
    streams: Streams
    _: KW_ONLY
    interact: Interaction  # the roll-out: who speaks, seeing what
    actors: Mapping[str, Actor]  # those who may speak in it: agents and frozen references
    assign_credit: Callable[[list[Episode]], None]  # sets turn.credit
    learners: Callable[[int], Collection[str]]  # iteration -> the agents that learn in it
    describe: Callable[[list[Episode], Metrics], Metrics]  # further metrics of a roll-out
    after_step: Callable[[int], None]  # takes the iteration; for instance, exchanges roles
    evaluate: Evaluator
    carried: Mapping[str, Stateful]  # components whose state a checkpoint keeps
    episodes: list[Episode] = field(init=False, default_factory=list)  # of the last step

    def step(self, iteration: int, stop_point: StopPoint = never_stop) -> Metrics:
        """One iteration: roll out, score, assign credit, and update every agent on its own turns.

        It cannot be interrupted.
        """
        clock = Clock()
        prompts = self.task.sample(self.config.prompts_per_iteration)
        sampling, streams = self.config.sampling, self.streams
        limit = draw_limit(sampling, streams.length)
        metrics: Metrics = {"rollout/response_limit": float(limit)}
        sampler_logprobs: dict[str, list[float]] = {}
        speak = speak_with(self.actors, limit, sampling, repeat(streams.sampling), sampler_logprobs)
        episodes = self.episodes = self.interact(prompts, speak)
        clock.lap("rollout_s")
        self.reward.score(episodes)
        clock.lap("reward_s")
        self.assign_credit(episodes)
        learners = self.learners(iteration)
        for agent in self.agents.values():
            turns = turns_of(episodes, agent.name)
            if all(turn.absent for turn in turns):
                continue  # every debate had ended: there is nothing to learn
            batch = agent.annotate(turns)
            metrics |= agent_metrics(agent, turns, batch, sampler_logprobs[agent.name])
            clock.lap("annotate_s")
            if agent.name not in learners:
                continue
            first = agent.updates == 0
            if first:
                check_first_batch(agent, batch, metrics)
            rewards = kl_penalised_rewards(
                batch.credits, batch.kl, batch.response_mask, agent.kl_coef
            )
            advantages, returns = gae(
                rewards,
                batch.values,
                batch.response_mask,
                self.config.gamma,
                self.config.gae_lambda,
            )
            if self.config.whiten_advantages:
                advantages = whiten(advantages, batch.response_mask)
            metrics |= value_metrics(agent.name, batch, returns)
            before = local_fingerprints(self.agents) if first else None
            stage = Stage(iteration, self.config.iterations, self.config.learning_rate)
            metrics |= self.update(agent, batch, advantages, returns, stage)
            metrics[f"ppo/learning_rate/{agent.name}"] = agent.engine.learning_rate
            if before is not None:
                shares = ("policy/passed_over", "skipped_steps")  # of the steps that did not count
                none_counted = any(metrics[f"ppo/{key}/{agent.name}"] == 1 for key in shares)
                after = local_fingerprints(self.agents)
                check_first_update(agent, before, after, none_counted)
            agent.updates += 1
            agent.adapt_kl_coef(metrics[f"objective/kl/{agent.name}"], len(turns))
            clock.lap("update_s")
            require_finite(iteration, metrics)
            self._require_bounds(iteration, agent.name, metrics)
        metrics |= self.describe(episodes, metrics)
        metrics |= clock.metrics()
        self.after_step(iteration)
        return metrics

    def _require_bounds(self, iteration: int, agent: str, metrics: Metrics) -> None:
        """TrainingDiverged where an agent's update passed a bound of `algorithm.stop`."""
        stop = self.config.stop
        bounds = (
            ("max_kl", f"objective/kl/{agent}", stop.max_kl, 1),
            ("max_ratio", f"ppo/policy/ratio/{agent}", stop.max_ratio, 1),
            ("min_entropy", f"objective/entropy/{agent}", stop.min_entropy, -1),
        )
        for key, metric, bound, sign in bounds:
            if bound is not None and sign * metrics[metric] > sign * bound:
                reason = f"{metric} is {metrics[metric]:.4g}, past algorithm.stop.{key}={bound}"
                raise TrainingDiverged(iteration, reason, metrics)

    def update(
        self, agent: PPOPolicy, batch: Batch, advantages: Tensor, returns: Tensor, stage: Stage
    ) -> Metrics:
        """Epochs of clipped minibatch steps over one agent's turns; mean statistics of them all."""
        agent.start_update()
        steps = self.config.epochs * self.plan.minibatches
        means = sum_steps(
            {key: value / steps for key, value in step.items()}
            for chosen in paced(self._minibatches(len(batch)), steps, stage, self.config, agent)
            for step in [self._minibatch(agent, batch, advantages, returns, chosen)]
        )
        return {f"ppo/{key}/{agent.name}": value for key, value in means.items()}

    def _minibatches(self, turns: int) -> Iterator[Tensor]:
        """Indices of every minibatch of every epoch; each epoch in an order of its own."""
        for _ in range(self.config.epochs):
            order = torch.randperm(turns, generator=self.streams.shuffle)
            yield from order.chunk(self.plan.minibatches)

    def _minibatch(
        self, agent: PPOPolicy, batch: Batch, advantages: Tensor, returns: Tensor, chosen: Tensor
    ) -> dict[str, float]:
        """One optimiser step on the turns at `chosen`; its mean statistics per token."""
        config = self.config
        # divided by the whole minibatch's tokens, so that neither the size of a microbatch nor the
        # number of processes changes anything
        tokens = batch.response_mask[chosen].sum().clamp(min=1)

        def objective(index: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
            mask = batch.response_mask[index]
            logprobs, values = agent.engine(
                batch.input_ids[index], batch.attention_mask[index], mask
            )
            before, values_before, advantage, target = (
                column[index] for column in (batch.logprobs, batch.values, advantages, returns)
            )
            policy = clipped_policy_loss(logprobs, before, advantage, mask, config.clip_range)
            value = clipped_value_loss(values, values_before, target, mask, config.value_clip_range)
            loss = (policy.per_token.sum() + config.value_coef * value.per_token.sum()) / tokens
            difference = (logprobs.detach() - before).clamp(max=MAX_LOG_RATIO)
            ratio = torch.where(mask, difference.exp(), 0.0).sum() / tokens
            passed_over = torch.zeros_like(tokens, dtype=torch.bool)
            if config.max_mean_ratio is not None:
                # as the released code: the gradient of a minibatch with too large a ratio is zeroed
                passed_over = distributed.summed(ratio.clone()) > config.max_mean_ratio
                loss = loss * (~passed_over)
            return loss, {
                "loss/policy": policy.per_token.detach().sum() / tokens,
                "loss/value": value.per_token.detach().sum() / tokens,
                "policy/approxkl": policy.deviation.sum() / tokens,
                "policy/clipfrac": policy.clipped.sum() / tokens,
                "policy/ratio": ratio,
                "policy/passed_over": passed_over.float() / distributed.count(),
                "value/clipfrac": value.clipped.sum() / tokens,
            }

        lengths = batch.attention_mask[chosen].sum(1)
        return optimiser_step(agent, chosen, self.plan.microbatch, objective, lengths.tolist())

    def state_dict(self) -> dict[str, Any]:
        """All that an iteration changes except weights and optimisers, which the engines keep."""
        return states_of({**self.agents, **self.carried})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        load_states({**self.agents, **self.carried}, state)
