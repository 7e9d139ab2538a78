"""Settings that a run does not read, since another setting turns off what they are about."""

from collections.abc import Iterable, Iterator, Mapping

from cory.config.base import has, holds, typed, value_at
from cory.config.experiment import Config
from cory.config.options import is_own

FILES = "hub|path"
VALUE_HEAD = "algorithm.advantages=gae"


def _each(group: str, names: str, needed: str) -> dict[str, str]:
    """group, names: of the settings; needed: what they are read with, in the words of `holds`"""
    return {f"{group}.{name}".strip("."): needed for name in names.split()}


def _of_model(group: str) -> dict[str, str]:
    return {
        **_each(group, "value_init value_detached value_dropout", VALUE_HEAD),
        **_each(group, "adapter", f"{group}.sharing=adapters|adapter_copies"),
        **_each(group, "double_quantisation", f"{group}.quantisation=nf4"),
    }


# a setting, or a group of them -> what it is read with, where the run has both
READ_WITH: Mapping[str, str] = {
    **_each("algorithm", "gae_lambda whiten_advantages value_coef value_clip_range", VALUE_HEAD),
    **_each("algorithm", "gamma", "algorithm.advantages=gae|batch"),
    **_each("algorithm", "divide_by_std", "algorithm.advantages=group"),
    **_each("algorithm", "kl_target kl_horizon", "algorithm.kl_controller=adaptive"),
    **_each("algorithm", "turn_discount", "algorithm.horizon=discounted_sum"),
    **_each("algorithm", "official_swap", "algorithm.swap_every"),
    **_each("algorithm", "guards.repeat_length", "algorithm.guards.max_repeats"),
    **_each("algorithm", "critic_epochs critic_learning_rate", "algorithm.policies=specialised"),
    **_each("algorithm", "critic_share critic_loss", "algorithm.select=own"),
    **_each("algorithm", "labels", "algorithm.select=own|agreeing"),
    **_each("algorithm", "request_texts", "algorithm.requests=true"),
    **_each(
        "algorithm.prompts",
        "own_feedback feedback grades grade_bounds",
        "algorithm.verifier_feedback=true",
    ),
    **_each("algorithm.prompts", "hint", "algorithm.select=correct"),
    **_each("algorithm.prompts", "summarise follow_up_summary", "algorithm.summary=true"),
    **_each("algorithm.prompts", "generation_id critic_id", "algorithm.identities=true"),
    **_each(
        "algorithm.instructions",
        "path split instruction_column input_column output_column",
        f"algorithm.instructions.source={FILES}",
    ),
    **_of_model("model"),
    **_of_model("partner"),
    **_each("reward", "double_quantisation", "reward.quantisation=nf4"),
    **_each("task", "path prompt_column answer_column", f"task.source={FILES}"),
    **_each("task", "train_split test_split", f"task.source={FILES}|generated"),  # slices of both
    **_each("task", "subset", "task.source=hub"),
    **_each("task", "kinds train_problems test_problems", "task.source=generated"),
    **_each("task", "seconds", "task.answers=formula"),
    **_each(
        "task",
        "observer_template answer_template answer_separator",
        "algorithm.knowledge_transfer=true",
    ),
    **_each("task", "texts.styles", "algorithm.varied_prompts=true"),
    **_each("task", "words", "task.source=list"),
    **_each("task", "nouns", "task.source=package"),
    **_each(
        "wandb",
        "project entity name group tags notes init_timeout finish_timeout",
        "wandb.mode=offline|online",
    ),
    **_each("", "keep_best_mode", "keep_best"),
}


def unread(config: Config, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of these settings, those that the run does not read, each with the reason in words.

    Algorithms, tasks and rewards of a user's own package may read what ours do not: nothing is said
    of any setting where the algorithm is, nor of those of such a task or reward.
    """
    kinds = ("algorithm", "task", "reward")
    ours = {kind: is_own(kind, getattr(config, kind).name) for kind in kinds}
    for key in keys:
        row = next((row for row in READ_WITH if key == row or key.startswith(f"{row}.")), None)
        known = ours["algorithm"] and ours.get(key.partition(".")[0], True)
        if row is None or not known or not has(config, row):
            continue
        needed = READ_WITH[row]
        other, _, wanted = needed.partition("=")
        if not has(config, other):
            if needed == VALUE_HEAD and not config.algorithm.has_value_head():
                yield key, f"algorithm={config.algorithm.name} has no value head"
        elif not holds(config, needed):
            wanted = wanted.replace("|", " or ") or "something"
            yield key, f"it needs {other}={wanted}, which is {typed(value_at(config, other))}"
