"""Rules that span several groups of settings: the key whose value breaks one, and the rule."""

from collections.abc import Iterator

from cory.config import options
from cory.config.algorithm import ADAMW, ADAMW_8BIT, PPOConfig
from cory.config.base import Conflict, value_at
from cory.config.debate import DebateConfig, MaporlConfig
from cory.config.errors import ConfigError, line
from cory.config.experiment import Config
from cory.config.game import GameConfig
from cory.config.hardware import BatchPlan, batch_plan
from cory.config.maft import MaftConfig
from cory.config.offline import OfflineConfig
from cory.config.reward import beyond_shares, judges
from cory.config.supervised import SupervisedConfig, VerifierConfig

# what a fidelity says anything of, where conf/released has a file for each algorithm
STAGES = {"official_spag": ("imitation", "spag"), "official_maporl": ("maporl", "verifier")}
EVALUATION_OF_GAMES = {"greedy": False, "team": False, "k": [1]}
EVALUATION_OF_A_VERIFIER = {"greedy": False, "probes": [], "k": [1]}
EVALUATION_OF_MAFT = {"team": True, "samples": 1, "k": [1], "greedy": False, "probes": []}
Conflicts = Iterator[Conflict]


def refusals_together(config: Config) -> Iterator[str]:
    """A line for every rule that is broken; a group of settings has its option as its value."""
    for key, rule in conflicts(config):
        value = value_at(config, key)
        yield line(key, getattr(value, "name", value), rule)
    try:
        plan_of(config)
    except ConfigError as error:
        yield str(error)


def conflicts(config: Config) -> Conflicts:
    """The rules between groups that are broken."""
    algorithm = config.algorithm
    stages = STAGES.get(config.fidelity, (algorithm.name,))
    if algorithm.name not in stages:
        yield "fidelity", f"needs algorithm={' or '.join(stages)}, got {algorithm.name}"
    yield from of_batches(config)
    yield from of_devices(config)
    yield from of_products(config)
    yield from of_dropout(config)
    yield from of_judges(config)
    yield from of_games(config)
    if isinstance(algorithm, VerifierConfig):
        yield from of_verifiers(config, algorithm)
    if isinstance(algorithm, MaftConfig):
        yield from of_maft(config, algorithm)
    if isinstance(algorithm, DebateConfig):
        yield from of_debates(config, algorithm)
    elif config.partner is not None:
        yield "partner", f"needs algorithm=maporl or sft, got {algorithm.name}"
    yield from of_evaluation(config)


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


def products_of(config: Config) -> dict[str, str]:
    """The precision of matrix products of every language model of a run, by its setting."""
    groups = {**config.models, **judges(config.reward)}
    return {
        f"{key}.compute_precision": group.compute_precision
        for key, group in groups.items()
        if hasattr(group, "compute_precision")
    }


def needs_answers(config: Config, key: str) -> Conflicts:
    """A setting that asks for a task whose prompts have answers."""
    task = config.task
    if not task.has_answers:
        way = f": set {task.answers_from}" if task.answers_from else ""
        yield key, f"needs a task with answers; task={task.name} has none{way}"


def needs_evaluation(config: Config, needed: dict[str, object]) -> Conflicts:
    """Settings of `evaluation` that an algorithm takes no others of."""
    for key, value in needed.items():
        if getattr(config.evaluation, key) != value:
            wanted = str(value).lower()
            yield f"evaluation.{key}", f"must be {wanted} with algorithm={config.algorithm.name}"


def needs_one_limit(config: Config) -> Conflicts:
    """Games and debates of MAFT draw no limit for each iteration."""
    sampling = config.algorithm.sampling
    if sampling.min_response_tokens != sampling.max_response_tokens:
        most = sampling.max_response_tokens
        yield (
            "algorithm.sampling.min_response_tokens",
            f"must equal max_response_tokens={most} with algorithm={config.algorithm.name}",
        )


def of_batches(config: Config) -> Conflicts:
    """How much an iteration has, and how processes share it."""
    algorithm, hardware = config.algorithm, config.hardware
    prompts = algorithm.prompts_per_iteration
    if prompts < hardware.world:
        yield (
            "hardware.processes",
            f"{hardware.world} processes are more than algorithm.prompts_per_iteration={prompts}",
        )
    if not isinstance(algorithm, PPOConfig):
        return
    if algorithm.whiten_advantages and prompts * algorithm.sampling.max_response_tokens == 1:
        yield (
            "algorithm.whiten_advantages",
            "needs at least two tokens in an iteration: algorithm.prompts_per_iteration times "
            "algorithm.sampling.max_response_tokens is 1",
        )
    together = hardware.microbatch_size * hardware.world
    if algorithm.max_mean_ratio is not None and together < algorithm.minibatch_size:
        yield (
            "algorithm.max_mean_ratio",
            f"needs whole minibatches: hardware.microbatch_size times the number of processes "
            f"({together}) must be at least algorithm.minibatch_size={algorithm.minibatch_size}",
        )
    turns = algorithm.turns_per_policy()
    # a step lowers the coefficient by up to 0.2 of these turns in kl_horizon; at most by all of it
    if algorithm.kl_controller == "adaptive" and algorithm.kl_horizon * 5 <= turns:
        yield (
            "algorithm.kl_horizon",
            f"must be above a fifth of the {turns} turns that a policy learns from in an "
            f"iteration: algorithm.kl_controller=adaptive would turn algorithm.kl_coef negative",
        )


