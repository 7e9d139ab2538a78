"""Self-play of word games with offline updates (Cheng et al., 2024: SPAG).

Stage 1, `algorithm=imitation`: a policy imitates the winners of other players' games (eq. 8).
Stage 2, `algorithm=spag`: it plays both roles against a snapshot of itself, its state before the
first update on those games, and learns from the winners' utterances (Algorithm 2, eq. 12).
"""

from functools import partial
from pathlib import Path

from torch import Tensor

from cory.algorithms.spag_data import AGENT, GameCollector, Lesson, next_instructions
from cory.config import OfflineConfig, SpagConfig, require
from cory.evaluation.games import GameEvaluator
from cory.functional.credit import outcome_decay
from cory.functional.losses import OfflineLoss, kl_imitation_loss, self_play_loss
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.games import Opponents, form_of
from cory.seeding import EpochSampler
from cory.tasks.game import KEY, GameTask, load_instructions
from cory.trainers.components import Components
from cory.trainers.offline import ExampleLoss, OfflineTrainer


def build_imitation(config: OfflineConfig, components: Components) -> OfflineTrainer:
    """A policy that imitates the winners of games."""

    def loss(
        logprobs: Tensor, reference: Tensor, advantages: Tensor, *, kl_shares: Tensor
    ) -> OfflineLoss:
        # eq. 8 has 1 / T before the sum of log-probabilities: there the weight holds it for both
        return kl_imitation_loss(logprobs, reference, config.kl_coef, config.kl_estimator)

    whole = config.average == "game"
    lesson = Lesson(
        credit=lambda turns: [1.0] * turns,
        weight=lambda turns: 1 / turns if whole else 1.0,
    )
    return game_trainer(config, components, loss, lesson)


def build_spag(config: SpagConfig, components: Components) -> OfflineTrainer:
    """A policy that plays against itself and learns from the winners' utterances."""
    loss = partial(
        self_play_loss,
        kl_coef=config.kl_coef,
        estimator=config.kl_estimator,
        clip_range=config.clip_range,
        kl_in_advantage=config.kl_in_advantage,
    )
    whole = config.average == "game"
    lesson = Lesson(
        credit=partial(outcome_decay, decay=config.decay),
        kl_share=lambda turns: 1 / turns if whole else 1.0,
        threshold=config.threshold,
    )
    return game_trainer(config, components, loss, lesson)


def game_trainer(
    config: OfflineConfig, components: Components, loss: ExampleLoss, lesson: Lesson
) -> OfflineTrainer:
    """The trainer of either stage: a policy, those it plays against, and sets of games."""
    task, reward, bundle = components.task, components.reward, components.bundle
    assert isinstance(task, GameTask) and isinstance(reward, GameOutcome)
    others = {name: Path(folder) for name, folder in config.runs_played_against.items()}
    policy, frozen = components.new_player(AGENT, others)
    task.require_room(policy.texts.tokens, form_of(policy.texts))
    policy.texts.require_learnable()
    opponents = Opponents(config, task, policy, frozen, Path(components.config.run_dir))
    instructions, carried = None, {}
    if config.instructions.per_iteration > 0:
        longest, context = config.instructions.max_tokens, bundle.context_length
        require(
            longest <= context or config.iterations == 0,
            f"algorithm.instructions.max_tokens={longest} exceeds the context of "
            f"model={components.config.model.name} ({context} tokens)",
        )
        rows = load_instructions(config.instructions)
        source = EpochSampler(rows, components.streams.data, rows, KEY)
        instructions = partial(next_instructions, source, policy.texts, longest)
        carried["instructions"] = source
    collector = GameCollector(config, components, task, reward, policy, opponents, lesson)
    return OfflineTrainer(
        components,
        policy,
        collector,
        instructions,
        loss,
        GameEvaluator(config, policy, task, reward, opponents, collector.fits),
        carried,
    )
