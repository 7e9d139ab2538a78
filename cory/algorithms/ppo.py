"""Single-agent PPO: the baseline (Ziegler et al., 2019; Ma et al., 3.1)."""

from cory.algorithms.parts import Parts, numbered
from cory.config import PPOConfig
from cory.evaluation.evaluate import TeamEvaluator
from cory.evaluation.response_scores import score_metrics
from cory.functional.credit import own_score
from cory.rollout.scheduler import single_turn
from cory.trainers.ppo import PPOTrainer, estimator_of


def build_ppo(config: PPOConfig, parts: Parts) -> PPOTrainer:
    """One agent that answers the query and is rewarded by its own score."""
    agents = parts.new_ppo_policies(numbered(1))
    play = single_turn(next(iter(agents)))
    evaluator = TeamEvaluator(
        agents,
        parts.task,
        parts.reward,
        config.sampling,
        play,
        agents,
        team_metrics=score_metrics,
    )
    return PPOTrainer(
        config,
        parts.plan,
        agents,
        parts.task,
        parts.reward,
        parts.streams,
        play=play,
        actors=agents,
        assign_credit=own_score,
        estimate=estimator_of(config),
        evaluate=evaluator,
        carried=parts.carried,
    )
