"""Runs in several precisions: pages name them, and one row does not mix them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.made_up_runs import WriteRun, lines_of
from tests.support.reporting import made, row, write_all

pytestmark = pytest.mark.slow

MIXED = "fp32 weights, bf16 products"
PRODUCTS = "model.compute_precision"
LATER = "2027-01-01T00:00:00+00:00"


def precision_in(text: str) -> str:
    return row(text, "small | paper")[3]


@pytest.mark.parametrize(("products", "said"), [("fp32", "fp32"), ("bf16", MIXED)])
def test_a_page_names_the_precision_of_its_runs(
    products: str, said: str, write_run: WriteRun, tmp_path: Path
) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2.0, 20.0, 1, 0), settings={PRODUCTS: products})
    found, text = made(tmp_path)
    assert precision_in(text) == said
    assert not found.refused and not found.notes


@pytest.mark.parametrize(
    ("products", "began", "counted"),
    [
        (("bf16", "fp32", "fp32"), (), {1, 2}),  # as most of them, whichever ran last
        (("bf16", "bf16", "fp32"), (), {0, 1}),
        (("fp32", "bf16"), (LATER, ""), {0}),  # of two as frequent, the one that began last
        (("fp32", "bf16"), ("", LATER), {1}),
    ],
)
def test_one_row_does_not_mix_precisions(
    products: tuple[str, ...],
    began: tuple[str, ...],
    counted: set[int],
    write_run: WriteRun,
    tmp_path: Path,
) -> None:
    words = {"fp32": "fp32", "bf16": MIXED}
    for seed, one in enumerate(products):
        # so far off that the mean shows it if it counts
        score = 2.0 if seed in counted else 99.0
        record = {"began": began[seed]} if began and began[seed] else {}
        lines = lines_of(score, 20.0, 1, seed)
        write_run("cory/imdb_ppo", seed, lines, settings={PRODUCTS: one}, **record)
    found, text = made(tmp_path)
    assert set(found.counted["cory/imdb_ppo"]) == counted
    others = set(range(len(products))) - counted
    named = ", ".join(f"cory/imdb_ppo/seed{seed}" for seed in sorted(counted))
    common = words[products[min(counted)]]
    for seed in others:
        why = f"{words[products[seed]]}, but {common} in {named}"
        assert f"- `cory/imdb_ppo/seed{seed}`: {why}" in text.splitlines()
    cells = row(text, "PPO (tiny) | ")
    assert cells[1].startswith("1.7")
    assert f"refused ({len(others)} of 5 seeds): {min(others)}" in cells[-1]
    assert precision_in(text) == common


def test_a_partner_in_another_precision_is_another_precision(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """Not only the first model counts."""
    write_run("cory/imdb_ppo", 0, lines_of(2.0, 20.0, 1, 0))
    found, _ = made(tmp_path)
    (run,) = found.runs
    partner = {"precision": "fp32", "compute_precision": "bf16"}
    run.settings["partner"] = partner
    assert run.precision == f"model: fp32, partner: {MIXED}"
    run.settings["partner"] = partner | {"compute_precision": "fp32"}
    assert run.precision == "fp32"


def test_a_claim_names_the_precisions_that_it_compares(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed), settings={PRODUCTS: "bf16"})
        write_run("cory/imdb_ppo_xl", seed, lines_of(2.5, 30.0, 1, seed))
        write_run("cory/imdb_cory", seed, lines_of(2.0, 4.0, 2, seed))
    found, text = made(tmp_path)
    assert len(found.runs) == 9 and not found.refused
    both = f"fp32 (`cory/imdb_cory`); {MIXED} (`cory/imdb_ppo`)"
    assert precision_in(text) == (
        f"fp32 (`cory/imdb_ppo_xl`, `cory/imdb_cory`); {MIXED} (`cory/imdb_ppo`)"
    )
    assert row(text, "CORY (LLM1) and PPO achieve")[-1].endswith(f"(different precision: {both})")
    assert "precision" not in row(text, "The KL of PPO with GPT-2 XL continues")[-1]


def test_claims_over_runs_in_one_precision_do_not_speak_of_it(
    write_run: WriteRun, tmp_path: Path
) -> None:
    write_all(write_run)
    _, text = made(tmp_path)
    assert "different precision" not in text


def test_the_precision_of_products_may_be_typed(write_run: WriteRun, tmp_path: Path) -> None:
    """To complete a row on another CPU; pages name it, so it is no other experiment."""
    typed = ("model.compute_precision=fp32",)
    write_run("cory/imdb_ppo", 0, lines_of(2.0, 20.0, 1, 0), overrides=typed)
    typed = ("model.precision=bf16",)
    write_run("cory/imdb_ppo", 1, lines_of(2.0, 20.0, 1, 1), overrides=typed)
    found, _ = made(tmp_path)
    assert set(found.counted["cory/imdb_ppo"]) == {0}
    (refused,) = found.refused
    assert refused.why == "started with model.precision=bf16"
