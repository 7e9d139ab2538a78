"""The products of a phase by themselves: which are noted, and how they are timed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from cory.performance import products
from cory.performance.products import alone, executed_by_phase
from cory.trainers.clock import Clock

aten = torch.ops.aten
F32, BF16 = torch.float32, torch.bfloat16


def test_products_are_noted_as_they_are_executed_with_their_backward() -> None:
    layer = nn.Linear(4, 5, bias=False)
    with executed_by_phase() as found:
        clock = Clock()
        with torch.autocast("cpu", BF16), torch.no_grad():
            layer(torch.randn(3, 4))
            layer(torch.randn(3, 4))
        clock.lap("rollout_s")
        layer(torch.randn(3, 4)).sum().backward()
        clock.lap("update_s")
    # a layer keeps its weights transposed
    (product,) = found["rollout_s"].products
    assert product == (aten.mm.default, (((3, 4), (4, 1), BF16), ((4, 5), (1, 4), BF16)))
    assert found["rollout_s"].products[product] == 2
    assert found["rollout_s"].operations > 2  # numbers are drawn and cast, too
    assert sum(found["update_s"].products.values()) == 2  # forward, and the gradient of weights
    assert all(layout[2] == F32 for _, layouts in found["update_s"].products for layout in layouts)


def test_the_floor_adds_up_each_product_as_often_as_it_is_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with executed_by_phase() as found:
        clock = Clock()
        for _ in range(3):
            torch.randn(3, 4) @ torch.randn(4, 5)
        torch.addmm(torch.randn(5), torch.randn(3, 4), torch.randn(4, 5))
        clock.lap("update_s")
    cost = {aten.mm.default: 2.0, aten.addmm.default: 5.0}
    monkeypatch.setattr(products, "alone", lambda function, layouts: cost[function])
    assert found["update_s"].seconds() == 3 * 2.0 + 5.0


def test_every_kind_of_product_runs_by_itself() -> None:
    query, key, value = torch.randn(3, 2, 3, 5, 8, requires_grad=True).unbind()
    with executed_by_phase() as found:
        clock = Clock()
        scaled_dot_product_attention(query, key, value).sum().backward()
        torch.randn(2, 3, 4) @ torch.randn(2, 4, 5)
        torch.baddbmm(torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5))
        torch.randn(3, 4) @ torch.randn(4, 5)
        torch.addmm(torch.randn(5), torch.randn(3, 4), torch.randn(4, 5))
        clock.lap("update_s")
    seconds = {
        function: alone(function, layouts) for function, layouts in found["update_s"].products
    }
    assert set(seconds) == set(products.PRODUCTS) and min(seconds.values()) > 0


def test_a_larger_product_takes_longer() -> None:
    def square(width: int) -> float:
        return alone(aten.mm.default, tuple(((width, width), (width, 1), F32) for _ in range(2)))

    assert square(512) > 4 * square(32)
