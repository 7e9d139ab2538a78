"""Rules that span several groups of settings: the key whose value breaks one, and the rule."""

from collections.abc import Iterator

from cory.config import options
from cory.config.algorithm import PPOConfig
from cory.config.base import Conflict, unmet_needs, value_at
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
# what settings of one group need of others', as `Settings.needs`
NEEDS = {
    "hardware.routed_reference": "model.sharing=adapters|adapter_copies",  # a copy has its own
    # processors have no fast half precision; at ZeRO 0 DeepSpeed 0.19 divides gradients in fp16 by
    # a scale that it did not multiply the loss with: small ones vanish, Adam's eps slows the others
    "model.precision=fp16": "hardware.device=cuda hardware.zero_stage=1|2|3",
    "algorithm.optimizer=adamw_8bit": "hardware.device=cuda hardware.offload_optimizer=false",
    "model.rollout_dropout": "hardware.gradient_checkpointing=false hardware.cuda_graphs=false",
    "partner.rollout_dropout": "hardware.gradient_checkpointing=false hardware.cuda_graphs=false",
}
# ... and those that belong to a method, in runs of it
NEEDS_OF_GAMES = {
    "algorithm": "evaluation.greedy=false evaluation.team=false evaluation.k=[1]",
    "algorithm.test_greedy": "evaluation.samples=1",  # all games about a word would be the same
}
NEEDS_OF_VERIFIERS = {
    "algorithm": "reward=exact_match evaluation.greedy=false evaluation.probes=[] evaluation.k=[1]",
    "algorithm.requests": "model.chat=true",  # other models do not follow requests
}
NEEDS_OF_MAFT = {
    "algorithm": "reward=exact_match evaluation.team=true evaluation.samples=1 evaluation.k=[1] "
    "evaluation.greedy=false evaluation.probes=[]",
}
NEEDS_OF_DEBATES = {
    # the plain form of a debate has no place for it; other rewards would tell debaters the answer
    "algorithm.verifier_feedback": "model.chat=true partner.chat=true reward=verifier",
    "partner": "algorithm.param_sharing=per_agent|per_turn_agent",  # debaters' models differ
}
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
    yield from unmet_needs(config, NEEDS)
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


def needs_one_limit(config: Config) -> Conflicts:
    """Games and debates of MAFT draw no limit for each iteration."""
    sampling = config.algorithm.sampling
    if sampling.min_response_tokens != sampling.max_response_tokens:
        most = sampling.max_response_tokens
        rule = f"must equal max_response_tokens={most} with algorithm={config.algorithm.name}"
        yield "algorithm.sampling.min_response_tokens", rule


def of_batches(config: Config) -> Conflicts:
    """How much an iteration has, and how processes share it."""
    algorithm, hardware = config.algorithm, config.hardware
    prompts = algorithm.prompts_per_iteration
    if prompts < hardware.world:
        rule = f"{hardware.world} processes are more than algorithm.prompts_per_iteration={prompts}"
        yield "hardware.processes", rule
    if not isinstance(algorithm, PPOConfig):
        return
    if algorithm.whiten_advantages and prompts * algorithm.sampling.max_response_tokens == 1:
        yield "algorithm.whiten_advantages", "needs at least two tokens in an iteration"
    together = hardware.microbatch_size * hardware.world
    if algorithm.max_mean_ratio is not None and together < algorithm.minibatch_size:
        rule = f"needs whole minibatches: hardware.microbatch_size times processes, {together}, is"
        yield "algorithm.max_mean_ratio", f"{rule} below {algorithm.minibatch_size} turns"
    turns = algorithm.turns_per_policy()
    # a step lowers the coefficient by up to 0.2 of these turns in kl_horizon; at most by all of it
    if algorithm.kl_controller == "adaptive" and algorithm.kl_horizon * 5 <= turns:
        rule = f"must be above a fifth of the {turns} turns of a policy in an iteration"
        yield "algorithm.kl_horizon", f"{rule}, or algorithm.kl_coef would turn negative"


