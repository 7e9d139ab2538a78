"""Proximal Policy Optimization for any number of agents: the step and its loss."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace

import torch
from torch import Tensor

from cory import distributed
from cory.config import REPLAYED, PPOConfig
from cory.episode import Batch, Episode, Metrics, Prompt, absent_turn, score_of, tokens_of, turns_of
from cory.evaluation.evaluate import Evaluator, Probes, TeamEvaluator
from cory.functional.advantages import Pool, equal_groups, equal_prompts
from cory.functional.credit import penalise_overlong
from cory.functional.logprobs import MAX_LOG_RATIO, corrected_kl, sampled_kl
from cory.functional.losses import (
    LossAverage,
    clipped_policy_loss,
    clipped_value_loss,
    loss_average,
)
from cory.models.actor import Actor
from cory.models.actor_critic import Outputs
from cory.models.policy import PPOPolicy
from cory.rewards import Reward
from cory.rollout.replay import replays_of
from cory.rollout.scheduler import Play, RollOut
from cory.trainers import estimates
from cory.trainers.components import Components
from cory.trainers.estimates import Estimate
from cory.trainers.sanity_checks import CheckedUpdate, check_first_batch, checked_update
from cory.trainers.steps import (
    Clock,
    Resumable,
    Stage,
    Stateful,
    add_step,
    optimiser_step,
    paced,
    require_finite,
)


@dataclass
class PPOTrainer(Resumable):
    """On-policy clipped updates for any number of agents (Schulman et al., 2017).

    Algorithms differ in the functions they pass, not by inheritance.
    """

    components: Components
    agents: dict[str, PPOPolicy]
    play: Play  # an episode: who speaks, seeing what
    assign_credit: Callable[[list[Episode]], None]  # sets turn.credit
    _: KW_ONLY
    actors: Mapping[str, Actor] = field(default_factory=dict)  # who may speak; none: the agents
    reward: Reward | None = None  # None: the run's
    evaluator: Evaluator | None = None  # None: of each agent alone, and of all in their play
    probes: Probes = field(default_factory=dict)  # of that one
    # further metrics of a roll-out
    describe: Callable[[list[Episode], Metrics], Metrics] = lambda episodes, metrics: {}
    # takes the iteration; for instance, exchanges roles
    after_step: Callable[[int], None] = lambda iteration: None
    # further components whose state a checkpoint keeps
    carried: Mapping[str, Stateful] = field(default_factory=dict)
    episodes: list[Episode] = field(init=False, default_factory=list)  # of the last step
    logged: Metrics = field(init=False, default_factory=dict)  # of its roll-out

    def __post_init__(self) -> None:
        components = self.components
        self.config: PPOConfig = components.config.algorithm
        self.actors = self.actors or self.agents
        self.judge: Reward = self.reward or components.reward
        self.credit: str = getattr(self.config, "credit", "")
        self.prompts_drawn = self.config.prompts_drawn()
        self.estimate = estimates.estimator_of(self.config)
        task, sampling = components.task, self.config.sampling
        self.evaluate: Evaluator = self.evaluator or TeamEvaluator(
            self.agents, task, self.judge, sampling, self.play, self.actors, probes=self.probes
        )

    def step(self, iteration: int) -> Metrics:
        """One iteration: roll out, score, assign credit, and update every agent on its own turns.

        Stopped while every episode waits for something outside; else it comes to its end.
        """
        clock = Clock()
        metrics = self._roll_out(iteration, clock)
        for agent in self.agents.values():
            turns = turns_of(self.episodes, agent.name)
            missing = -len(turns) % self.config.minibatch_size  # in the last minibatch
            turns += [absent_turn(t.agent, t.role, t.round) for t in turns[:1]] * missing
            if all(turn.absent for turn in turns):
                continue  # every debate had ended: there is nothing to learn
            critic = None
            if self.config.critic == "central":
                critic = estimates.critic_batch(agent, self.episodes, len(turns))
            batch = agent.annotate(turns, critic)
            metrics |= estimates.agent_metrics(agent, turns, batch)
            clock.lap("annotate_s")
            metrics |= self._learn(agent, batch, metrics, iteration)
            clock.lap("update_s")
            require_finite(iteration, metrics)
        metrics |= estimates.copied_metrics(self.episodes)
        metrics |= self.describe(self.episodes, metrics)
        metrics |= clock.metrics()
        self.after_step(iteration)
        return metrics

    def _roll_out(self, iteration: int, clock: Clock) -> Metrics:
        """The iteration's episodes, scored and with credits, about newly drawn prompts.

        Prompts that teach no agent anything give place to others, as often as the settings say
        (DAPO's dynamic sampling); those that are left then stay.
        """
        config, streams = self.config, self.components.streams
        samples, key = config.samples_per_prompt, streams.key_of_roll_out()
        roll_out = RollOut.of(
            self.actors,
            config.sampling,
            key,
            streams.length,
            reward=self.judge,
            iteration=iteration,
        )
        self.logged = {"rollout/response_limit": float(roll_out.limit), "rollout/tokens": 0.0}
        self.episodes = self._scored(roll_out, self.prompts_drawn, clock)
        redrawn = 0
        for again in range(config.resample_equal_groups):
            equal = equal_prompts(self.episodes, self.agents, samples, config.groups)
            if not equal:
                break
            fresh = self._scored(replace(roll_out, key=(*key, "again", again)), len(equal), clock)
            for number, place in enumerate(equal):
                start, end = place * samples, (place + 1) * samples
                self.episodes[start:end] = fresh[number * samples : (number + 1) * samples]
            redrawn += len(equal)
        if config.resample_equal_groups:
            self.logged["rollout/prompts_redrawn"] = float(redrawn)
        return self.logged

    def _scored(self, roll_out: RollOut, count: int, clock: Clock) -> list[Episode]:
        """Episodes about the next `count` prompts, with scores and credits."""
        config, drawn = self.config, self.components.task.sample(count)
        prompts = [prompt for prompt in drawn for _ in range(config.samples_per_prompt)]
        episodes = self._played(roll_out, prompts)
        clock.lap("rollout_s")
        self.judge.score(episodes)
        clock.lap("reward_s")
        self.assign_credit(episodes)
        if self.credit in REPLAYED:
            self._take_off_replays(roll_out, episodes)
            clock.lap("replay_s")
        if config.overlong_buffer is not None:
            for name in self.agents:
                limit = roll_out.limits.get(name, roll_out.limit)
                penalise_overlong(turns_of(episodes, name), limit, config.overlong_buffer)
        return episodes

    def _played(self, roll_out: RollOut, prompts: Sequence[Prompt]) -> list[Episode]:
        with ExitStack() as sampling_as_trained:
            for agent in self.agents.values():
                sampling_as_trained.enter_context(agent.rolling_out())
            episodes = roll_out(self.play, prompts)
        self.logged["rollout/tokens"] += tokens_of(episodes)
        return episodes

    def _take_off_replays(self, roll_out: RollOut, episodes: list[Episode]) -> None:
        """Take from the credit of each learner's utterance what all are paid in its replay.

        All replays are one roll-out; metrics have no more of it than its cost.
        """
        muted, reward = self.credit == "counterfactual", self.components.reward
        found = [
            (turn, episode.prompt, replay)
            for number, episode in enumerate(episodes)
            for turn, replay in replays_of(episode, number, self.agents, muted)
        ]
        again = replace(roll_out, replays=[replay for *_, replay in found])
        replayed = self._played(again, [prompt for _, prompt, _ in found])
        self.logged = reward.metrics() | self.logged  # of redraws those of the first roll-out stay
        self.judge.score(replayed)
        reward.metrics()  # those that are logged are about the episodes
        for (turn, *_), other in zip(found, replayed, strict=True):
            turn.credit = (turn.credit or 0.0) - sum(map(score_of, other.turns))

    def _learn(self, agent: PPOPolicy, batch: Batch, so_far: Metrics, iteration: int) -> Metrics:
        """Update one agent on its turns; the first update is checked before and after it.

        so_far: metrics of this iteration, among them those of the batch
        """
        config = self.config
        first = agent.updates == 0
        if first:
            check_first_batch(agent, batch, so_far)
        groups = estimates.compared(config, self.episodes, agent.name, batch)
        taken_off = agent.kl_coef if config.kl_in == "reward" else 0.0
        estimate = self.estimate(batch, groups, taken_off)
        metrics = estimates.value_metrics(agent.name, batch, estimate.returns)
        if config.samples_per_prompt > 1:
            own = Pool(batch.credits, groups.own)
            metrics[f"rollout/equal_groups/{agent.name}"] = equal_groups(*(groups.pool or own))
        learnt, turns = batch, turns_of(self.episodes, agent.name)
        if config.sampler_ratio_cap is not None:
            weights = estimates.sampler_weights(turns, batch, config.sampler_ratio_cap)
            # of the clipped loss, too, which is proportional to the size of the advantage
            estimate = estimate._replace(advantages=estimate.advantages * weights)
        if config.overlong == "mask":
            learnt, estimate = estimates.without_cut_off(batch, estimate, turns)
        stage = Stage(iteration, config.iterations, agent.config.learning_rate)
        checked = checked_update(agent, self.agents) if first else nullcontext(CheckedUpdate())
        with checked as update:
            metrics |= self.update(agent, learnt, estimate, stage)
            # nothing has to move where the rewards of every group are equal ...
            idle = not estimate.advantages.any() and config.weight_decay == 0
            left_out = metrics[f"ppo/policy/passed_over/{agent.name}"]
            # ... or no step counted; a sum of shares may be a digit below 1
            update.may_stand_still = idle or left_out > 1 - 1e-4
        agent.updates += update.moved
        metrics[f"ppo/learning_rate/{agent.name}"] = agent.engine.learning_rate
        present = int(batch.response_mask.any(1).sum())  # rows of absent turns are empty
        agent.adapt_kl_coef(so_far[f"objective/kl/{agent.name}"], present)
        return metrics

    def update(self, agent: PPOPolicy, batch: Batch, estimate: Estimate, stage: Stage) -> Metrics:
        """Epochs of clipped minibatch steps over one agent's turns; mean statistics of them all."""
        agent.start_update()
        agent.updated = True
        config, stream = self.config, self.components.streams.shuffle
        steps = config.epochs * (len(batch) // config.minibatch_size)
        sums: dict[str, float] = {}
        for chosen in paced(agent, range(len(batch)), config.epochs, stage, config, stream):
            objective = self._objective(agent, batch, estimate, torch.tensor(chosen))
            tokens = batch.attention_mask[chosen].sum(1).tolist()
            step = optimiser_step(agent, chosen, self.components.plan.microbatch, objective, tokens)
            if not add_step(sums, {key: value / steps for key, value in step.items()}):
                break
        sums["steps"] = float(steps)
        return {f"ppo/{key}/{agent.name}": value for key, value in sums.items()}

    def _objective(
        self, agent: PPOPolicy, batch: Batch, estimate: Estimate, chosen: Tensor
    ) -> "Objective":
        """The loss on the turns at `chosen`, a minibatch."""
        config, mask = self.config, batch.response_mask[chosen]
        limit, turns = agent.config.sampling.max_response_tokens, config.loss_average_turns
        average = loss_average(config.loss_average, mask, limit, turns).within(chosen, len(batch))
        tokens = mask.sum().clamp(min=1)
        return Objective(config, agent, batch, estimate, average, tokens)

    def parts(self) -> Mapping[str, Stateful]:
        return {**self.agents, **self.components.carried, **self.carried}


Numbers = dict[str, Tensor]  # to be added up over the minibatch


@dataclass(frozen=True)
class Objective:
    """The loss of one agent on one minibatch; called with the turns of a microbatch.

    Sums are divided by numbers of the whole minibatch, so that neither the size of a microbatch nor
    the number of processes changes anything.
    """

    config: PPOConfig
    agent: PPOPolicy
    batch: Batch
    estimate: Estimate
    average: LossAverage
    tokens: Tensor  # response tokens of the minibatch

    def __call__(self, rows: Sequence[int | None]) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The microbatch's part of the loss, with gradient; and its part of the statistics.

        rows: numbers of its b turns in the batch
        """
        config, batch, tokens, index = self.config, self.batch, self.tokens, torch.tensor(rows)
        mask, before = batch.response_mask[index], batch.logprobs[index]
        logprobs, values, entropy, kl = self._outputs(index)
        policy = clipped_policy_loss(
            logprobs,
            before,
            self.estimate.advantages[index],
            mask,
            config.clip_range,
            config.clip_range_high,
            config.ratio,
        )
        total = self.average.part(policy.per_token, index)
        losses: Numbers = {"loss/policy": total.detach() / self.average.whole}
        of_values: Numbers = {}
        if values is not None:
            old, returns = batch.values, self.estimate.returns
            assert old is not None and returns is not None  # as the value head is there
            held = config.value_clip_range
            value = clipped_value_loss(values, old[index], returns[index], mask, held)
            part = self.average.part(value.per_token, index)
            of_values = {"value/clipfrac": value.clipped.sum() / tokens}
            total = total + config.value_coef * part
            losses["loss/value"] = part.detach() / self.average.whole
        terms = {"kl": (self.agent.kl_coef, kl), "entropy": (-config.entropy_coef, entropy)}
        for name, (coef, per_token) in terms.items():
            if per_token is not None:
                part = self.average.part(per_token, index)
                total = total + coef * part
                losses[f"loss/{name}"] = part.detach() / self.average.whole
        loss = total / self.average.whole
        difference = (logprobs.detach() - before).clamp(max=MAX_LOG_RATIO)
        ratio = torch.where(mask, difference.exp(), 0.0).sum() / tokens
        passed_over = torch.zeros_like(tokens, dtype=torch.bool)
        if config.max_mean_ratio is not None:
            # as the released code: the gradient of a minibatch with too large a ratio is zeroed
            passed_over = distributed.summed(ratio.clone()) > config.max_mean_ratio
            loss = loss * (~passed_over)
        return loss, {
            **losses,
            "policy/approxkl": policy.deviation.sum() / tokens,
            "policy/clipfrac": policy.clipped.sum() / tokens,
            "policy/ratio": ratio,
            "policy/passed_over": passed_over.float() / distributed.count(),
            **of_values,
        }

    def _outputs(self, index: Tensor) -> Outputs:
        """What the model says of the turns at `index`, with the KL where the loss has one."""
        config, batch = self.config, self.batch
        inputs = batch.input_ids[index], batch.attention_mask[index], batch.response_mask[index]
        in_loss, kind = config.kl_in == "loss", config.kl_loss
        reference = self.agent.reference_states(*inputs) if in_loss and kind == "full" else ()
        more = {"critic": batch.critic[index]} if batch.critic is not None else {}
        said = self.agent.engine(*inputs, *reference, entropy=config.entropy_coef > 0, **more)
        if not in_loss or kind == "full":
            return said
        known = batch.ref_logprobs[index]  # the estimates are 0 outside the mask
        if kind == "k3":
            return said._replace(kl=sampled_kl(said.logprobs, known, "k3"))
        return said._replace(kl=corrected_kl(said.logprobs, known, batch.logprobs[index]))
