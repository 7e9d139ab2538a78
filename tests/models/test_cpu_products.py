"""The precision that a CPU chooses, a run directory keeps and a record names."""

from __future__ import annotations

import pytest

from cory.config import parse_config
from cory.models.paths import CPU_HAS_BF16
from tests.support.composing import compose_config

FIG3 = ("experiment=cory/imdb_cory", "scale=small")
HETERO = ("experiment=maporl/gsm8k_hetero_llama", "scale=small")


@pytest.mark.parametrize(
    ("words", "with_instructions", "without"),
    [
        ((), "bf16", "fp32"),  # the quickstart
        (FIG3, "bf16", "fp32"),  # a tiny model in place of GPT-2
        (("experiment=cory/imdb_cory",), "fp32", "fp32"),  # a run of the paper's own
        ((*FIG3, "model.compute_precision=fp32"), "fp32", "fp32"),  # what is typed wins
        (("model.precision=bf16",), "bf16", "bf16"),  # as the weights
        (("hardware=gpu1",), "fp32", "fp32"),
        (("hardware.nodes=2", "hardware.rendezvous=here:1"), "fp32", "fp32"),  # two CPUs
        (("model.sharing=adapters", "model.quantisation=nf4"), "fp32", "fp32"),
    ],
)
def test_the_cpu_chooses_the_products_of_small_runs(
    words: tuple[str, ...],
    with_instructions: str,
    without: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for has, expected in (("1", with_instructions), ("0", without)):
        monkeypatch.setenv(CPU_HAS_BF16, has)
        assert parse_config(compose_config(*words)).model.compute_precision == expected


def test_every_model_of_a_small_run_has_the_same_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CPU_HAS_BF16, "1")
    words = (*HETERO, "reward=verifier", "reward.path=here")
    for more, expected in (([], "bf16"), (["model.compute_precision=fp32"], "fp32")):
        config = parse_config(compose_config(*words, *more))
        assert config.partner is not None
        assert config.partner.compute_precision == config.reward.compute_precision == expected
