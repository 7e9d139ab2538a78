"""The sizes of a run's batches, from its settings: rows and tokens at once."""

from collections.abc import Callable
from dataclasses import dataclass
from string import Formatter

from cory.config import Config, DebateConfig, plan_of
from cory.memory.architecture import Shape

CHARACTERS_PER_TOKEN = 3  # of a template's own words; a low number, to estimate on the safe side


@dataclass(frozen=True)
class Work:
    """Sizes of the batches of one process, in rows and tokens."""

    rows: int  # turns per scoring pass
    sampled: int  # turns per generation pass
    tokens: int  # context and response of the longest turn
    held_out: int  # rows of an evaluation's generation pass
    held_out_tokens: int  # context and response of its longest turn
    response: int  # tokens of a response
    micro: int  # turns per forward and backward pass
    accumulation: int


def work_of(config: Config, shape: Shape) -> Work:
    """The batches of one process."""
    algorithm, hardware = config.algorithm, config.hardware
    response = algorithm.sampling.max_response_tokens
    plan = plan_of(config)

    def rows(turns: int, most: int) -> int:
        return min(most, -(-turns // hardware.world))

    evaluation = config.evaluation
    query = int(config.task.max_prompt_tokens)
    return Work(
        rows=rows(algorithm.rows_sampled(), hardware.rollout_batch_size),
        sampled=rows(algorithm.rows_sampled(), hardware.responses_at_once),
        tokens=min(longest_context(config) + response, shape.context),
        held_out=hardware.responses_at_once  # all prompts of a split: as many as fit
        if evaluation.prompts is None
        else rows(evaluation.prompts * evaluation.samples, hardware.responses_at_once),
        held_out_tokens=min(
            (longest_context(config) if evaluation.team else query) + response, shape.context
        ),
        response=response,
        micro=plan.microbatch,
        accumulation=plan.accumulation,
    )


def longest_context(config: Config, tokens: Callable[[str], int] | None = None) -> int:
    """Tokens of the longest prompt: the last observer's, which quotes all earlier answers.

    tokens: counts those of a template's own words; None: they are estimated
    """
    task, algorithm = config.task, config.algorithm
    query = int(task.max_prompt_tokens)
    if algorithm.holds_debates:
        return longest_history(config)
    earlier = int(algorithm.policy_count()) - 1
    if earlier == 0 or not getattr(algorithm, "knowledge_transfer", True):
        return query
    quoted = any(field == "query" for _, field, _, _ in Formatter().parse(task.answer_template))
    answer = int(algorithm.sampling.max_response_tokens) + (query if quoted else 0)
    words = task.observer_template + earlier * task.answer_template
    words += (earlier - 1) * task.answer_separator
    own = [text for text, _, _, _ in Formatter().parse(words)]
    counted = len("".join(own)) // CHARACTERS_PER_TOKEN
    return query + earlier * answer + (counted if tokens is None else sum(map(tokens, own)))


def mean_context(config: Config, evaluated: bool = False) -> float:
    """Tokens of a prompt, on average over the turns that follow one question.

    Debaters of the first turn read the question alone, those of all later turns count at their
    longest; of observers in a row each reads one more answer than the one before.

    evaluated: in a debate of an evaluation, which may have another number of turns
    """
    query, longest = int(config.task.max_prompt_tokens), longest_context(config)
    if config.algorithm.holds_debates:
        turns = int(config.algorithm.evaluation_turns if evaluated else config.algorithm.turns)
        return (query + (turns - 1) * longest) / turns
    return (query + longest) / 2


def longest_history(config: Config) -> int:
    """Tokens of a debater's last prompt, before it is cut to the model's context."""
    algorithm = config.algorithm
    query = int(config.task.max_prompt_tokens)
    response = int(algorithm.sampling.max_response_tokens)
    agents = max(int(algorithm.agents), int(algorithm.evaluation_agents))
    exchanges = max(int(algorithm.turns), int(algorithm.evaluation_turns)) - 1
    if not config.model.chat:  # the question once, and everybody's latest answer
        return query + min(exchanges, 1) * agents * response
    prompts = algorithm.prompts
    words = prompts.follow_up + agents * (prompts.other + prompts.separator)
    if isinstance(algorithm, DebateConfig) and algorithm.verifier_feedback:
        words += prompts.own_feedback + agents * prompts.feedback
    one = agents * response + query
    return query + exchanges * (one + len(words) // CHARACTERS_PER_TOKEN)
