"""Single-agent PPO: the baseline (Ziegler et al., 2019; Ma et al., 3.1)."""

from cory.config import PPOConfig
from cory.functional.credit import own_score
from cory.rollout.scheduler import single_turn
from cory.trainers.components import Components
from cory.trainers.ppo import PPOTrainer


def build_ppo(config: PPOConfig, components: Components) -> PPOTrainer:
    """One agent that answers the query and is rewarded by its own score."""
    agents = components.new_policies(config.names())
    return PPOTrainer(components, agents, single_turn(*agents), own_score)
