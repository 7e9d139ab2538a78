"""Coevolving with the Other You (Ma et al., 2024)."""

from functools import partial

from cory.algorithms.parts import Parts, numbered
from cory.config import CoryConfig
from cory.config.algorithm import ALL, LATER, MEAN
from cory.episode import Episode, Metrics
from cory.evaluation.evaluate import TeamEvaluator
from cory.evaluation.response_scores import score_metrics
from cory.functional.credit import own_and_later, own_score, shared_mean, shared_sum
from cory.rollout.interactions import Roles, pioneer_observer
from cory.trainers.estimators import estimator_of
from cory.trainers.metrics import role_metrics, transfer_metrics
from cory.trainers.ppo import PPOTrainer

CREDIT = {ALL: shared_sum, MEAN: shared_mean, LATER: own_and_later}


def build_cory(config: CoryConfig, parts: Parts) -> PPOTrainer:
    """A pioneer and its observers, copies of one model, rewarded by the sum of their scores."""
    agents = parts.new_ppo_policies(numbered(config.agents))
    roles = Roles(list(agents))

    def after_step(iteration: int) -> None:
        if config.swap_every is None or (iteration + 1) % config.swap_every:
            return
        roles.exchange()
        if config.official_swap:
            # the released code builds both trainers anew, and each seeds the run again
            for agent in agents.values():
                agent.engine.reset_optimizer()
                agent.start_statistics()
            parts.streams.restart("length", "sampling", "shuffle")

    def describe(episodes: list[Episode], metrics: Metrics) -> Metrics:
        return role_metrics(episodes, metrics) | transfer_metrics(episodes, parts.team.stops)

    interact = partial(
        pioneer_observer,
        roles=roles,
        observer_context=parts.task.observer_context if config.knowledge_transfer else None,
    )
    evaluator = TeamEvaluator(
        agents,
        parts.task,
        parts.reward,
        config.sampling,
        interact,
        agents,
        places=len(agents),
        team_metrics=score_metrics,
    )
    return PPOTrainer(
        config,
        parts.plan,
        agents,
        parts.task,
        parts.reward,
        parts.streams,
        interact=interact,
        actors=agents,
        assign_credit=CREDIT[config.credit] if config.collective_reward else own_score,
        estimate=estimator_of(config),
        learners=lambda iteration: agents,
        describe=describe,
        after_step=after_step,
        evaluate=evaluator,
        carried={**parts.carried, "roles": roles},
    )