def of_devices(config: Config) -> Conflicts:
    """What a device, or a way to split models, cannot do."""
    algorithm, hardware = config.algorithm, config.hardware
    for key, own in config.models.items():
        split = hardware.zero_stage == 3 and own.sharing != "copies"
        if split and isinstance(algorithm, PPOConfig) and algorithm.kl_loss == "full":
            rule = f"needs hardware.zero_stage of at most 2, or {key}.sharing=copies"
            yield "algorithm.kl_loss", f"{rule}: shared weights are split"


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
                rule = "needs an algorithm whose updates compare with no earlier pass"
                yield f"{group}.{key}", f"{rule}, got {algorithm.name}"
        if model.rollout_dropout and not isinstance(algorithm, PPOConfig):
            rule = f"needs an algorithm with roll-outs of PPO, got {algorithm.name}"
            yield f"{group}.rollout_dropout", rule


def of_judges(config: Config) -> Conflicts:
    """A reward, or the parts of a sum."""
    for key, judge in judges(config.reward).items():
        if judge.name == "exact_match" or getattr(judge, "needs_answers", False):
            yield from needs_answers(config, key)
        yield from unmet_needs(config, {f"{key}.precision=fp16": "hardware.device=cuda"})


def of_games(config: Config) -> Conflicts:
    """Games: a task, an algorithm and a reward that belong together."""
    task, algorithm = config.task, config.algorithm
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
    yield from unmet_needs(config, NEEDS_OF_GAMES)


def of_verifiers(config: Config, algorithm: VerifierConfig) -> Conflicts:
    """The training of a verifier."""
    yield from needs_answers(config, "algorithm")
    yield from unmet_needs(config, NEEDS_OF_VERIFIERS)
    longest = config.task.max_prompt_tokens
    if algorithm.max_tokens <= longest:
        rule = f"of question and answer, must be above task.max_prompt_tokens={longest}"
        yield "algorithm.max_tokens", rule


def of_maft(config: Config, algorithm: MaftConfig) -> Conflicts:
    """Multiagent Finetuning."""
    yield from needs_answers(config, "algorithm")
    yield from unmet_needs(config, NEEDS_OF_MAFT)
    trains = algorithm.iterations > 0
    if trains and config.evaluation.split != "test":
        yield "evaluation.split", "must be test with algorithm=maft, which learns from the others"
    yield from needs_one_limit(config)
    chats = config.model.chat or algorithm.endpoint is not None
    if algorithm.summary and not chats:
        yield "algorithm.summary", "needs model.chat=true: others do not follow requests"
    if algorithm.prompts.chats_only and not chats:
        yield "algorithm.prompts.chats_only", "needs model.chat=true: others see none of these"
    if config.init_from is not None and algorithm.start == "base" and trains:
        yield "init_from", "would be forgotten: algorithm.start=base trains the model as it came"
    if config.init_from is not None and algorithm.endpoint is not None:
        yield "init_from", "plays no part: with algorithm.endpoint no agent of a run speaks"


def of_debates(config: Config, algorithm: DebateConfig) -> Conflicts:
    """Debates: incentives, votes, feedback, and a second model."""
    shaped = algorithm if isinstance(algorithm, MaporlConfig) and algorithm.shapes else None
    right_by = shaped and shaped.bonus_from
    if right_by == "ground_truth":
        yield from needs_answers(config, "algorithm.bonus_from")
    beyond = beyond_shares(config.reward)
    if right_by == "verifier" and beyond is not None:
        rule = "counts scores above 0.5 as right: it needs scores from 0 to 1"
        yield "algorithm.bonus_from", f"{rule}, got {beyond}"
    if algorithm.consensus is not None:
        yield from needs_answers(config, "algorithm.consensus")
    if config.evaluation.team:
        yield from needs_answers(config, "evaluation.team")
    yield from unmet_needs(config, NEEDS_OF_DEBATES)
    if config.partner is None:
        return
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
