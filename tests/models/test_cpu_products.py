"""The precision that a CPU chooses, a run directory keeps and a record names."""

from __future__ import annotations

import pytest

from cory.config import parse_config
from cory.models.paths import CPU_HAS_BF16
from tests.support.composing import compose_config

FIG3 = ("experiment=cory/imdb_cory", "scale=small")
HETERO = ("experiment=maporl/gsm8k_hetero_llama", "scale=small")
ITERATIONS = 12


def with_bf16(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    monkeypatch.setenv(CPU_HAS_BF16, str(int(has)))


def products(*words: str) -> str:
    return parse_config(compose_config(*words)).model.compute_precision


@pytest.mark.parametrize(
    ("words", "with_instructions", "without"),
    [
        ((), "bf16", "fp32"),  # the quickstart
        (FIG3, "bf16", "fp32"),  # a tiny model in place of GPT-2
        (("experiment=cory/imdb_cory",), "fp32", "fp32"),  # a run of the paper's own
        (("model.compute_precision=fp32",), "fp32", "fp32"),  # what is typed wins
        ((*FIG3, "model.compute_precision=fp32"), "fp32", "fp32"),
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
    with_bf16(monkeypatch, True)
    assert products(*words) == with_instructions
    with_bf16(monkeypatch, False)
    assert products(*words) == without


def test_every_model_of_a_small_run_has_the_same_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    with_bf16(monkeypatch, True)
    config = parse_config(compose_config(*HETERO, "reward=verifier", "reward.path=here"))
    assert config.partner is not None
    assert config.partner.compute_precision == config.reward.compute_precision == "bf16"
    words = (*HETERO, "reward=verifier", "reward.path=here", "model.compute_precision=fp32")
    config = parse_config(compose_config(*words))
    assert config.partner is not None
    assert config.partner.compute_precision == config.reward.compute_precision == "fp32"
