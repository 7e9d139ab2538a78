"""Proximal Policy Optimization for any number of agents."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from cory.config import BatchPlan, PPOConfig
from cory.episode import Batch, Episode, Metrics, Turn, absent_turn, turns_of
from cory.evaluation.evaluate import Evaluator
from cory.functional.advantages import equal_groups, groups_of
from cory.functional.losses import loss_average
from cory.models.generation import draw_limit
from cory.models.policy import Actor, PPOPolicy
from cory.rewards import Reward
from cory.rollout.scheduler import Play, RollOut
from cory.runs.signals import StopPoint, never_stop
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged, require_finite
from cory.trainers.estimators import Estimate, Estimator
from cory.trainers.metrics import agent_metrics, value_metrics
from cory.trainers.minibatch import Stage, optimiser_step, paced, sum_steps
from cory.trainers.objective import Objective
from cory.trainers.sanity_checks import check_first_batch, checked_update
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
    play: Play  # an episode: who speaks, seeing what
    actors: Mapping[str, Actor]  # those who may speak in it: agents and frozen references
    assign_credit: Callable[[list[Episode]], None]  # sets turn.credit
    estimate: Estimator  # credits and KL -> advantages
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
        limit = draw_limit(self.config.sampling, self.streams.length)
        self.episodes = self._roll_out(iteration, limit)
        clock.lap("rollout_s")
        self.reward.score(self.episodes)
        clock.lap("reward_s")
        self.assign_credit(self.episodes)
        metrics: Metrics = {"rollout/response_limit": float(limit)}
        learners = self.learners(iteration)
        for agent in self.agents.values():
            turns = self._whole_minibatches(turns_of(self.episodes, agent.name))
            if all(turn.absent for turn in turns):
                continue  # every debate had ended: there is nothing to learn
            batch = agent.annotate(turns)
            metrics |= agent_metrics(agent, turns, batch)
            clock.lap("annotate_s")
            if agent.name in learners:
                metrics |= self._learn(agent, batch, metrics, iteration)
                clock.lap("update_s")
                require_finite(iteration, metrics)
                self._require_bounds(iteration, agent.name, metrics)
        metrics |= self.describe(self.episodes, metrics)
        metrics |= clock.metrics()
        self.after_step(iteration)
        return metrics

    def _roll_out(self, iteration: int, limit: int) -> list[Episode]:
        """Episodes about newly drawn prompts, of responses of at most `limit` tokens."""
        config = self.config
        drawn = self.task.sample(config.prompts_drawn())
        prompts = [prompt for prompt in drawn for _ in range(config.samples_per_prompt)]
        key = self.streams.key_of_roll_out()
        roll_out = RollOut(
            self.actors, limit, config.sampling, key, reward=self.reward, iteration=iteration
        )
        with ExitStack() as sampling_as_trained:
            for agent in self.agents.values():
                sampling_as_trained.enter_context(agent.rolling_out())
            return roll_out(self.play, prompts)

    def _whole_minibatches(self, turns: list[Turn]) -> list[Turn]:
        """The turns, and absent ones that fill the last minibatch."""
        missing = -len(turns) % self.config.minibatch_size
        return turns + [absent_turn(one.agent, one.role, one.round) for one in turns[:1]] * missing

    def _learn(self, agent: PPOPolicy, batch: Batch, so_far: Metrics, iteration: int) -> Metrics:
        """Update one agent on its turns; the first update is checked before and after it.

        so_far: metrics of this iteration, among them those of the batch
        """
        config = self.config
        first = agent.updates == 0
        if first:
            check_first_batch(agent, batch, so_far)
        groups = groups_of(self.episodes, agent.name, config.samples_per_prompt)
        groups = pad(groups, (0, len(batch) - len(groups)), value=-1).to(batch.credits.device)
        taken_off = agent.kl_coef if config.kl_in == "reward" else 0.0
        estimate = self.estimate(batch, groups, taken_off)
        metrics = self._estimate_metrics(agent.name, batch, groups, estimate)
        stage = Stage(iteration, config.iterations, config.learning_rate)
        with checked_update(agent, self.agents, first) as update:
            metrics |= self.update(agent, batch, estimate, stage)
            # nothing has to move where the rewards of every group are equal
            idle = not estimate.advantages.any() and config.weight_decay == 0
            update.may_stand_still = idle or self._none_counted(agent.name, metrics, len(batch))
        agent.updates += update.moved
        metrics[f"ppo/learning_rate/{agent.name}"] = agent.engine.learning_rate
        present = int(batch.response_mask.any(1).sum())  # rows of absent turns are empty
        agent.adapt_kl_coef(so_far[f"objective/kl/{agent.name}"], present)
        return metrics

    def _none_counted(self, agent: str, metrics: Metrics, turns: int) -> bool:
        """Whether every step of an update on so many turns was passed over or skipped."""
        shares = ("policy/passed_over", "skipped_steps")
        left_out = sum(metrics[f"ppo/{key}/{agent}"] for key in shares)
        steps = self._steps(turns)
        return round(left_out * steps) >= steps  # a sum of shares may be a digit below 1

    def _steps(self, turns: int) -> int:
        """Optimiser steps of an update on so many turns."""
        return self.config.epochs * (turns // self.config.minibatch_size)

    def _estimate_metrics(
        self, agent: str, batch: Batch, groups: Tensor, estimate: Estimate
    ) -> Metrics:
        """How well values were predicted; and how many groups have nothing to compare."""
        metrics = value_metrics(agent, batch, estimate.returns)
        if self.config.samples_per_prompt > 1:
            share = equal_groups(batch.credits, groups)
            metrics[f"rollout/equal_groups/{agent}"] = share
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

    def update(self, agent: PPOPolicy, batch: Batch, estimate: Estimate, stage: Stage) -> Metrics:
        """Epochs of clipped minibatch steps over one agent's turns; mean statistics of them all."""
        agent.start_update()
        agent.updated = True
        steps = self._steps(len(batch))
        means = sum_steps(
            {key: value / steps for key, value in step.items()}
            for chosen in paced(self._minibatches(len(batch)), steps, stage, self.config, agent)
            for step in [self._minibatch(agent, batch, estimate, chosen)]
        )
        return {f"ppo/{key}/{agent.name}": value for key, value in means.items()}

    def _minibatches(self, turns: int) -> Iterator[Tensor]:
        """Indices of every minibatch of every epoch; each epoch in an order of its own."""
        for _ in range(self.config.epochs):
            order = torch.randperm(turns, generator=self.streams.shuffle)
            yield from torch.split(order, self.config.minibatch_size)

    def _minibatch(
        self, agent: PPOPolicy, batch: Batch, estimate: Estimate, chosen: Tensor
    ) -> dict[str, float]:
        """One optimiser step on the turns at `chosen`; its mean statistics per token."""
        config, mask = self.config, batch.response_mask[chosen]
        average = loss_average(
            config.loss_average,
            mask,
            config.sampling.max_response_tokens,
            config.loss_average_turns,
        ).within(chosen, len(batch))
        objective = Objective(
            config, agent, batch, estimate, average, tokens=mask.sum().clamp(min=1)
        )
        lengths = batch.attention_mask[chosen].sum(1)
        return optimiser_step(agent, chosen, self.plan.microbatch, objective, lengths.tolist())

    def state_dict(self) -> dict[str, Any]:
        """All that an iteration changes except weights and optimisers, which the engines keep."""
        return states_of({**self.agents, **self.carried})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        load_states({**self.agents, **self.carried}, state)