def of_devices(config: Config) -> Conflicts:
    """What a device, or a way to split models, cannot do."""
    algorithm, hardware, model = config.algorithm, config.hardware, config.model
    if model.precision == "fp16" and hardware.device == "cpu":
        yield "model.precision", "needs a GPU: hardware.device=cpu has no fast half precision"
    # DeepSpeed 0.19 at stage 0 divides gradients in fp16 by a scale that it did not multiply the
    # loss with: small ones vanish, and Adam's eps slows the others down
    if model.precision == "fp16" and hardware.zero_stage == 0:
        yield (
            "model.precision",
            "needs hardware.zero_stage=1 or more: at 0 DeepSpeed divides gradients by a scale "
            "that it has not applied",
        )
    if algorithm.optimizer == ADAMW_8BIT and hardware.device != "cuda":
        yield "algorithm.optimizer", f"needs a GPU: must be {ADAMW} with hardware.device=cpu"
    if algorithm.optimizer == ADAMW_8BIT and hardware.offload_optimizer:
        yield (
            "algorithm.optimizer",
            "steps on the GPU: it needs hardware.offload_optimizer=false",
        )
    if hardware.routed_reference and model.sharing == "copies":
        yield (
            "hardware.routed_reference",
            "needs model.sharing=adapters: a copy and its reference are two models",
        )
    for key, own in config.models.items():
        split = hardware.zero_stage == 3 and own.sharing != "copies"
        if split and isinstance(algorithm, PPOConfig) and algorithm.kl_loss == "full":
            yield (
                "algorithm.kl_loss",
                f"needs hardware.zero_stage of at most 2, or {key}.sharing=copies: the weights "
                f"that policy and reference share are split",
            )


def of_products(config: Config) -> Conflicts:
    """TF32, which a process has for all of its float32 products or for none."""
    products = products_of(config)
    rounded = [key for key, chosen in products.items() if chosen == "tf32"]
    for key in rounded:
        if config.hardware.device == "cpu":
            yield key, "needs a GPU: hardware.device=cpu computes float32 products exactly"
    for key, chosen in products.items():
        if rounded and chosen == "fp32":
            yield key, f"must be tf32, as {rounded[0]}: it holds for all products of a process"


def of_dropout(config: Config) -> Conflicts:
    """Dropout while updating, and while sampling a roll-out."""
    algorithm = config.algorithm
    for group, model in config.models.items():
        for key, on in (("dropout", model.dropout), ("value_dropout", model.value_dropout > 0)):
            if on and not isinstance(algorithm, SupervisedConfig):
                yield (
                    f"{group}.{key}",
                    f"needs an algorithm whose updates compare with no earlier pass: with "
                    f"algorithm={algorithm.name} the ratio would not begin at 1",
                )
        if not model.rollout_dropout:
            continue
        key = f"{group}.rollout_dropout"
        if not isinstance(algorithm, PPOConfig):
            yield key, f"needs an algorithm with roll-outs of PPO, got {algorithm.name}"
        for name in ("gradient_checkpointing", "cuda_graphs"):
            if getattr(config.hardware, name):
                yield key, f"needs hardware.{name}=false"


def of_judges(config: Config) -> Conflicts:
    """A reward, or the parts of a sum."""
    for key, judge in judges(config.reward).items():
        if judge.name == "exact_match" or getattr(judge, "needs_answers", False):
            yield from needs_answers(config, key)
        if getattr(judge, "precision", None) == "fp16" and config.hardware.device == "cpu":
            yield (
                f"{key}.precision",
                "needs a GPU: hardware.device=cpu has no fast half precision",
            )


