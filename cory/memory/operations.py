"""Floating-point operations that a run needs: what an estimate of its duration rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cory.config import (
    AGREEING,
    CORRECT,
    ENDPOINT,
    GENERATION_ONLY,
    ITSELF,
    NONE,
    RANDOM,
    SCRIPTED,
    SELF_PLAY,
    SPECIALISED,
    Config,
    ConfigError,
    DebateConfig,
    MaftConfig,
    MaporlConfig,
    OfflineConfig,
    PPOConfig,
    SFTConfig,
    VerifierConfig,
)
from cory.memory.workload import mean_context
from cory.models.loading import skeleton

# Floating-point operations per second that one process is taken to sustain, where no record says
# better: an order of magnitude. Small models on two cores reached about 60e9 (docs/log.md); with
# 1e13 the 4-bit Llama-2 of the paper takes the four hours on four GPUs that its App. A names.
SUSTAINED = {"cpu": 5e10, "cuda": 1e13}
FORWARD, BACKWARD = 2, 4  # operations per weight and token; the way back to the inputs alone: 2
UNKNOWN_SPLIT = "; without its evaluation on a whole split of unknown size"


def estimated_hours(
    config: Config, test_problems: Mapping[str, Any], sustained: float | None = None
) -> tuple[float | None, str]:
    """Hours by arithmetic, and how they were reckoned; None where even that is impossible.

    sustained: operations per second of a process; None: the order of magnitude in SUSTAINED
    """
    try:
        operations, left_out = counted_operations(config, test_problems)
    except ConfigError as error:
        return None, f"no record, and {error}"
    speed = SUSTAINED[config.hardware.device] if sustained is None else sustained
    processes = config.hardware.world
    assumed = "an assumed" if sustained is None else "a measured"
    each = f"for each of {processes} processes" if processes > 1 else "for its process"
    source = (
        f"ESTIMATE, no record yet: {operations:.1e} operations at {assumed} {speed:.0e} a second "
        f"{each}{left_out}"
    )
    return operations / speed / processes / 3600, source


def counted_operations(config: Config, test_problems: Mapping[str, Any]) -> tuple[float, str]:
    """Floating-point operations of a run, and what they leave out; ConfigError if uncountable."""
    kinds = [kind for kind in OPERATIONS if isinstance(config.algorithm, kind)]
    if not kinds:
        raise ConfigError(f"no estimate for algorithm={config.algorithm.name}")
    if config.algorithm.speaks_remotely():
        raise ConfigError("no estimate of what its endpoint takes")
    try:
        weights = weights_of(config)
    except ConfigError as error:
        raise ConfigError(f"no estimate: {error}") from error
    return OPERATIONS[kinds[0]](config, weights, test_problems)


def weights_of(config: Config) -> int:
    """Of the model of an agent; of two different models, their mean."""
    sizes: list[int] = [
        sum(
            p.numel()
            for p in skeleton(m.path, f"{key}.path", m.described, m.remote_code).parameters()
        )
        for key, m in config.models.items()
    ]
    return sum(sizes) // len(sizes)


@dataclass(frozen=True)
class Spoken:
    """Responses to one question."""

    sampled: int  # in training
    learned: int  # of these, by policies that learn
    alone: int  # in an evaluation, to the question alone
    together: int  # ... in roles or in a debate

    @property
    def held_out(self) -> int:
        """In an evaluation."""
        return self.alone + self.together


def responses_per_prompt(config: Config) -> Spoken:
    """How often agents speak: alone, in their roles, or as debaters over turns."""
    algorithm, evaluation = config.algorithm, config.evaluation
    policies = config.algorithm.policy_count()
    sampled, learned, team = policies, policies, policies
    if isinstance(algorithm, DebateConfig):
        trained = algorithm.trained if isinstance(algorithm, MaporlConfig) else ()
        sampled, learned = (algorithm.agents * n for n in (algorithm.turns, len(trained)))
        team = algorithm.evaluation_agents * algorithm.evaluation_turns
    ways = evaluation.samples + (1 if evaluation.greedy else 0)
    return Spoken(sampled, learned, ways * policies, ways * team if evaluation.team else 0)


def operations_of(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """Floating-point operations of a run, and what they leave out.

    Questions count at their longest, responses at their mean length.
    """
    algorithm = config.algorithm
    tokens = mean_context(config) + mean_response(config)
    learning = 2 * FORWARD + algorithm.epochs * step_of(config)
    responses = responses_per_prompt(config)
    each = responses.sampled * FORWARD + responses.learned * learning
    asked = algorithm.iterations * algorithm.prompts_per_iteration
    training = float(asked * tokens * weights * each)
    tokens = held_out_tokens(config)
    return with_evaluations(config, training, tokens * FORWARD, weights, test_problems)


def held_out_tokens(config: Config) -> float:
    """Tokens that are read and said for one prompt of an evaluation; responses are at the limit."""
    responses, most = responses_per_prompt(config), config.algorithm.sampling.max_response_tokens
    alone = responses.alone * (int(config.task.max_prompt_tokens) + most)
    return float(alone + responses.together * (mean_context(config, True) + most))


def with_evaluations(
    config: Config, training: float, each: float, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """A run's operations from those of its training, and what they leave out.

    each: operations per weight for a held-out prompt
    """
    prompts = held_out_prompts(config, test_problems)
    if prompts is None:
        return training, UNKNOWN_SPLIT
    return training + evaluations(config) * prompts * each * weights, ""


def operations_of_best_debates(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """The same for fine-tuning on the best debates of frozen models."""
    algorithm = config.algorithm
    assert isinstance(algorithm, SFTConfig)
    tokens = mean_context(config) + mean_response(config)
    responses = algorithm.agents * algorithm.turns
    learning = algorithm.keep_share * algorithm.epochs * step_of(config)
    asked = algorithm.iterations * algorithm.prompts_per_iteration
    training = float(asked * tokens * weights * responses * (FORWARD + learning))
    held_out = held_out_tokens(config)
    return with_evaluations(config, training, held_out * FORWARD, weights, test_problems)


def operations_of_verifier(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """The same for a verifier: answers are sampled, as many of both labels as may be are learnt."""
    algorithm = config.algorithm
    assert isinstance(algorithm, VerifierConfig)
    tokens = int(config.task.max_prompt_tokens) + mean_response(config)
    learning = 2 * algorithm.keep_per_label * algorithm.epochs * step_of(config)
    each = algorithm.answers_per_question * FORWARD + learning
    asked = algorithm.iterations * algorithm.prompts_per_iteration
    training = float(asked * tokens * weights * each)
    longest = int(config.task.max_prompt_tokens) + algorithm.sampling.max_response_tokens
    held_out = 2 * config.evaluation.samples * longest  # sampled and read
    total, left_out = with_evaluations(config, training, held_out * FORWARD, weights, test_problems)
    return total, f"{left_out}; without the answers that it asks for"


def operations_of_games(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """The same for games: every one lasts all its turns, and one role's utterances are learnt.

    Scripted players and endpoints cost nothing here.
    """
    algorithm, turns = config.algorithm, config.task.max_turns
    assert isinstance(algorithm, OfflineConfig)
    tokens = int(config.task.max_prompt_tokens) + mean_response(config)
    learning = FORWARD + algorithm.epochs * step_of(config)
    games = algorithm.iterations * algorithm.prompts_per_iteration
    games *= 0 if algorithm.games == NONE else 1
    playing = 2 * FORWARD if algorithm.games == SELF_PLAY else 0
    total = float(games * turns * tokens * (playing + learning))
    told = algorithm.iterations * algorithm.instructions.per_iteration
    total += told * algorithm.instructions.max_tokens * algorithm.epochs * step_of(config)
    prompts = held_out_prompts(config, test_problems)
    if prompts is None:
        return total * weights, UNKNOWN_SPLIT
    speakers = speakers_of(algorithm)
    held_out = prompts * config.evaluation.samples * 2 * turns * speakers * tokens * FORWARD
    left_out = "; without what its endpoint takes" if algorithm.asks_endpoint else ""
    return (total + evaluations(config) * held_out) * weights, left_out


def requests_of(config: Config, test_problems: Mapping[str, Any]) -> int:
    """The most requests that a run sends to `algorithm.endpoint`; 0: none, or nobody knows.

    A game is counted with all its turns: 2 requests each of a teacher, 1 of an opponent. Of a
    debate each answer is one, and each summary.
    """
    algorithm, prompts = config.algorithm, held_out_prompts(config, test_problems) or 0
    tested = prompts * evaluations(config)
    if isinstance(algorithm, MaftConfig) and algorithm.endpoint is not None:
        rounds = algorithm.evaluation_turns - 1  # which see others' answers
        each = 1 + rounds * (2 if algorithm.summary else 1)
        return tested * algorithm.evaluation_agents * each
    if not isinstance(algorithm, OfflineConfig):
        return 0
    taught = algorithm.iterations * algorithm.prompts_per_iteration
    taught *= 2 if algorithm.games == ENDPOINT else 0
    against = list(algorithm.played_against.values()).count(ENDPOINT)
    held_out = tested * config.evaluation.samples * 2 * against
    return int(config.task.max_turns) * (taught + held_out)


def speakers_of(algorithm: OfflineConfig) -> int:
    """Models that speak in an evaluation, in a game of each role against each opponent.

    The policy speaks against each of them, and so does an opponent that is another model.
    """
    idle = (ITSELF, SCRIPTED, RANDOM, ENDPOINT)
    return sum(1 if other in idle else 2 for other in algorithm.played_against.values())


def answers_of(algorithm: MaftConfig, agents: int, turns: int) -> int:
    """Answers in a debate.

    Others' answers are summed up once for each agent who speaks after the first turn.
    """
    return agents * turns + (agents * (turns - 1) if algorithm.summary else 0)


def passes_of_learning(algorithm: MaftConfig) -> int:
    """Answers to a question that may be learnt, each as often as its policy learns it."""
    first = algorithm.agents * algorithm.epochs
    critics = algorithm.critic_epochs if algorithm.policies == SPECIALISED else algorithm.epochs
    if algorithm.select == CORRECT:
        return algorithm.epochs
    if algorithm.select == AGREEING:
        return first + (algorithm.turns - 1) * algorithm.agents * critics
    if algorithm.turns == 1 or algorithm.policies == GENERATION_ONLY:
        return first
    rounds = algorithm.turns if algorithm.critic_loss == "all_turns" else 1
    return first + rounds * algorithm.agents * critics


def operations_of_fine_tuning(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """The same for multiagent fine-tuning: every answer that may be learnt is, which is a bound."""
    algorithm = config.algorithm
    assert isinstance(algorithm, MaftConfig)
    tokens = mean_context(config) + mean_response(config)

    each = FORWARD * answers_of(algorithm, algorithm.agents, algorithm.turns)
    each += passes_of_learning(algorithm) * step_of(config)
    asked = algorithm.iterations * algorithm.prompts_per_iteration
    training = float(asked * tokens * weights * each)
    prompts = held_out_prompts(config, test_problems)
    if prompts is None:
        return training, UNKNOWN_SPLIT
    answers = answers_of(algorithm, algorithm.evaluation_agents, algorithm.evaluation_turns)
    tokens = mean_context(config, True) + mean_response(config)
    held_out = prompts * config.evaluation.samples * answers * tokens * weights * FORWARD
    return training + evaluations(config) * held_out, "; without measures of diversity"


OPERATIONS = {
    PPOConfig: operations_of,
    OfflineConfig: operations_of_games,
    MaftConfig: operations_of_fine_tuning,
    SFTConfig: operations_of_best_debates,
    VerifierConfig: operations_of_verifier,
}


def mean_response(config: Config) -> float:
    """Tokens of a response, by the limits that are drawn."""
    sampling = config.algorithm.sampling
    return float(sampling.min_response_tokens + sampling.max_response_tokens) / 2


def step_of(config: Config) -> int:
    """Operations per weight and token of learning once."""
    back = BACKWARD if config.model.sharing == "copies" else BACKWARD // 2
    again = FORWARD if config.hardware.gradient_checkpointing else 0
    return FORWARD + back + again


def held_out_prompts(config: Config, test_problems: Mapping[str, Any]) -> int | None:
    """Prompts of one evaluation; None where a whole split of unknown size is meant."""
    keys = ("name", "pick_test", "test_problems")
    task = {key: getattr(config.task, key, None) for key in keys}
    return prompts_asked(config.evaluation.prompts, task, test_problems)


def prompts_asked(
    limit: int | None, task: Mapping[str, Any], test_problems: Mapping[str, Any]
) -> int | None:
    """The same from settings as they are stored, of which older runs may lack some.

    limit: `evaluation.prompts`
    test_problems: of `conf/paper/`: how many problems a whole test split has
    """
    own = task.get("pick_test") or task.get("test_problems")
    prompts = limit or own or test_problems.get(task["name"])
    return None if prompts is None else int(prompts)


def evaluations(config: Config) -> int:
    """How often a run is evaluated: before the training if it is asked for, within, and after."""
    every = config.evaluate_every
    within = max(1, -(-config.algorithm.iterations // every)) if every else 1
    return int(config.evaluates_before) + within
