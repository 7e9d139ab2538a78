"""Rules for language models that span several groups of settings."""

from cory.config.algorithm import PPOConfig
from cory.config.checks import require
from cory.config.experiment import Config
from cory.config.reward import judges
from cory.config.supervised import SupervisedConfig


def check_dropout(config: Config) -> None:
    """Rules for dropout while updating, and while sampling a roll-out."""
    for group, model in config.models.items():
        for key, on in (("dropout", model.dropout), ("value_dropout", model.value_dropout > 0)):
            require(
                not on or isinstance(config.algorithm, SupervisedConfig),
                f"{group}.{key} needs an algorithm whose updates compare with no earlier pass: "
                f"with algorithm={config.algorithm.name} the ratio would not begin at 1",
            )
        if not model.rollout_dropout:
            continue
        require(
            isinstance(config.algorithm, PPOConfig),
            f"{group}.rollout_dropout=true needs an algorithm with roll-outs of PPO, not "
            f"algorithm={config.algorithm.name}",
        )
        for key in ("gradient_checkpointing", "cuda_graphs"):
            require(
                not getattr(config.hardware, key),
                f"{group}.rollout_dropout=true needs hardware.{key}=false",
            )


def products_of(config: Config) -> dict[str, str]:
    """The precision of matrix products of every language model of a run, by its setting."""
    groups = {**config.models, **judges(config.reward)}
    return {
        f"{key}.compute_precision": group.compute_precision
        for key, group in groups.items()
        if hasattr(group, "compute_precision")
    }


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
