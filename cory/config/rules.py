"""From composed YAML to checked settings; and the rules that span several groups of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError

from cory.config.algorithm import PPOConfig, SupervisedConfig, TeamConfig
from cory.config.base import (
    ConfigError,
    Conflicts,
    Settings,
    fields_of,
    line,
    lines_of,
    plain,
    require,
    typed,
)
from cory.config.debate import DebateConfig, MaftConfig, SFTConfig, VerifierConfig
from cory.config.experiment import Config, option
from cory.config.members import complete_models, of_members, with_members
from cory.config.offline import OfflineConfig
from cory.config.task import GameConfig, judges

# What settings need of others: `key=value|value`, or `key`: any value but null, 0, and false. It is
# said of runs that have both settings.
NEEDS = {
    "algorithm.final_share": "algorithm.schedule=linear|cosine",  # a constant rate ends as it is
    "algorithm.value_learning_rate": "algorithm.advantages=gae",  # nothing else has a value head
    "algorithm.critic=central": "algorithm.advantages=gae",
    "algorithm.group_baseline": "algorithm.advantages=batch",  # others have their own baseline
    "algorithm.groups=agent|prompt|episode": "algorithm.advantages=group|leave_one_out",
    # others' turns are compared by their credits alone: a penalty, or a scale, is of one agent
    "algorithm.groups=prompt|episode": "algorithm.kl_in=loss algorithm.score_scaling=none "
    "algorithm.score_clip=null",
    "algorithm.groups=episode": "algorithm.credit=all|sum|mean algorithm.collective_reward=true "
    "algorithm.overlong=none|mask",  # an episode's turns are to have one credit
    "algorithm.overlong=penalty": "algorithm.overlong_buffer",
    "algorithm.overlong_buffer": "algorithm.overlong=penalty",
    "algorithm.resample_equal_groups": "algorithm.advantages=group|leave_one_out",
    "algorithm.ratio=response|gspo": "algorithm.loss_average=responses",  # one loss of each
    "algorithm.loss_average_turns": "algorithm.loss_average=tokens",
    "algorithm.kl_loss=k3_corrected|full": "algorithm.kl_in=loss",
    "algorithm.collective_reward=false": "algorithm.credit=all",  # others share it out
    "algorithm.requests": "algorithm.balance=true model.chat=true",
    "algorithm.select=correct": "algorithm.agents=1 algorithm.turns=1 algorithm.labels=vote",
    "algorithm.diversity.kl_to_base": "algorithm.diversity.scorer algorithm.endpoint=null",
    "algorithm.diversity.nll_others": "algorithm.endpoint=null",  # its model has no weights here
    "algorithm.kl_in_advantage": "algorithm.kl_estimator=weighted",  # it is the weighted estimate
    "export_examples": "algorithm=maft|sft|debate_sft|verifier|imitation|spag",  # others have none
    "algorithm.instructions.source=hub|path": "algorithm.instructions.path",
    "task.source=path|hub": "task.path",
    "task.source=generated": "task.kinds task.train_problems task.test_problems",
    "task.source=list": "task.words",
    "task.programs": "task.source=path|hub",
    "task.only": "task.only_column task.source=path|hub task.programs=null",
    "task.test_split=null": "task.held_out_share",  # there would be nothing to evaluate on
    "task.held_out_share": "task.test_split=null",  # both name the test prompts
    # the choice of a group, which another word may have changed
    "adapter=full": "model.sharing=copies",
    "adapter=lora": "model.sharing=adapters model.quantisation=none",
    "adapter=lora_4bit": "model.sharing=adapters model.quantisation=nf4",
    # what is said of `model` holds for those of `members`, too
    "model.quantisation=nf4": "model.sharing=adapters",  # weights in 4 bits are not trained
    "model.special_tokens_in_text": "model.chat=false",  # in a chat they end turns
    "model.reference=init_from": "init_from",
    "model.rollout_dropout": "model.sharing=copies hardware.gradient_checkpointing=false "
    "hardware.cuda_graphs=false|null",
    "hardware.server.gpus": "hardware.device=cuda",
    "hardware.sampler=vllm": "model.rollout_dropout=false",  # a server has none
    "algorithm.optimizer=adamw_8bit": "hardware.device=cuda hardware.offload_optimizer=false",
    "hardware.offload_optimizer": "hardware.zero_stage=1|2|3",
    "hardware.offload_parameters": "hardware.zero_stage=3 hardware.offload_optimizer=true",
    # conf/released has a file for each algorithm that these say anything of
    "fidelity=official_spag": "algorithm=imitation|spag",
    "fidelity=official_maporl": "algorithm=maporl|verifier",
    "evaluation.probes_of_team": "algorithm=cory|team|maporl",
    "algorithm=imitation|spag": "evaluation.greedy=false evaluation.team=false evaluation.k=[1]",
    "algorithm.test_greedy": "evaluation.samples=1",  # all games about a word would be the same
    "algorithm=verifier": "reward=exact_match evaluation.greedy=false evaluation.probes=[] "
    "evaluation.k=[1]",
    "algorithm.labels=vote|answer": "reward=exact_match",
    "algorithm=maft": "evaluation.team=true evaluation.samples=1 "
    "evaluation.k=[1] evaluation.greedy=false evaluation.probes=[] "
    "evaluation.split=test",  # it learns from the others
    # the plain form of a debate has no place for it; other rewards would tell debaters the answer
    "algorithm.verifier_feedback": "model.chat=true reward=verifier",
}


def value_at(settings: Any, key: str) -> Any:
    """The value of a setting by its dotted name; AttributeError: there is none."""
    for name in key.split("."):
        settings = settings[name] if isinstance(settings, dict) else getattr(settings, name)
    return settings


def holds(config: Config, word: str) -> bool | None:
    """Whether a word of NEEDS is true of a run; None: the run has no such setting."""
    key, equals, values = word.partition("=")
    try:
        value = value_at(config, key)
    except AttributeError:
        return None
    return typed(value) in values.split("|") if equals else bool(value)


def of_needs(config: Config) -> Conflicts:
    """Settings that need others which are not as they must be."""
    needs = dict.fromkeys(
        (word.replace("model.", f"{group}."), other.replace("model.", f"{group}."))
        for group in config.models
        for word, needed in NEEDS.items()
        for other in needed.split()
    )
    for word, other in needs:
        if holds(config, word) and holds(config, other) is False:
            name, _, values = other.partition("=")
            wanted = f"{name}={values.replace('|', ' or ')}" if values else name
            yield word.partition("=")[0], f"needs {wanted}, got {typed(value_at(config, name))}"


def of_groups(group: Any, key: str = "") -> Conflicts:
    """What does not go together in a group of settings, and in those inside it."""
    if isinstance(group, Settings):
        yield from ((f"{key}{name}", rule) for name, rule in group.conflicts())
    if isinstance(group, Settings | dict):
        for name, inside in dict(group).items():
            yield from of_groups(inside, f"{key}{name}.")


def refusals_together(config: Config) -> Iterator[str]:
    """A line for every rule that is broken; a group of settings has its option as its value."""
    alone = [*of_groups(config), *of_needs(config)]
    yield from (line(key, value_at(config, key), rule) for key, rule in alone)
    if alone:  # the others rely on groups that are right
        return
    several = (of_answers, of_batches, of_models, of_server, of_products, of_games, of_members)
    for rules in several:
        yield from (line(key, value_at(config, key), rule) for key, rule in rules(config))
    try:
        plan_of(config)
    except ConfigError as error:
        yield str(error)


@dataclass(frozen=True)
class BatchPlan:
    """Numbers derived from the three configured batch sizes and the number of processes."""

    microbatch: int  # turns per forward and backward pass of one process
    accumulation: int  # microbatches per optimiser step


def plan_of(config: Config) -> BatchPlan:
    """The batch plan of a run; ConfigError where a division leaves a remainder."""
    algorithm, processes = config.algorithm, config.hardware.world
    turns, minibatch = algorithm.turns_per_policy(), algorithm.minibatch_size
    key = f"algorithm.minibatch_size={minibatch}"
    require(turns % minibatch == 0, f"{key}: must divide a policy's {turns} turns per iteration")
    # fewer examples than processes are filled up with absent ones, one process each
    alone = isinstance(algorithm, SupervisedConfig) and minibatch < processes
    whole = alone or minibatch % processes == 0
    require(whole, f"{key}: must be a multiple of the number of processes, {processes}")
    share = 1 if alone else minibatch // processes
    micro = min(config.hardware.microbatch_size, share)
    times = "" if processes == 1 else f" times the number of processes, {processes}"
    most = f"hardware.microbatch_size={micro}{times}"
    require(share % micro == 0, f"{key}: must be a multiple of {most}")
    return BatchPlan(micro, share // micro)


def products_of(config: Config) -> dict[str, str]:
    """The precision of matrix products of every language model of a run, by its setting."""
    groups = {**config.models, **judges(config.reward)}
    return {
        f"{key}.compute_precision": group.compute_precision
        for key, group in groups.items()
        if hasattr(group, "compute_precision")
    }


def of_answers(config: Config) -> Conflicts:
    """Settings that ask for prompts with answers, for a reward, or for several agents."""
    task, algorithm, evaluation = config.task, config.algorithm, config.evaluation
    probes = evaluation.probes_of_team
    if config.reward.name == "returned" and not isinstance(algorithm, TeamConfig | SFTConfig):
        rule = f"task={task.name} has no reward of its own; choose one: reward=python"
        yield "reward", f"{rule} reward.function=<file>.py:<function>, exact_match, judge, ..."
    needing = {
        "algorithm": isinstance(algorithm, VerifierConfig)
        or getattr(algorithm, "labels", "reward") != "reward",
        "algorithm.diversity": isinstance(algorithm, MaftConfig) and algorithm.diversity.reads,
        "algorithm.alpha": any(getattr(algorithm, "alpha", ())),
        "algorithm.beta": any(getattr(algorithm, "beta", ())),
        "algorithm.consensus": getattr(algorithm, "consensus", None) is not None,
        "evaluation.team": evaluation.team and isinstance(algorithm, DebateConfig),
        "evaluation.probes_of_team": any(probes) and isinstance(algorithm, DebateConfig),
        "evaluation.k": max(evaluation.k) > 1,
    }
    for key, judge in judges(config.reward).items():
        shown = fields_of(getattr(judge, "request", ""))  # to a model that grades
        needing[key] = judge.name == "exact_match" or "answer" in shown
    learns = isinstance(algorithm, SFTConfig)
    if learns and getattr(task, "answer_column", None) is None:
        yield "algorithm", f"needs answers to learn (task.answer_column); task={task.name} has none"
    if learns and config.reward.name == "returned":
        for key, on in (("greedy", evaluation.greedy), ("probes", bool(evaluation.probes))):
            if on:
                yield f"evaluation.{key}", "needs a reward: without one, only eval/nll is measured"
    for key in (key for key, needs in needing.items() if needs):
        if not getattr(task, "reads_answers", False):
            yield key, f"needs a task with answers (task.answer_column); task={task.name} has none"
    if evaluation.team and not hasattr(algorithm, "agents") and len(algorithm.names()) == 1:
        yield "evaluation.team", f"needs several agents; algorithm={algorithm.name} has one"
    if "swapped" in probes and len(algorithm.names()) == 1:
        yield "evaluation.probes_of_team", "swapped exchanges policies, and here there is one"


def of_batches(config: Config) -> Conflicts:
    """How much an iteration has, and how processes share it."""
    algorithm, hardware = config.algorithm, config.hardware
    prompts = algorithm.prompts_per_iteration
    if prompts < hardware.world:
        rule = f"{hardware.world} processes are more than algorithm.prompts_per_iteration={prompts}"
        yield "hardware.processes", rule
    if not isinstance(algorithm, PPOConfig):
        return
    turns = algorithm.turns_per_policy()
    # a step lowers the coefficient by up to 0.2 of these turns in kl_horizon; at most by all of it
    if algorithm.kl_controller == "adaptive" and algorithm.kl_horizon * 5 <= turns:
        rule = f"must be above a fifth of the {turns} turns of a policy in an iteration"
        yield "algorithm.kl_horizon", f"{rule}, or algorithm.kl_coef would turn negative"
    shortest = min(config.algorithm_of(n).sampling.min_response_tokens for n in algorithm.names())
    if (algorithm.overlong_buffer or 0) >= shortest:
        rule = f"must be below every limit of a response: min_response_tokens={shortest}"
        yield "algorithm.overlong_buffer", rule
    together = hardware.microbatch_size * hardware.world
    if algorithm.max_mean_ratio is not None and together < algorithm.minibatch_size:
        rule = f"needs whole minibatches: hardware.microbatch_size times processes, {together}, is"
        yield "algorithm.max_mean_ratio", f"{rule} below {algorithm.minibatch_size} turns"


def of_models(config: Config) -> Conflicts:
    """Dropout, split weights; chats; what a run starts from."""
    algorithm = config.algorithm
    for group, model in config.models.items():
        told = {"system": model.system}
        told |= {f"template.{name}": value for name, value in dict(model.template).items()}
        for key, value in told.items() if algorithm.speaks_remotely() else ():
            if value is not None:
                yield f"{group}.{key}", "is not for a model behind an endpoint, which alone speaks"
        if model.precision == "fp16":  # small gradients would vanish
            yield f"{group}.precision", "is for models that do not learn: take bf16"
        if model.dropout and not isinstance(algorithm, SupervisedConfig):
            rule = "needs an algorithm whose updates compare with no earlier pass"
            yield f"{group}.dropout", f"{rule}, got {algorithm.name}"
        if model.rollout_dropout and not isinstance(algorithm, PPOConfig):
            rule = f"needs an algorithm with roll-outs of PPO, got {algorithm.name}"
            yield f"{group}.rollout_dropout", rule
        if model.reference == "init_from" and not algorithm.reads_reference():
            yield f"{group}.reference", f"would be ignored: {algorithm.name} reads no reference"
        split = config.hardware.zero_stage == 3 and model.sharing != "copies"
        whole = f"needs hardware.zero_stage of at most 2, or {group}.sharing=copies"
        if split and getattr(algorithm, "kl_loss", "") == "full":
            yield "algorithm.kl_loss", f"{whole}: shared weights are split"
        pooled = "pool" in getattr(algorithm, "fixed_agents", {}).values()
        if split and pooled and group == config.group_of(algorithm.names()[0]):
            yield "algorithm.fixed", f"{whole}: a pool's adapters are read while it runs"
    longest = config.task.max_prompt_tokens
    if isinstance(algorithm, VerifierConfig) and algorithm.max_tokens <= longest:
        rule = f"of question and answer, must be above task.max_prompt_tokens={longest}"
        yield "algorithm.max_tokens", rule
    forms = {bool(model.chat) for model in config.models.values()}
    chats, swaps = forms == {True}, "swapped" in config.evaluation.probes_of_team
    if swaps and len(forms) > 1 and algorithm.name == "maporl":
        rule = "cannot swap agents of which some chat: each is shown a debate in its own form"
        yield "evaluation.probes_of_team", rule
    if isinstance(algorithm, MaftConfig) and not (chats or algorithm.endpoint):
        for key, on in (("summary", algorithm.summary), ("prompts", algorithm.prompts.chats_only)):
            if on:
                yield f"algorithm.{key}", "needs model.chat=true: others do not follow requests"
    starts_anew = getattr(algorithm, "start", "") == "base" and algorithm.iterations > 0
    if config.init_from is not None and starts_anew:
        yield "init_from", "would be forgotten: algorithm.start=base trains the model as it came"


def of_server(config: Config) -> Conflicts:
    """A server that samples: what it has of the run's models."""
    hardware, models = config.hardware, config.models
    fixed, runs, opponents = (
        getattr(config.algorithm, key, {})
        for key in ("fixed_agents", "runs", "runs_played_against")
    )
    if hardware.sampler == "own":
        return
    if "pool" in fixed.values():
        yield "algorithm.fixed", "a pool needs hardware.sampler=own: its versions change unnoticed"
    if len(models) > 1 and hardware.server.address is not None:
        yield "hardware.server.address", f"serves one model, and the run has {len(models)}"
    agents = [*config.algorithm.names(), *runs, *opponents]
    for key, model in {config.key_of(name): config.model_of(name) for name in agents}.items():
        if model.sharing == "adapters" and model.adapter.rank > 512:
            yield f"{key}.adapter.rank", "must be at most 512 with hardware.sampler=vllm"
    for group, model in models.items():
        if model.sharing == "copies" and len(agents) > 1:
            rule = "needs adapter=lora for several agents: a server has one set of weights"
            yield f"{group}.sharing", f"hardware.sampler=vllm {rule}"


