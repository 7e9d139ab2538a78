"""A case is compared with the CPU's numbers: deliberate errors in the code are found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cory.gpu_check.cases import CASES, COPIES, REFERENCES, SMALL
from cory.gpu_check.compare import Check, checks, rounding_of
from cory.gpu_check.machine import this_machine
from cory.gpu_check.measure import NUMBERS, ORDER, RESULT, Order, run_case, run_process
from cory.gpu_check.random_models import make_llama
from cory.models import ppo_policy, team
from cory.models.sampling import generation
from cory.trainers import estimators, objective, ppo

Judge = Callable[[str], list[Check]]
slow = pytest.mark.slow
OVERRIDES = {case.name: case for case in (*REFERENCES, *CASES)}


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """A case joins a process group; what names its rank is not left to commands of other tests."""
    yield
    os.environ.pop("RANK", None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the numbers of the small model on the CPU."""
    folder = tmp_path_factory.mktemp("reference")
    make_llama(folder / "model", SMALL)
    numbers, _ = run_case(order_of(COPIES, folder, None))
    (folder / NUMBERS).write_text(json.dumps(numbers))
    return folder


def order_of(name: str, folder: Path, reference: Path | None) -> Order:
    overrides = OVERRIDES[name].overrides(this_machine("cpu"), str(folder / "model"))
    return Order(overrides, None if reference is None else str(reference))


@pytest.fixture
def judge(place: Path) -> Iterator[Judge]:
    """The comparisons of a case that do not hold."""

    def wrong(name: str) -> list[Check]:
        numbers, measured = run_case(order_of(name, place, place))
        kinds = ("precision", "products", "quantisation")
        rounding = rounding_of(*(measured[kind] for kind in kinds))
        wanted = json.loads((place / NUMBERS).read_text())
        found = checks(numbers, wanted, rounding, measured["layers"])
        assert len(found) == 16
        return [check for check in found if not check.holds]

    yield wrong


def names(found: list[Check]) -> str:
    return ", ".join(check.what for check in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bf16",
        *(
            pytest.param(n, marks=slow)
            for n in ("fp32", "mixed precision", "ZeRO 3, mixed precision")
        ),
    ],
)
def test_without_an_error_all_comparisons_hold(judge: Judge, name: str) -> None:
    assert not judge(name)


@pytest.mark.parametrize(
    ("types", "least"),
    [
        (("fp32", "fp32", "none"), "fp32"),
        (("fp32", "bf16", "none"), "bf16"),
        (("fp32", "tf32", "none"), "tf32"),
        (("fp32", "fp32", "nf4"), "nf4"),
        (("bf16", "bf16", "nf4"), "bf16"),
    ],
)
def test_the_least_exact_type_sets_the_bound(types: tuple[str, str, str], least: str) -> None:
    assert rounding_of(*types) == least


@pytest.mark.slow
def test_a_flipped_sign_in_the_loss_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in bfloat16, whose bounds are the widest."""
    right = objective.clipped_policy_loss

    def flipped(logprobs: Tensor, before: Tensor, advantages: Tensor, *rest: Any, **kw: Any) -> Any:
        return right(logprobs, before, -advantages, *rest, **kw)

    monkeypatch.setattr(objective, "clipped_policy_loss", flipped)
    assert "logprobs moved by the first update" in names(judge("bf16"))


@slow
def test_a_dropped_attention_mask_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    right = team.response_states

    def unmasked(lm: Any, ids: Tensor, attention: Tensor, response: Tensor) -> Tensor:
        return right(lm, ids, torch.ones_like(attention), response)

    monkeypatch.setattr(team, "response_states", unmasked)
    monkeypatch.setattr(ppo, "check_first_batch", lambda *_: None)  # which finds it, too
    assert "logprobs, mean" in names(judge("bf16"))


@slow
def test_a_reference_that_is_another_model_is_found(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a policy whose rotary frequencies were rounded was, in half precision."""

    def rounded(model: Any, dtype: torch.dtype) -> None:
        model.to(torch.bfloat16).to(dtype)
        for name, buffer in model.named_buffers():
            buffer.copy_(buffer * 1.01) if "inv_freq" in name else None

    monkeypatch.setattr(team, "cast_weights", rounded)
    monkeypatch.setattr(ppo, "check_first_batch", lambda *_: None)
    assert "KL before the first update" in names(judge("fp32"))


@slow
def test_a_wrong_greedy_token_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    right = generation.pick

    def second(logits: Tensor, seen: Any, sampling: Any, uniform: Any) -> Any:
        if sampling is not None:
            return right(logits, seen, sampling, uniform)
        return logits.topk(2).indices[:, 1], torch.zeros(len(logits))

    monkeypatch.setattr(generation, "pick", second)
    assert names(judge("bf16")) == "greedy tokens, lead of the CPU's"


@slow
def test_a_wrong_coefficient_of_a_loss_is_found(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = estimators.gae

    def doubled(*given: Any) -> Any:
        advantages, returns = right(*given)
        return advantages, 2 * returns

    monkeypatch.setattr(estimators, "gae", doubled)
    assert "ppo/loss/value/agent_0" in names(judge("bf16"))


@slow
def test_an_error_that_training_itself_refuses_is_the_reason(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ppo_policy.PPOPolicy.annotate
    monkeypatch.setattr(
        ppo_policy.PPOPolicy,
        "annotate",
        lambda agent, turns: replace(
            (batch := right(agent, turns)), logprobs=batch.logprobs - batch.response_mask.float()
        ),
    )
    order = order_of("fp32", place, place)
    (tmp_path / ORDER).write_text(json.dumps(vars(order)))
    assert run_process(tmp_path) == 1
    result = json.loads((tmp_path / RESULT).read_text())
    assert result["error"].startswith("FirstUpdateError: agent_0: before the first update")
    assert not (tmp_path / NUMBERS).exists()


@slow
def test_a_model_that_does_not_fit_is_an_obstacle(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cory.memory.preflight.main_memory", lambda: 10**6)
    (tmp_path / ORDER).write_text(json.dumps(vars(order_of("fp32", place, place))))
    assert run_process(tmp_path) == 0
    assert "GiB" in json.loads((tmp_path / RESULT).read_text())["obstacle"]


@slow
def test_a_case_replays_what_the_cpu_said(place: Path, tmp_path: Path) -> None:
    """Else it would learn from other tokens; other prompts than the CPU's are refused."""
    stored = json.loads((place / NUMBERS).read_text())
    stored["spoken"][0]["rows"].reverse()
    (tmp_path / NUMBERS).write_text(json.dumps(stored))
    with pytest.raises(RuntimeError, match="not those of the case on the CPU"):
        run_case(order_of("fp32", place, tmp_path))
