"""On-policy clipped updates for any number of agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from cory import distributed
from cory.config import BatchPlan, PPOConfig
from cory.episode import Batch, Context, Episode, Metrics, Turn, turns_of
from cory.evaluation.evaluate import BeforeEach, EvalContext, Request, TeamEvaluator, evaluate
from cory.functional.advantages import gae, kl_penalised_rewards
from cory.functional.logprobs import MAX_LOG_RATIO
from cory.functional.losses import clipped_policy_loss, clipped_value_loss
from cory.functional.masking import whiten
from cory.models.policy import Actor
from cory.models.ppo_policy import PPOPolicy
from cory.rewards import Reward
from cory.rollout.interactions import Interaction
from cory.runs.partial_results import PartialResults
from cory.runs.stop import StopPoint, never_stop
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.metrics import agent_metrics, value_metrics
from cory.trainers.sanity_checks import check_first_batch, check_first_update, weights


class Stateful(Protocol):
    """Something that goes on after a restart where it was."""

    def state_dict(self) -> dict[str, Any]:
        """What has to be kept; tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        ...


class PPOTrainer:
    """On-policy clipped updates for any number of agents (Schulman et al., 2017).

    What differs between algorithms is given, not inherited:
      interact(prompts, speak) -> episodes     who speaks, seeing what
      speakers                                 whom it may let speak: agents, and who never learns
      assign_credit(episodes)                  fills turn.credit
      learners(iteration) -> names             the agents that learn in it
      describe(episodes, metrics) -> metrics   what else is logged about a roll-out
      after_step(iteration)                    for instance, exchange roles
      exam                                     how the agents are measured together
      carried                                  what of this must survive a restart
    """

    def __init__(
        self,
        config: PPOConfig,
        plan: BatchPlan,
        agents: dict[str, PPOPolicy],
        task: Task,
        reward: Reward,
        streams: Streams,
        *,
        interact: Interaction,
        speakers: Mapping[str, Actor],
        assign_credit: Callable[[list[Episode]], None],
        learners: Callable[[int], Collection[str]],
        describe: Callable[[list[Episode], Metrics], Metrics],
        after_step: Callable[[int], None],
        exam: TeamEvaluator,
        carried: Mapping[str, Stateful],
    ) -> None:
        self.config = config
        self.plan = plan
        self.agents = agents
        self.task = task
        self.reward = reward
        self.streams = streams
        self.interact = interact
        self.speakers = speakers
        self.assign_credit = assign_credit
        self.learners = learners
        self.describe = describe
        self.after_step = after_step
        self.exam = exam
        self.carried: dict[str, Stateful] = {"task": task, "streams": streams, **agents, **carried}
        self.episodes: list[Episode] = []  # of the last step

    def step(self, iteration: int, stop_point: StopPoint = never_stop) -> Metrics:
        """One iteration: roll out, score, give credit, and update every agent on its own turns.

        It has no middle to be left in.
        """
        clock = Clock()
        prompts = self.task.sample(self.config.prompts_per_iteration)
        limit = int(
            self.streams.length.integers(
                self.config.sampling.min_response_tokens,
                self.config.sampling.max_response_tokens + 1,
            )
        )
        metrics: Metrics = {"rollout/response_limit": float(limit)}
        sampler_logprobs: dict[str, list[float]] = {}
        speak = partial(self._speak, limit, sampler_logprobs)
        episodes = self.episodes = self.interact(prompts, speak)
        clock.lap("rollout_s")
        self.reward.score(episodes)
        clock.lap("reward_s")
        self.assign_credit(episodes)
        learners = self.learners(iteration)
        for agent in self.agents.values():
            turns = turns_of(episodes, agent.name)
            if all(turn.absent for turn in turns):
                continue  # every debate had ended: there is nothing to learn from
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
            before = weights(self.agents) if first else None
            metrics |= self.update(agent, batch, advantages, returns)
            if before is not None:
                passed_over = metrics[f"ppo/policy/passed_over/{agent.name}"]
                check_first_update(agent, before, weights(self.agents), passed_over == 1)
            agent.updates += 1
            agent.adapt_kl_coef(metrics[f"objective/kl/{agent.name}"], len(turns))
            clock.lap("update_s")
            reason = self._why_stop(agent.name, metrics)
            if reason is not None:
                raise TrainingDiverged(iteration, reason, metrics)
        metrics |= self.describe(episodes, metrics)
        metrics |= clock.metrics()
        self.after_step(iteration)
        return metrics

    def _why_stop(self, agent: str, metrics: Metrics) -> str | None:
        """What forbids to go on after an agent's update, if anything does."""
        for key, value in metrics.items():
            if not math.isfinite(value):
                return f"{key} is not finite"
        stop = self.config.stop
        bounds = (
            ("max_kl", f"objective/kl/{agent}", stop.max_kl, 1),
            ("max_ratio", f"ppo/policy/ratio/{agent}", stop.max_ratio, 1),
            ("min_entropy", f"objective/entropy/{agent}", stop.min_entropy, -1),
        )
        for key, metric, bound, sign in bounds:
            if bound is not None and sign * metrics[metric] > sign * bound:
                return f"{metric} is {metrics[metric]:.4g}, past algorithm.stop.{key}={bound}"
        return None

    def update(
        self, agent: PPOPolicy, batch: Batch, advantages: Tensor, returns: Tensor
    ) -> Metrics:
        """Passes of clipped minibatch steps over one agent's turns; mean statistics of them all."""
        agent.start_update()
        totals: dict[str, float] = {}
        steps = self.config.epochs * self.plan.minibatches
        for chosen in self._minibatches(len(batch)):
            step = self._minibatch(agent, batch, advantages, returns, chosen)
            for key, value in step.items():
                totals[key] = totals.get(key, 0.0) + value / steps
            if not all(map(math.isfinite, step.values())):
                break  # the same in every process: these are sums over all of them
        return {f"ppo/{key}/{agent.name}": value for key, value in totals.items()}

    def _minibatches(self, turns: int) -> Iterator[Tensor]:
        """Indices of every minibatch of every epoch; each epoch in an order of its own."""
        for _ in range(self.config.epochs):
            order = torch.randperm(turns, generator=self.streams.shuffle)
            yield from order.chunk(self.plan.minibatches)

    def _minibatch(
        self, agent: PPOPolicy, batch: Batch, advantages: Tensor, returns: Tensor, chosen: Tensor
    ) -> dict[str, float]:
        """One optimiser step on the turns at `chosen`; its statistics, per token."""
        config = self.config
        # divided by the whole minibatch's tokens, so that neither the size of a microbatch nor the
        # number of processes changes anything
        tokens = batch.response_mask[chosen].sum().clamp(min=1)
        sums: dict[str, Tensor] = {}
        norm = None
        for index in torch.split(chosen[distributed.own_rows(len(chosen))], self.plan.microbatch):
            rows = batch.rows(index)
            mask = rows.response_mask
            logprobs, values = agent.engine(rows.input_ids, rows.attention_mask, mask)
            policy = clipped_policy_loss(
                logprobs, rows.logprobs, advantages[index], mask, config.clip_range
            )
            value = clipped_value_loss(
                values, rows.values, returns[index], mask, config.value_clip_range
            )
            loss = (policy.per_token.sum() + config.value_coef * value.per_token.sum()) / tokens
            difference = (logprobs.detach() - rows.logprobs).clamp(max=MAX_LOG_RATIO)
            ratio = torch.where(mask, difference.exp(), 0.0).sum() / tokens
            passed_over = torch.zeros_like(tokens, dtype=torch.bool)
            if config.max_mean_ratio is not None:
                # as the released code: the gradient of a minibatch that went astray is zeroed
                passed_over = distributed.summed(ratio.clone()) > config.max_mean_ratio
                loss = loss * (~passed_over)
            agent.engine.backward(loss)
            norm = agent.engine.step()
            part = {
                "loss/policy": policy.per_token.detach().sum() / tokens,
                "loss/value": value.per_token.detach().sum() / tokens,
                "policy/approxkl": policy.deviation.sum() / tokens,
                "policy/clipfrac": policy.clipped.sum() / tokens,
                "policy/ratio": ratio,
                "policy/passed_over": passed_over.float() / distributed.count(),
                "value/clipfrac": value.clipped.sum() / tokens,
            }
            sums |= {key: sums.get(key, torch.zeros(())) + number for key, number in part.items()}
        assert norm is not None, "the last microbatch steps the optimiser"
        totals = distributed.summed(torch.stack(list(sums.values()))).tolist()
        return dict(zip(sums, totals, strict=True)) | {
            "gradient_norm": norm,
            "skipped_steps": float(agent.engine.skipped),
        }

    def evaluate(
        self, request: Request, pieces: PartialResults, before_each: BeforeEach
    ) -> Metrics:
        """Measure the agents, in the roles that they have now, on held-out prompts."""
        bench = EvalContext(self.agents, self.task, self.reward, self.exam, self.config.sampling)
        return evaluate(bench, request, pieces, before_each)

    def state_dict(self) -> dict[str, Any]:
        """All that an iteration changes except weights and optimisers, which the engines keep."""
        return {name: part.state_dict() for name, part in self.carried.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        for name, part in self.carried.items():
            part.load_state_dict(state[name])

    def _speak(
        self,
        limit: int,
        sampler_logprobs: dict[str, list[float]],
        agent: str,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
    ) -> list[Turn]:
        spoken = self.speakers[agent].turns(
            role, round, contexts, limit, self.config.sampling, self.streams.sampling
        )
        sampler_logprobs.setdefault(agent, []).extend(logp for _, row in spoken for logp in row)
        return [turn for turn, _ in spoken]
