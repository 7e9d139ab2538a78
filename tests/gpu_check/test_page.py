"""The page: what failed or was not run is named; hours follow from the measured speed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cory.memory.operations import estimated_hours, weights_of

from cory.config import parse_config
from cory.gpu_check.cases import LARGE, SMALL, Case
from cory.gpu_check.extrapolate import Hours, operations_per_iteration, paper_hours, speeds
from cory.gpu_check.machine import Machine
from cory.gpu_check.page import nearest, page
from tests.support.composing import compose_config
from tests.support.made_up_case import MEASURED

CHECKS = [
    {"what": "logprobs, mean", "off": 0.01, "bound": 0.1},
    {"what": "entropy, mean", "off": 0.03, "bound": 0.1},
]
CASES = [
    Case("good", SMALL, "hardware.zero_stage=2", "on the CPU"),
    Case("bad", SMALL, "", "on the CPU"),
    Case("flash", SMALL, "model.attention=flash_attention_2", "on the CPU"),
    Case("big", LARGE, "", None),
]
RESULTS = {
    "good": {"status": "passed", "reason": None, "words": "hardware.zero_stage=2",
             "checks": CHECKS, "measured": MEASURED, "wall_s": 12.0},
    "bad": {"status": "failed", "reason": "RuntimeError: broken", "words": "", "checks": [],
            "wall_s": 9.0, "log": "cases/bad/log.txt"},
    "flash": {"status": "not run", "reason": "needs the package flash_attn",
              "words": "model.attention=flash_attention_2", "checks": []},
    "big": {"status": "measured", "reason": None, "words": "", "checks": [], "measured": MEASURED,
            "wall_s": 30.0, "tells_speed": True},
}  # fmt: skip
HOURS = [
    Hours("cory/imdb_ppo", "fp32", 1.25, "reckoned", "big", 1, 20 * 2**30),
    Hours("cory/gsm8k_ppo", "bf16", None, "nobody knows", None, 4, 100 * 2**30),
]


@pytest.fixture
def text(gpu: Machine) -> str:
    return page(gpu, CASES, RESULTS, HOURS, "abc1234", "2026-11-22")


def test_the_first_lines_say_what_was_checked_and_how_it_ended(text: str) -> None:
    assert text.startswith(
        "# Check of 8 x Made-up 100\n\n2026-11-22, commit abc1234, Python 3.11.7"
    )
    assert "80 GiB per GPU, compute capability 9.0, CUDA 13.0" in text
    for status in ("passed", "measured", "failed", "not run"):
        assert f"| {status} | 1 |" in text
    assert "No GPU was used" not in text and "say nothing" not in text


def test_failures_and_what_was_not_run_are_named_with_reasons(text: str) -> None:
    failed, rest = text.split("## Failed")[1].split("## Not run")
    assert (
        failed.strip()
        == "- **bad** (`no further settings`): RuntimeError: broken; see `cases/bad/log.txt`"
    )
    not_run = rest.split("## Cases")[0].strip()
    assert not_run == (
        "- **flash** (`model.attention=flash_attention_2`): needs the package flash_attn"
    )


def test_rows_hold_times_and_memory(text: str) -> None:
    assert (
        "| good | passed | entropy, mean: 3.0e-02 of 1.0e-01 | 3.750 | 100 | 3.00 | 4.00 | 12 |"
        in text
    )
    assert "| bad | failed | | | | | | 9.0 |" in text
    assert "| flash" not in text
    assert "## The large model, 1000 M parameters" in text
    assert "| big | 1.000 | 0.500 | 0.250 | 2.000 | 20 |" in text
    assert "| good | 1.000" not in text


def test_a_reference_has_no_times_and_no_row(gpu: Machine) -> None:
    bare = {key: value for key, value in MEASURED.items() if key != "seconds"}
    found = page(gpu, CASES[3:], {"big": RESULTS["big"] | {"measured": bare}}, [], None, "today")
    assert "| big" not in found and "## The large model" not in found


def test_hours_are_shown_or_said_to_be_unknown(text: str) -> None:
    assert "| cory/imdb_ppo | fp32 | 1.2 | big | 1 | 20 | yes |" in text
    assert "| cory/gsm8k_ppo | bf16 | unknown: nobody knows |  | 4 | 100 | no |" in text


def test_a_page_of_a_cpu_says_that_no_gpu_was_used(gpu: Machine) -> None:
    cpu = replace(gpu, device="cpu", cuda=None, capability=(0, 0))
    found = page(cpu, CASES, RESULTS, [], None, "2026-11-22")
    assert "**No GPU was used.**" in found and "these hours say nothing of a GPU" in found


def test_a_page_says_how_many_cases_shared_the_device(gpu: Machine) -> None:
    said = "Cases of small models ran 8 at a time: their seconds are those of a shared device."
    assert said in page(gpu, CASES, RESULTS, [], None, "today", at_a_time=8)
    assert "at a time" not in page(gpu, CASES, RESULTS, [], None, "today")


def test_a_number_that_is_not_one_is_furthest_from_its_bound() -> None:
    broken = {"what": "values, mean", "off": float("nan"), "bound": 1.0}
    assert nearest([*CHECKS, broken]).startswith("values, mean: nan")


@pytest.mark.slow
def test_hours_are_operations_over_the_measured_speed() -> None:
    def composed(experiment: str) -> object:
        return compose_config(f"experiment={experiment}")

    (fp32, tf32, bf16) = paper_hours(RESULTS, composed, ["cory/imdb_ppo"])  # type: ignore[arg-type]
    assert (fp32.products, tf32.products, bf16.products) == ("fp32", "tf32", "bf16")
    assert (fp32.case, tf32.case) == ("big", None) and tf32.hours is None
    config = parse_config(compose_config("experiment=cory/imdb_ppo"))
    assumed, _ = estimated_hours(config, {})
    assert assumed is not None and fp32.hours == pytest.approx(assumed * 1e13 / 2e13)


def test_only_comparable_cases_on_the_large_model_tell_a_speed() -> None:
    assert speeds(RESULTS) == {("fp32", "none"): ("big", 2e13)}
    packed = RESULTS["big"] | {"measured": MEASURED | {"products": "bf16", "quantisation": "nf4"}}
    slower = RESULTS["big"] | {"measured": MEASURED | {"operations_per_s": 1e13}}
    found = speeds(RESULTS | {"large, nf4": packed, "slower": slower})
    assert found == {("fp32", "none"): ("big", 2e13), ("bf16", "nf4"): ("large, nf4", 2e13)}


def test_operations_of_an_iteration_by_hand() -> None:
    """10 rows of 8 + 4 tokens: sampled (2), scored twice (4), two epochs of 6 per weight, token."""
    words = (
        "algorithm=ppo", "algorithm.prompts_per_iteration=10", "algorithm.minibatch_size=10",
        "algorithm.epochs=2", "algorithm.sampling.min_response_tokens=4",
        "algorithm.sampling.max_response_tokens=4", "task.max_prompt_tokens=8",
    )  # fmt: skip
    config = parse_config(compose_config(*words))
    wanted = 10 * 12 * weights_of(config) * (2 + 4 + 2 * 6)
    assert operations_per_iteration(config) == wanted
