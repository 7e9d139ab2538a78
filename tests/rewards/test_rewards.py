from __future__ import annotations

from typing import Any

import pytest
import torch

from cory import distributed
from cory.config import ExactMatchConfig
from cory.episode import Episode, Prompt, Turn
from cory.rewards.classifier import Classifier
from cory.rewards.exact_match import ExactMatch
from tests.support.building import CLASSIFIER
from tests.support.close import assert_close

SAID = [  # query, what the pioneer said, what the observer said
    ("the movie", " was good", " was bad and it is a bad film"),
    ("a", " film", " film"),
    ("this sentence", " is it", ""),
]


def episodes() -> list[Episode]:
    return [
        Episode(
            Prompt(str(n), query),
            [
                Turn("agent_0", "pioneer", 0, query, first, [1], [2]),
                Turn("agent_1", "observer", 1, f"not judged: {first}", second, [1], [2]),
            ],
        )
        for n, (query, first, second) in enumerate(SAID)
    ]


def judge(path: str, label: str = "POSITIVE", output: str = "logit", batch: int = 64) -> Classifier:
    config = CLASSIFIER.replace(path=path, label=label, output=output, batch_size=batch)
    return Classifier(config, None, torch.device("cpu"))


def scores(reward: Classifier, scored: list[Episode] | None = None) -> list[float]:
    scored = episodes() if scored is None else scored
    reward.score(scored)
    numbers = [turn.score for episode in scored for turn in episode.turns]
    assert all(isinstance(number, float) for number in numbers)
    return [number for number in numbers if number is not None]


def test_the_text_judged_is_query_and_response(tiny_judge: str) -> None:
    reward = judge(tiny_judge)
    together = scores(reward)
    texts = [query + response for query, *both in SAID for response in both]
    for text, score in zip(texts, together, strict=True):
        ids = torch.tensor([reward.tokenizer(text)["input_ids"]])
        assert_close(score, reward.model(input_ids=ids).logits[0, 1].item())
    # the observer's prompt plays no part: the same words, the same score
    assert together[2] == together[3]
    assert len({round(score, 4) for score in together}) == 5


def test_all_turns_of_all_agents_are_judged_together(tiny_judge: str) -> None:
    reward = judge(tiny_judge)
    rows: list[int] = []
    reward.model.register_forward_hook(lambda *seen: rows.append(len(seen[2].logits)))
    scores(reward)
    assert rows == [2 * len(SAID)]


def test_texts_of_similar_length_are_judged_together(tiny_judge: str) -> None:
    reward = judge(tiny_judge, batch=2)
    widths: list[int] = []
    reward.model.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    scores(reward)
    by_length = sorted((q + said for q, *both in SAID for said in both), key=len)
    longest = [max(len(i) for i in reward.tokenizer(by_length[n : n + 2])["input_ids"])
               for n in (0, 2, 4)]  # fmt: skip
    assert widths == longest and len(set(widths)) > 1


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_the_batch_size_changes_no_score(tiny_judge: str, output: str) -> None:
    expected = scores(judge(tiny_judge, output=output))
    for size in (1, 4, 5):
        assert_close(scores(judge(tiny_judge, output=output, batch=size)), expected)


def test_a_probability_is_the_softmax_of_the_logits(tiny_judge: str) -> None:
    logits = [torch.tensor(scores(judge(tiny_judge, label))) for label in ("POSITIVE", "NEGATIVE")]
    share = [
        torch.tensor(scores(judge(tiny_judge, label, "probability")))
        for label in ("POSITIVE", "NEGATIVE")
    ]
    assert_close(share[0], torch.sigmoid(logits[0] - logits[1]))
    assert_close(share[0] + share[1], torch.ones(2 * len(SAID)))
    assert share[0].std() > 0.01


def test_a_text_longer_than_the_judge_can_read_is_cut(tiny_judge: str) -> None:
    long = Turn("agent_0", "solo", 0, "", " good" * 500, [1], [2])
    cut = Turn("agent_0", "solo", 0, "", " good" * 100, [1], [2])
    first, second = scores(judge(tiny_judge), [Episode(Prompt("0", "it"), [long, cut])])
    assert_close(first, second)


def test_the_judge_learns_nothing(tiny_judge: str) -> None:
    reward = judge(tiny_judge)
    assert not reward.model.training
    assert not any(parameter.requires_grad for parameter in reward.model.parameters())
    assert scores(reward) == scores(reward)


class LastDigit:
    """A task whose answer is a response's last character."""

    def is_right(self, response: str, answer: str) -> bool:
        return response[-1:] == answer


def test_exact_match_judges_every_turn_by_its_own_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [Turn(agent, "r", 0, "", text, [1], [2]) for agent, text in (("x", "so 7"), ("y", "8"))]
    scored = [
        Episode(Prompt("0", "3 + 4", answer="7"), turns[:]),
        Episode(Prompt("1", "4 + 4", answer="8"), [Turn("x", "r", 0, "", "8", [1], [2])]),
    ]
    task: Any = LastDigit()
    ExactMatch(ExactMatchConfig(name="exact_match"), task, None).score(scored)
    assert [t.score for e in scored for t in e.turns] == [1.0, 0.0, 1.0]
    # whatever this process finds, the first one's verdict counts
    monkeypatch.setattr(distributed, "first_works", lambda work: [not right for right in work()])
    ExactMatch(ExactMatchConfig(name="exact_match"), task, None).score(scored)
    assert [t.right for e in scored for t in e.turns] == [False, True, False]
