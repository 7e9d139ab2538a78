"""TF32: a switch of the whole process, on only where it is asked for and there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cory import inference
from cory.config import products_of
from cory.models.precision import set_float32_products
from cory.runtime import build
from cory.trainers.sanity_checks import tolerance_of
from tests.support.composing import parsed
from tests.support.refusals import refusal

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
TF32 = ("hardware=gpu1", "model.compute_precision=tf32")


@pytest.fixture(autouse=True)
def _switch_as_before() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def state() -> str:
    return str(torch.backends.cuda.matmul.fp32_precision)


def with_device(monkeypatch: pytest.MonkeyPatch, *capability: int) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)


def test_it_is_on_where_asked_for_and_off_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with_device(monkeypatch, 8, 0)
    set_float32_products({"model": "bf16", "reward": "tf32"}, CUDA)
    assert state() == "tf32" and torch.backends.cuda.matmul.allow_tf32
    set_float32_products({"model": "fp32"}, CUDA)  # whatever the environment made torch's default
    assert state() == "ieee" and not torch.backends.cuda.matmul.allow_tf32
    set_float32_products({"model": "tf32"}, CPU)  # where agents of a run on a GPU may debate
    assert state() == "ieee"


def test_a_device_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_device(monkeypatch, 7, 5)
    chosen = {"model.compute_precision": "bf16", "partner.compute_precision": "tf32"}
    message = refusal(lambda: set_float32_products(chosen, CUDA))
    assert message.startswith("partner.compute_precision=tf32 needs a CUDA device")
    assert message.endswith("capability 8.0 or more, this one has 7.5; set fp32")


def test_a_verifier_takes_it_from_the_model() -> None:
    config = parsed(*TF32, "reward=verifier", "reward.path=here")
    assert set(products_of(config).values()) == {"tf32"}
    assert tolerance_of(config.model) == 0.02


class Enough(Exception):
    """What the test wants has happened."""


def test_a_run_and_a_debate_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any model is loaded: what a process is asked for, reaches torch."""
    asked: list[dict[str, str]] = []

    def loaded(*_: object) -> None:
        raise Enough

    for module in (build, inference):
        monkeypatch.setattr(module, "set_float32_products", lambda chosen, _: asked.append(chosen))
        monkeypatch.setattr(module, "Team", loaded)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with pytest.raises(Enough):
        build.build_parts(parsed(*TF32, "reward.compute_precision=tf32"))
    config = parsed("experiment=maft/maft", "scale=small", *TF32)
    with pytest.raises(Enough):
        inference.TrainedTeam(Path("unused"), config, "cuda")
    assert [{*chosen.values()} for chosen in asked] == [{"tf32"}, {"tf32"}]
