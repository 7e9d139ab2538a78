from __future__ import annotations

import torch
from torch import Tensor

from cory.episode import Batch, Episode, Prompt, Turn, turns_of

# two turns, 2 context and 3 response tokens; the second turn has 1 and 1
RESPONSE_MASK = torch.tensor([[True, True, True], [True, False, False]])
ONE_OUTSIDE = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
PER_TOKEN = ["logprobs", "ref_logprobs", "kl", "entropy", "values"]


def fields_of_a_batch() -> dict[str, Tensor]:
    context_mask = torch.tensor([[True, True], [False, True]])
    fields = {
        "input_ids": torch.arange(10).reshape(2, 5),
        "attention_mask": torch.cat([context_mask, RESPONSE_MASK], dim=1),
        "response_mask": RESPONSE_MASK,
        "credits": torch.tensor([1.0, 2.0]),
    }
    for i, name in enumerate(PER_TOKEN, start=1):
        fields[name] = i * RESPONSE_MASK.float()
    return fields


def test_rows_picks_the_same_turns_of_every_field() -> None:
    fields = fields_of_a_batch()
    picked = Batch(**fields).rows(torch.tensor([1, 0, 1]))
    assert len(picked) == 3
    for name, tensor in fields.items():
        assert getattr(picked, name).tolist() == [tensor[i].tolist() for i in (1, 0, 1)], name


def turn(agent: str, response: str) -> Turn:
    return Turn(agent, "pioneer", 0, "context", response, [1], [2])


def test_turns_of_an_agent_keep_the_order_of_the_episodes() -> None:
    a, b, c, d = turn("x", "a"), turn("y", "b"), turn("x", "c"), turn("x", "d")
    episodes = [Episode(Prompt("0", ""), [a, b, c]), Episode(Prompt("1", ""), [d])]
    assert [t.response for t in turns_of(episodes, "x")] == ["a", "c", "d"]
    assert [t.response for t in turns_of(episodes, "y")] == ["b"]
    assert turns_of(episodes, "z") == []
    assert turns_of(episodes, "x")[0] is a  # the turn itself, so that its credit can be filled
