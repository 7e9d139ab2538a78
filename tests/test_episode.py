from __future__ import annotations

import torch

from cory.episode import Batch


def test_rows_picks_the_same_turns_of_every_field() -> None:
    """Two turns of 2 context and 3 response tokens; the second has 1 and 1."""
    responses = torch.tensor([[True, True, True], [True, False, False]])
    contexts = torch.tensor([[True, True], [False, True]])
    fields = {
        "input_ids": torch.arange(10).reshape(2, 5),
        "attention_mask": torch.cat([contexts, responses], dim=1),
        "response_mask": responses,
        "credits": torch.tensor([1.0, 2.0]),
    }
    for i, name in enumerate(("logprobs", "ref_logprobs", "kl", "entropy", "values"), start=1):
        fields[name] = i * responses.float()
    picked = Batch(**fields).rows(torch.tensor([1, 0, 1]))
    assert len(picked) == 3
    for name, tensor in fields.items():
        assert getattr(picked, name).tolist() == [tensor[i].tolist() for i in (1, 0, 1)], name
