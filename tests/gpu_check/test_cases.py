"""The cases: every way of running is among them, and each says why a machine cannot run it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from cory.config import Config, parse_config
from cory.gpu_check.cases import CASES, REFERENCES, Case, in_order
from cory.gpu_check.machine import Machine, has_bitsandbytes, power_of_two, this_machine
from cory.runs.precision import CPU_HAS_BF16
from tests.support.composing import compose_config


def config_of(case: Case, machine: Machine) -> Config:
    return parse_config(compose_config(*case.overrides(machine, "asset:tiny")))


def named(name: str) -> Case:
    (case,) = (case for case in CASES if case.name == name)
    return case


@pytest.fixture(scope="module")
def configs(request: pytest.FixtureRequest) -> dict[str, Config]:
    machine = Machine("cuda", "", 8, 8, 0, 0, 1, (9, 0), "", True, True, "", {})
    return {case.name: config_of(case, machine) for case in in_order()}


@pytest.mark.slow
def test_every_case_composes_and_every_way_of_running_is_there(configs: dict[str, Config]) -> None:
    found = [configs[case.name] for case in CASES]
    models, hardware = [c.model for c in found], [c.hardware for c in found]
    assert {m.precision for m in models} == {"fp32", "bf16", "fp16"}
    assert {m.compute_precision for m in models} == {"fp32", "tf32", "bf16", "fp16"}
    assert {m.quantisation for m in models} == {"none", "nf4"}
    assert {m.attention for m in models} == {"auto", "eager", "sdpa", "flash_attention_2"}
    assert {h.zero_stage for h in hardware} == {0, 1, 2, 3}
    assert {(h.offload_optimizer, h.offload_parameters) for h in hardware} == {
        (False, False), (True, False), (True, True)
    }  # fmt: skip
    assert {h.processes for h in hardware} == {1, 8}
    assert all(h.device == "cuda" for h in hardware)


@pytest.mark.slow
def test_references_are_float32_on_the_cpu(configs: dict[str, Config]) -> None:
    for case in REFERENCES:
        config = configs[case.name]
        assert (config.hardware.device, config.hardware.processes) == ("cpu", 1)
        assert (config.model.precision, config.model.compute_precision) == ("fp32", "fp32")


@pytest.mark.slow
def test_references_are_float32_on_a_cpu_with_bf16_too(
    monkeypatch: pytest.MonkeyPatch, gpu: Machine
) -> None:
    """Where the quickstart, whose settings they have, would compute its products in bf16."""
    monkeypatch.setenv(CPU_HAS_BF16, "1")
    assert {config_of(case, gpu).model.compute_precision for case in REFERENCES} == {"fp32"}


def test_a_case_differs_from_its_reference_by_how_it_is_computed_alone(
    configs: dict[str, Config],
) -> None:
    for case in CASES:
        if case.reference is None:
            continue
        own, other = configs[case.name], configs[case.reference]
        assert own.algorithm == other.algorithm, case.name
        for key in ("path", "sharing", "quantisation"):
            assert getattr(own.model, key) == getattr(other.model, key), case.name


def test_references_come_first_and_names_are_folders(configs: dict[str, Config]) -> None:
    order = [case.name for case in in_order()]
    assert len(order) == len(CASES) + len(REFERENCES) == len({*order})
    for case in CASES:
        assert case.reference is None or order.index(case.reference) < order.index(case.name)
    assert not [pair for pair in combinations(order, 2) if pair[0].lower() == pair[1].lower()]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("all devices", {"processes": 1}, "needs two or more devices, this machine has 1"),
        ("tf32", {"capability": (7, 5)}, "needs a GPU of compute capability 8.0 or more, this one"),
        ("bf16", {"capability": (7, 5)}, "needs a GPU of compute capability 8.0 or more, this one"),
        ("ZeRO 1, fp16", {"device": "cpu"}, "needs a GPU"),
        ("tf32", {"device": "cpu"}, "needs a GPU"),
        ("flash attention, bf16", {"has_flash_attention": False}, "needs the package flash_attn"),
        ("flash attention, bf16", {"device": "cpu"}, "needs a GPU"),
        ("nf4", {"has_bitsandbytes": False}, "needs bitsandbytes with its library for cuda"),
    ],
)
def test_what_a_machine_lacks_is_named(
    gpu: Machine, name: str, change: dict[str, object], said: str
) -> None:
    assert named(name).obstacle(gpu) is None
    found = named(name).obstacle(replace(gpu, **change))
    assert found is not None and found.startswith(said)


def test_a_large_gpu_runs_all_of_them(gpu: Machine) -> None:
    assert not [case.name for case in in_order() if case.obstacle(gpu)]


def test_this_machine_is_described_and_another_has_another_fingerprint() -> None:
    machine = this_machine("cpu")
    assert machine.device == "cpu" and machine.memory == machine.main_memory > 2**30
    assert machine.packages["torch"] and has_bitsandbytes("cpu") and not has_bitsandbytes("made-up")
    assert machine.fingerprint() == this_machine("cpu").fingerprint()
    assert machine.fingerprint() != replace(machine, name="another").fingerprint()
    assert [power_of_two(n) for n in (1, 2, 3, 7, 8)] == [1, 2, 2, 4, 8]


def test_speed_is_told_by_adapters_on_the_large_model_on_one_device(
    configs: dict[str, Config],
) -> None:
    for case in in_order():
        config = configs[case.name]
        plain = (config.model.sharing, config.hardware.world, config.hardware.zero_stage)
        wanted = config.model.name == "large" and plain == ("adapters", 1, 0)
        assert case.tells_speed == (wanted and not case.is_reference), case.name


def test_first_steps_are_larger_than_rounding_and_the_same_for_what_is_compared(
    configs: dict[str, Config], gpu: Machine
) -> None:
    rates = {name: config.algorithm.learning_rate for name, config in configs.items()}
    assert (rates["fp32"], rates["adapters"], rates["large, bf16"]) == (1e-3, 1e-2, 3e-3)
    assert rates["large, copies, bf16"] == 1e-5
    assert (
        config_of(named("large, bf16"), replace(gpu, device="cpu")).algorithm.learning_rate == 1e-2
    )