def of_games(config: Config) -> Conflicts:
    """Games: a task, an algorithm and a reward that belong together."""
    task, algorithm, evaluation = config.task, config.algorithm, config.evaluation
    needed = {
        "task": (isinstance(task, GameConfig), "taboo, twenty_questions or guess_my_city"),
        "algorithm": (isinstance(algorithm, OfflineConfig), "imitation or spag"),
        "reward": (config.reward.name == "game_outcome", "game_outcome"),
    }
    present = [f"{key}={getattr(config, key).name}" for key, (has, _) in needed.items() if has]
    if not present:
        return
    for key, (has, names) in needed.items():
        if not has:
            yield key, f"must be {names} for games, as with {' and '.join(present)}"
    if len(present) < len(needed):
        return
    if config.reward.broken_rules == "lose" and not options.game(task.game).one_wins:
        yield "reward.broken_rules", f"needs opponents: in task.game={task.game} both win or lose"
    yield from needs_one_limit(config)
    yield from needs_evaluation(config, EVALUATION_OF_GAMES)
    if algorithm.test_greedy and evaluation.samples > 1:
        yield (
            "evaluation.samples",
            "must be 1 with algorithm.test_greedy=true: all games about a word would be the same",
        )


def of_verifiers(config: Config, algorithm: VerifierConfig) -> Conflicts:
    """The training of a verifier."""
    yield from needs_answers(config, "algorithm")
    if config.reward.name != "exact_match":
        yield "reward", "must be exact_match with algorithm=verifier, which labels answers so"
    longest = config.task.max_prompt_tokens
    if algorithm.max_tokens <= longest:
        yield (
            "algorithm.max_tokens",
            f"of question and answer, must be above task.max_prompt_tokens={longest}",
        )
    if algorithm.requests and not config.model.chat:
        yield "algorithm.requests", "needs model.chat=true: other models do not follow requests"
    yield from needs_evaluation(config, EVALUATION_OF_A_VERIFIER)


def of_maft(config: Config, algorithm: MaftConfig) -> Conflicts:
    """Multiagent Finetuning."""
    yield from needs_answers(config, "algorithm")
    if config.reward.name != "exact_match":
        yield "reward", "must be exact_match with algorithm=maft, which measures answers so"
    yield from needs_evaluation(config, EVALUATION_OF_MAFT)
    trains = algorithm.iterations > 0
    if trains and config.evaluation.split != "test":
        yield "evaluation.split", "must be test with algorithm=maft, which learns from the others"
    yield from needs_one_limit(config)
    chats = config.model.chat or algorithm.endpoint is not None
    if algorithm.summary and not chats:
        yield "algorithm.summary", "needs model.chat=true: other models do not follow requests"
    if algorithm.prompts.chats_only and not chats:
        yield (
            "algorithm.prompts.chats_only",
            "needs model.chat=true: other models are shown none of these prompts",
        )
    if config.init_from is None:
        return
    if algorithm.start == "base" and trains:
        yield "init_from", "would be forgotten: algorithm.start=base trains the model as it came"
    if algorithm.endpoint is not None:
        yield "init_from", "plays no part: with algorithm.endpoint no agent of a run speaks"


def of_debates(config: Config, algorithm: DebateConfig) -> Conflicts:
    """Debates: incentives, votes, feedback, and a second model."""
    shaped = isinstance(algorithm, MaporlConfig) and algorithm.shapes
    right_by = algorithm.bonus_from if shaped and isinstance(algorithm, MaporlConfig) else None
    if right_by == "ground_truth":
        yield from needs_answers(config, "algorithm.bonus_from")
    beyond = beyond_shares(config.reward)
    if right_by == "verifier" and beyond is not None:
        yield (
            "algorithm.bonus_from",
            f"counts scores above 0.5 as right: it needs scores from 0 to 1, as reward=verifier "
            f"and exact_match have, got {beyond}",
        )
    if algorithm.consensus is not None:
        yield from needs_answers(config, "algorithm.consensus")
    if config.evaluation.team:
        yield from needs_answers(config, "evaluation.team")
    if algorithm.verifier_feedback:
        key = "algorithm.verifier_feedback"
        for group, model in config.models.items():
            if not model.chat:
                yield (
                    key,
                    f"needs {group}.chat=true: the plain form of a debate has no place for it",
                )
        if config.reward.name != "verifier":
            yield key, "needs reward=verifier: another one would tell debaters the answer"
    if config.partner is None:
        return
    if algorithm.param_sharing not in ("per_agent", "per_turn_agent"):
        yield (
            "algorithm.param_sharing",
            "must be per_agent or per_turn_agent with a partner: debaters have different models",
        )
    if algorithm.agents == 1:
        yield "algorithm.agents", "must be at least 2 with a partner"
    if config.partner.precision != config.model.precision:
        yield "partner.precision", f"must be model.precision={config.model.precision}"


def of_evaluation(config: Config) -> Conflicts:
    """What can be measured of agents and tasks."""
    algorithm, evaluation = config.algorithm, config.evaluation
    if evaluation.team and not hasattr(algorithm, "agents") and algorithm.policy_count() == 1:
        yield "evaluation.team", f"needs several agents; algorithm={algorithm.name} has one"
    if max(evaluation.k) > 1:
        yield from needs_answers(config, "evaluation.k")
