"""Rules that span several groups of settings."""

from typing import Any

from cory.config import options
from cory.config.algorithm import ADAMW, ADAMW_8BIT, PPOConfig
from cory.config.checks import require
from cory.config.debate import DebateConfig, MaporlConfig
from cory.config.experiment import Config
from cory.config.game import GameConfig
from cory.config.hardware import BatchPlan, batch_plan
from cory.config.maft import MaftConfig
from cory.config.offline import OfflineConfig
from cory.config.reward import judges
from cory.config.supervised import SupervisedConfig, VerifierConfig


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
    algorithm, hardware, model = config.algorithm, config.hardware, config.model
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
    require(
        hardware.device != "cpu" or model.precision != "fp16",
        "model.precision=fp16 needs a GPU: hardware.device=cpu has no fast half precision",
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
    check_rollout_dropout(config)
    require(
        getattr(algorithm, "kl_loss", "k3") == "k3"
        or hardware.zero_stage < 3
        or model.sharing == "copies",
        "algorithm.kl_loss=full needs hardware.zero_stage of at most 2, or model.sharing=copies: "
        "the weights that policy and reference share are split",
    )
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
    evaluation = config.evaluation
    require(
        not evaluation.team or hasattr(algorithm, "agents"),
        f"evaluation.team=true needs several agents; algorithm={algorithm.name} has one",
    )
    require(
        max(evaluation.k) == 1 or config.task.has_answers,
        f"evaluation.k={evaluation.k} needs a task with answers; {without_answers(config)}",
    )


def check_rollout_dropout(config: Config) -> None:
    """Rules for dropout while sampling a roll-out."""
    if not (config.model.rollout_dropout or (config.partner and config.partner.rollout_dropout)):
        return
    require(
        isinstance(config.algorithm, PPOConfig),
        f"model.rollout_dropout=true needs an algorithm with roll-outs of PPO, not "
        f"algorithm={config.algorithm.name}",
    )
    for key in ("gradient_checkpointing", "cuda_graphs"):
        require(
            not getattr(config.hardware, key),
            f"model.rollout_dropout=true needs hardware.{key}=false",
        )


def without_answers(config: Config) -> str:
    """That a task has no answers, for refusals, and which setting would give it some."""
    task = config.task
    return f"task={task.name} has none" + (
        f": set {task.answers_from}" if task.answers_from else ""
    )


def products_of(config: Config) -> dict[str, str]:
    """The precision of matrix products of every language model of a run, by its setting."""
    groups = {"model": config.model, "partner": config.partner, **judges(config.reward)}
    return {
        f"{key}.compute_precision": group.compute_precision
        for key, group in groups.items()
        if hasattr(group, "compute_precision")
    }


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


def check_products(config: Config) -> None:
    """Rules for TF32, which a process has for all of its float32 products or for none."""
    chosen = products_of(config)
    rounded = [key for key, products in chosen.items() if products == "tf32"]
    exact = [key for key, products in chosen.items() if products == "fp32"]
    if not rounded:
        return
    require(
        config.hardware.device == "cuda",
        f"{rounded[0]}=tf32 needs a GPU: hardware.device=cpu computes float32 products exactly",
    )
    require(
        not exact,
        f"{rounded[0]}=tf32 holds for all float32 products of a process: set {''.join(exact[:1])}, "
        f"too, which is fp32",
    )


def check_game(config: Config) -> None:
    """Rules for games that span several groups."""
    task, algorithm, evaluation = config.task, config.algorithm, config.evaluation
    plays, judged = isinstance(algorithm, OfflineConfig), config.reward.name == "game_outcome"
    game = isinstance(task, GameConfig)
    if not (plays or judged or game):
        return
    for given, key, needed in (
        (game, f"task={task.name}", "task=taboo, twenty_questions or guess_my_city"),
        (plays, f"algorithm={algorithm.name}", "algorithm=imitation or spag"),
        (judged, f"reward={config.reward.name}", "reward=game_outcome"),
    ):
        require(
            given,
            f"{key}: games need {needed}, got task={task.name}, algorithm={algorithm.name} and "
            f"reward={config.reward.name}",
        )
    require(
        config.reward.broken_rules == "ignored" or options.game(task.game).one_wins,
        f"reward.broken_rules=lose needs opponents; in task.game={task.game} both win or lose",
    )
    sampling = algorithm.sampling
    require(
        sampling.min_response_tokens == sampling.max_response_tokens,
        f"games have one limit: algorithm.sampling.min_response_tokens "
        f"({sampling.min_response_tokens}) must equal max_response_tokens "
        f"({sampling.max_response_tokens})",
    )
    require(
        not evaluation.greedy and not evaluation.team and evaluation.k == [1],
        "games are evaluated by who wins: they take evaluation.greedy=false (see "
        "algorithm.test_greedy), evaluation.team=false and evaluation.k=[1]",
    )
    require(
        not algorithm.test_greedy or evaluation.samples == 1,
        f"algorithm.test_greedy=true: of {evaluation.samples} games about a word all would be the "
        f"same; evaluation.samples must be 1",
    )


def check_verifier(config: Config, algorithm: VerifierConfig) -> None:
    """Rules for the training of a verifier that span several groups."""
    evaluation = config.evaluation
    require(
        config.task.has_answers,
        f"algorithm=verifier needs a task with answers; {without_answers(config)}",
    )
    require(
        config.reward.name == "exact_match",
        f"algorithm=verifier labels answers as reward=exact_match does; "
        f"reward={config.reward.name} would play no part",
    )
    require(
        algorithm.max_tokens > config.task.max_prompt_tokens,
        f"algorithm.max_tokens ({algorithm.max_tokens}), of question and answer, must be above "
        f"task.max_prompt_tokens ({config.task.max_prompt_tokens})",
    )
    require(
        not algorithm.requests or config.model.chat,
        f"algorithm.requests=true needs model.chat=true: model={config.model.name} does not follow "
        f"requests",
    )
    require(
        not evaluation.greedy and not evaluation.probes and evaluation.k == [1],
        "algorithm=verifier is evaluated on evaluation.samples answers to each question: it takes "
        "evaluation.greedy=false, evaluation.probes=[] and evaluation.k=[1]",
    )


def check_maft(config: Config, algorithm: MaftConfig) -> None:
    """Rules for Multiagent Finetuning that span several groups."""
    evaluation, sampling = config.evaluation, algorithm.sampling
    require(
        config.task.has_answers,
        f"algorithm=maft takes votes on answers; {without_answers(config)}",
    )
    require(
        config.reward.name == "exact_match",
        f"algorithm=maft measures answers as reward=exact_match does; reward={config.reward.name} "
        f"would play no part",
    )
    require(
        evaluation.team and evaluation.samples == 1 and evaluation.k == [1],
        "algorithm=maft is evaluated by one debate about each problem: it takes "
        "evaluation.team=true, evaluation.samples=1 and evaluation.k=[1]",
    )
    require(
        algorithm.iterations == 0 or evaluation.split == "test",
        "evaluation.split=train with algorithm=maft would measure agents on the problems that they "
        "learn from; set evaluation.split=test",
    )
    require(
        not evaluation.greedy and not evaluation.probes,
        "algorithm=maft is evaluated by debates alone: it takes evaluation.greedy=false and "
        "evaluation.probes=[]",
    )
    require(
        sampling.min_response_tokens == sampling.max_response_tokens,
        f"these debates have one limit: algorithm.sampling.min_response_tokens "
        f"({sampling.min_response_tokens}) must equal max_response_tokens "
        f"({sampling.max_response_tokens})",
    )
    require(
        not algorithm.summary or config.model.chat or algorithm.endpoint is not None,
        f"algorithm.summary=true needs model.chat=true: model={config.model.name} does not follow "
        f"requests",
    )
    require(
        algorithm.start == "previous" or config.init_from is None or algorithm.iterations == 0,
        f"algorithm.start=base trains from the model as it came, and would forget "
        f"init_from={config.init_from}",
    )
    require(
        algorithm.endpoint is None or config.init_from is None,
        f"init_from={config.init_from}: with algorithm.endpoint no agent of a run speaks",
    )


def check_debate(config: Config, algorithm: DebateConfig) -> None:
    """Rules for debates that span several groups."""
    known = config.task.has_answers
    require(
        not isinstance(algorithm, MaporlConfig)
        or not algorithm.shapes
        or algorithm.bonus_from != "ground_truth"
        or known,
        f"algorithm.bonus_from=ground_truth needs a task with answers; {without_answers(config)}",
    )
    require(
        algorithm.consensus is None or known,
        f"algorithm.consensus needs answers that can be compared; {without_answers(config)}",
    )
    require(
        not config.evaluation.team or known,
        f"evaluation.team=true takes votes on answers; {without_answers(config)}",
    )
    models = [model for model in (config.model, config.partner) if model is not None]
    require(
        not algorithm.verifier_feedback or all(model.chat for model in models),
        "algorithm.verifier_feedback=true needs model.chat=true: the plain form of a debate has no "
        "place for it",
    )
    require(
        not algorithm.verifier_feedback or config.reward.name == "verifier",
        f"algorithm.verifier_feedback=true needs reward=verifier: reward={config.reward.name} "
        f"would tell debaters the answer",
    )
    if config.partner is not None:
        require(
            algorithm.param_sharing in ("per_agent", "per_turn_agent"),
            f"algorithm.param_sharing={algorithm.param_sharing} shares a policy between debaters; "
            f"with partner={config.partner.name} they have different models: per_agent or "
            f"per_turn_agent",
        )
        require(
            algorithm.agents > 1,
            f"partner={config.partner.name} needs algorithm.agents of at least 2, got "
            f"{algorithm.agents}",
        )
        require(
            config.partner.precision == config.model.precision,
            f"partner.precision={config.partner.precision} must be model.precision="
            f"{config.model.precision}",
        )