def of_products(config: Config) -> Conflicts:
    """TF32, which a process has for all of its float32 products or for none."""
    products = products_of(config)
    rounded = [key for key, chosen in products.items() if chosen == "tf32"]
    for key, chosen in products.items():
        if chosen == "tf32" and config.hardware.device == "cpu":
            yield key, "needs a GPU: hardware.device=cpu computes float32 products exactly"
        if chosen == "fp32" and rounded:
            yield key, f"must be tf32, as {rounded[0]}: it holds for all products of a process"


def of_games(config: Config) -> Conflicts:
    """Games: a task, an algorithm and a reward that belong together."""
    task, algorithm, reward = config.task, config.algorithm, config.reward
    needed = {
        "task": (isinstance(task, GameConfig), "taboo, twenty_questions or guess_my_city"),
        "algorithm": (isinstance(algorithm, OfflineConfig), "imitation or spag"),
        "reward": (reward.name == "game_outcome", "game_outcome"),
    }
    present = [f"{key}={getattr(config, key).name}" for key, (has, _) in needed.items() if has]
    for key, (has, names) in needed.items():
        if present and not has:
            yield key, f"must be {names} for games, as with {' and '.join(present)}"
    if getattr(reward, "broken_rules", "") == "lose" and getattr(task, "game", "") != "taboo":
        yield "reward.broken_rules", f"needs opponents: in task={task.name} both win or lose"


def parse_config(cfg: DictConfig) -> Config:
    """The checked settings; a ConfigError has a line for every mistake in them.

    Rules between settings are looked at where each setting by itself is as it should be.
    """
    name = OmegaConf.select(cfg, "algorithm.name")
    given = OmegaConf.select(cfg, "algorithm.advantages")
    takes = given is None or "advantages" in option("algorithm", name).settings.model_fields
    learners = "algorithm=ppo, grpo, rloo, cory, maporl or team"
    require(takes, f"advantages={given}: needs {learners}; {name} has none")
    complete_models(cfg)
    values = plain(cfg)
    try:
        values = with_members(values)
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(lines_of(error, values))) from None
    broken = list(refusals_together(config))
    require(not broken, "\n".join(broken))
    return config
