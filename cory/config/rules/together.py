"""Rules that span several groups of settings."""

from typing import Any

from cory.config.algorithm import ADAMW, ADAMW_8BIT, PPOConfig
from cory.config.checks import require
from cory.config.debate import DebateConfig
from cory.config.experiment import Config
from cory.config.hardware import BatchPlan, batch_plan
from cory.config.maft import MaftConfig
from cory.config.offline import OfflineConfig
from cory.config.reward import judges
from cory.config.rules.methods import (
    check_debate,
    check_game,
    check_maft,
    check_verifier,
    without_answers,
)
from cory.config.rules.models import check_dropout, check_products
from cory.config.supervised import SupervisedConfig, VerifierConfig

# what a fidelity says anything of, where conf/released has a file for each algorithm
STAGES = {"official_spag": ("imitation", "spag"), "official_maporl": ("maporl", "verifier")}


def plan_of(config: Config) -> BatchPlan:
    """The batch plan of a run; ConfigError where a division leaves a remainder."""
    algorithm, hardware = config.algorithm, config.hardware
    return batch_plan(
        algorithm.prompts_per_iteration,
        algorithm.turns_per_policy(),
        algorithm.minibatch_size,
        hardware.microbatch_size,
        hardware.world,
        fills=isinstance(algorithm, SupervisedConfig),
    )


def check_together(config: Config) -> None:
    """Rules that span several groups."""
    algorithm = config.algorithm
    stages = STAGES.get(config.fidelity, (algorithm.name,))
    require(
        algorithm.name in stages,
        f"fidelity={config.fidelity} needs algorithm={' or '.join(stages)}, got {algorithm.name}",
    )
    check_batches(config)
    check_hardware(config)
    check_dropout(config)
    for key, judge in judges(config.reward).items():
        check_judge(config, key, judge)
    check_game(config)
    if isinstance(algorithm, VerifierConfig):
        check_verifier(config, algorithm)
    if isinstance(algorithm, MaftConfig):
        check_maft(config, algorithm)
    if isinstance(algorithm, DebateConfig):
        check_debate(config, algorithm)
    else:
        require(
            config.partner is None,
            f"partner needs algorithm=maporl or sft; algorithm={algorithm.name} has one model",
        )
    check_evaluation(config)


def check_batches(config: Config) -> None:
    """Rules for how much an iteration has, and how processes share it."""
    algorithm, hardware = config.algorithm, config.hardware
    require(
        algorithm.prompts_per_iteration >= hardware.world,
        f"hardware: {hardware.world} processes are more than "
        f"algorithm.prompts_per_iteration ({algorithm.prompts_per_iteration})",
    )
    plan_of(config)
    whitens = getattr(algorithm, "whiten_advantages", False)
    tokens = algorithm.prompts_per_iteration * algorithm.sampling.max_response_tokens
    require(
        not whitens or tokens > 1,
        "algorithm.whiten_advantages=true needs at least two tokens in an iteration: "
        "algorithm.prompts_per_iteration times algorithm.sampling.max_response_tokens is 1",
    )
    require(
        isinstance(algorithm, SupervisedConfig | OfflineConfig)
        or algorithm.max_mean_ratio is None
        or hardware.microbatch_size * hardware.world >= algorithm.minibatch_size,
        f"algorithm.max_mean_ratio needs whole minibatches: hardware.microbatch_size "
        f"({hardware.microbatch_size}) times the number of processes ({hardware.world}) must be "
        f"at least algorithm.minibatch_size ({algorithm.minibatch_size})",
    )
    adapts = isinstance(algorithm, PPOConfig) and algorithm.kl_controller == "adaptive"
    turns = algorithm.turns_per_policy()
    # a step lowers the coefficient by up to 0.2 of these turns in kl_horizon; at most by all of it
    require(
        not adapts or algorithm.kl_horizon * 5 > turns,
        f"algorithm.kl_controller=adaptive would turn algorithm.kl_coef negative: "
        f"algorithm.kl_horizon must be above a fifth of the {turns} turns that a policy learns "
        f"from in an iteration, got {getattr(algorithm, 'kl_horizon', None)}",
    )


def check_hardware(config: Config) -> None:
    """Rules for what a device, or a way to split models, cannot do."""
    algorithm, hardware, model = config.algorithm, config.hardware, config.model
    require(
        hardware.device != "cpu" or model.precision != "fp16",
        "model.precision=fp16 needs a GPU: hardware.device=cpu has no fast half precision",
    )
    # DeepSpeed 0.19 at stage 0 divides gradients in fp16 by a scale that it did not multiply the
    # loss with: small ones vanish, and Adam's eps slows the others down
    require(
        model.precision != "fp16" or hardware.zero_stage > 0,
        "model.precision=fp16 needs hardware.zero_stage=1 or more: at 0 DeepSpeed divides "
        "gradients by a scale that it has not applied",
    )
    check_products(config)
    require(
        algorithm.optimizer != ADAMW_8BIT or hardware.device == "cuda",
        f"algorithm.optimizer={algorithm.optimizer} needs a GPU: with hardware.device=cpu it must "
        f"be {ADAMW}",
    )
    require(
        algorithm.optimizer != ADAMW_8BIT or not hardware.offload_optimizer,
        f"algorithm.optimizer={algorithm.optimizer} steps on the GPU: it needs "
        f"hardware.offload_optimizer=false",
    )
    require(
        not hardware.routed_reference or model.sharing != "copies",
        "hardware.routed_reference=true needs model.sharing=adapters: "
        "a copy and its reference are two models",
    )
    for key, own in config.models.items():
        require(
            getattr(algorithm, "kl_loss", "k3") == "k3"
            or hardware.zero_stage < 3
            or own.sharing == "copies",
            f"algorithm.kl_loss=full needs hardware.zero_stage of at most 2, or {key}.sharing="
            f"copies: the weights that policy and reference share are split",
        )


def check_evaluation(config: Config) -> None:
    """Rules for what can be measured of agents and tasks."""
    algorithm, evaluation = config.algorithm, config.evaluation
    require(
        not evaluation.team or hasattr(algorithm, "agents") or algorithm.policy_count() > 1,
        f"evaluation.team=true needs several agents; algorithm={algorithm.name} has one",
    )
    require(
        max(evaluation.k) == 1 or config.task.has_answers,
        f"evaluation.k={evaluation.k} needs a task with answers; {without_answers(config)}",
    )


def check_judge(config: Config, key: str, judge: Any) -> None:
    """Rules for a reward, or a part of a sum, that span several groups.

    key: its group of settings
    """
    said = f"{key}=" if key == "reward" else f"{key}.name="
    needs_answers = judge.name == "exact_match" or getattr(judge, "needs_answers", False)
    require(
        not needs_answers or config.task.has_answers,
        f"{said}{judge.name} needs a task with answers; {without_answers(config)}",
    )
    precision = getattr(judge, "precision", None)
    require(
        config.hardware.device != "cpu" or precision != "fp16",
        f"{key}.precision=fp16 needs a GPU: hardware.device=cpu has no fast half precision",
    )
