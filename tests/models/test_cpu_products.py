"""The precision that a CPU chooses, a run directory keeps and a record names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.config import ConfigError, parse_config
from cory.models import paths
from cory.models.paths import CPU_HAS_BF16, cpu_has_bf16
from cory.runs.run_dir import same_run, unfinished_run, write_settings
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu amx_bf16 avx512_bf16\n", True),
        ("flags\t\t: fpu avx2 avx512f avx512_vnni\n", False),
        ("Features\t: fp asimd i8mm bf16\n", True),
    ],
)
def test_linux_lists_the_instructions(
    text: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CPU_HAS_BF16)
    monkeypatch.setattr(paths, "CPU_INFO", tmp_path / "cpuinfo")
    assert cpu_has_bf16() is False  # no Linux
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_has_bf16() is expected


@pytest.mark.parametrize("began_with", [True, False])
def test_a_cpu_that_chooses_otherwise_does_not_go_on_with_a_run(
    began_with: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the precision that the run began with is typed."""
    kept, other = ("bf16", "fp32") if began_with else ("fp32", "bf16")
    cfg = compose_config(*HETERO, "reward=verifier", "reward.path=here")
    run_dir = tmp_path / "2026-11-01_10-00-00_seed0"
    with_bf16(monkeypatch, began_with)
    write_settings(run_dir, cfg, [])
    (run_dir / "metrics.jsonl").touch()
    new = tmp_path / "2026-11-02_10-00-00_seed0"
    assert unfinished_run(new, cfg) == run_dir
    with_bf16(monkeypatch, not began_with)
    assert unfinished_run(new, cfg) is None
    with pytest.raises(ConfigError, match=f"compute_precision={kept}, not {other}"):
        same_run(run_dir, cfg)
    for group in ("model", "partner", "reward"):
        cfg[group].compute_precision = kept
    same_run(run_dir, cfg)  # raises nothing
