"""Multiagent Finetuning: who speaks, who learns what, and that nobody else moves."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cory import distributed
from cory.algorithms.maft import finetune_plan, maft_debate
from cory.config import MaftConfig
from cory.episode import Turn
from cory.runtime.worker import build_components
from cory.trainers.steps import Stage
from cory.trainers.supervised import CollectedExamples
from tests.support.building import LetterShare, measure
from tests.support.composing import ConfigOf
from tests.support.supervising import NAMES, build_agents, debates_of, sums


@pytest.mark.parametrize(
    ("policies", "first", "later"),
    [
        ("specialised", NAMES[:3], NAMES[3:]),
        ("generation", NAMES[:3], NAMES[:3]),
        ("single", ["single"] * 3, ["single"] * 3),
    ],
)
def test_who_speaks(maft: ConfigOf, policies: str, first: list[str], later: list[str]) -> None:
    trainer = build_agents(maft(f"algorithm.policies={policies}", "algorithm.turns=3"))
    assert list(trainer.agents) == list(dict.fromkeys(first + later))
    collected = trainer.collect(0)
    assert 0 <= collected.metrics["debate/shortened"] <= 1
    for episode in debates_of(collected):
        assert [turn["agent"] for turn in episode["turns"]] == [*first, *later, *later]


@pytest.mark.parametrize(
    ("policies", "kind"), [("specialised", "CRIT1"), ("generation", "GEN1"), ("single", "CRIT1")]
)
def test_names_tell_critics_where_there_are_some(maft: ConfigOf, policies: str, kind: str) -> None:
    """In the second round; Table 6's untrained model speaks as both."""
    config = maft("algorithm.identities=true", f"algorithm.policies={policies}")
    components = build_components(config)
    wording = maft_debate(config.algorithm, components.task, components.bundle_of, 3, 2).wording(
        "generation_0", 0
    )
    rounds = [[Turn("a", "debater_0", 0, "", "7", [1], [1]) for _ in range(3)]]
    (prompt,) = components.task.sample(1)
    assert f"Agent ID: {kind} (" in str(next(wording.contexts(prompt, rounds, 0)))


def voted(answers: list[str | None], unreadable: str = "dropped") -> str | None:
    """The label, with `vote_ties=lexicographic`."""
    counts = Counter(answers)
    unread = counts.pop(None, 0)
    best = min(counts, key=lambda answer: (-counts[answer], answer), default=None)
    outvoted = unreadable == "counted" and best is not None and unread > counts[best]
    return None if outvoted else best


def test_unreadable_answers_give_labels_as_asked(maft: ConfigOf) -> None:
    found = {}
    for unreadable in ("dropped", "counted"):
        rule = f"algorithm.unreadable_votes={unreadable}"
        trainer = build_agents(maft(rule, "algorithm.policies=single"))
        trainer.components.task.letters = "a"  # few answers can be read
        collected = trainer.collect(0)
        read = trainer.components.task.read
        last = [[read(turn["response"]) for turn in d["turns"][3:]] for d in debates_of(collected)]
        labels = [voted(answers, unreadable) for answers in last]
        found[unreadable] = collected.metrics["debate/labelled/team"]
        assert found[unreadable] == sum(label is not None for label in labels) / len(labels)
        agreeing = sum(
            answer == label for a, label in zip(last, labels, strict=True) for answer in a if label
        )
        assert collected.metrics["debate/consensus/team"] == pytest.approx(agreeing / 30)
    assert 0 < found["counted"] < found["dropped"]


@pytest.mark.parametrize("loss", ["last_turn", "all_turns"])
def test_each_agent_learns_from_its_own_answers_that_agree(maft: ConfigOf, loss: str) -> None:
    """As Algorithm 1 says, written out once more."""
    trainer = build_agents(maft(f"algorithm.critic_loss={loss}"))
    collected = trainer.collect(0)
    read = trainer.components.task.read
    debates = debates_of(collected)
    assert len(debates) == 10
    for agent in range(3):
        learnt, corrected, kept = [], [], []
        for episode in debates:
            turns = episode["turns"]
            label = voted([read(turn["response"]) for turn in turns[3:]])
            first, second = turns[agent], turns[3 + agent]
            agrees = [label is not None and read(t["response"]) == label for t in (first, second)]
            if agrees[0]:
                learnt.append(first["response_ids"])
            if agrees[1]:
                own = [first["response_ids"], second["response_ids"]]
                (kept if agrees[0] else corrected).append(own if loss == "all_turns" else own[1:])
        examples = {
            kind: collected.examples[f"{kind}_{agent}"] for kind in ("generation", "critic")
        }
        assert [example.response_ids for example in examples["generation"]] == learnt
        critic = f"critic_{agent}"
        assert collected.metrics[f"supervised/corrected/{critic}"] == len(corrected)
        assert collected.metrics[f"supervised/kept/{critic}"] == len(kept)
        each = min(len(corrected), len(kept))
        size = 2 if loss == "all_turns" else 1
        found = [example.response_ids for example in examples["critic"]]
        found = [found[start : start + size] for start in range(0, len(found), size)]
        assert sum(own in corrected for own in found) == each
        assert sum(own in kept for own in found) == each == len(found) - each
    assert sum(bool(collected.examples[name]) for name in NAMES[:3]) > 1
    assert any(collected.examples[name] for name in NAMES[3:])


def test_right_answers_as_labels(maft: ConfigOf, monkeypatch) -> None:
    """Each agent learns its right answers, whatever the vote; metrics stay those of the votes."""
    found = {}
    for labels in ("vote", "answer"):
        trainer = build_agents(maft(f"algorithm.labels={labels}"))
        task = trainer.components.task
        sample = task.task.sample
        monkeypatch.setattr(
            task.task, "sample", lambda n, own=sample: [replace(p, answer="t") for p in own(n)]
        )
        found[labels] = trainer.collect(0)
    for key, value in found["vote"].metrics.items():
        if not key.startswith("supervised/"):
            assert found["answer"].metrics[key] == value, key
    learnt = {}
    for agent, name in enumerate(NAMES[:3]):
        turns = [debate["turns"][agent] for debate in debates_of(found["answer"])]
        right = [turn["response_ids"] for turn in turns if task.read(turn["response"]) == "t"]
        learnt[name] = [example.response_ids for example in found["answer"].examples[name]]
        assert learnt[name] == right
    voted_for = {name: len(found["vote"].examples[name]) for name in learnt}
    assert {name: len(own) for name, own in learnt.items()} != voted_for


def test_a_reward_in_place_of_labels(maft: ConfigOf) -> None:
    """An agent learns its answers with a score above the mean of all six to the problem."""
    config = maft("algorithm.labels=reward")
    trainer = build_agents(config, reward=LetterShare())
    collected = trainer.collect(0)
    learnt: dict[str, list[list[int]]] = {name: [] for name in NAMES[:3]}
    scores, last = [], 0
    for episode in debates_of(collected):
        turns = episode["turns"]
        scores += [turn["score"] for turn in turns]
        mean = sum(scores[-6:]) / 6
        for turn in turns[:3]:
            if turn["score"] > mean:
                learnt[turn["agent"]].append(turn["response_ids"])
        last += sum(turn["score"] > mean for turn in turns[3:])
    found = collected.examples
    assert {n: [e.response_ids for e in found[n]] for n in learnt} == learnt
    assert sum(map(len, learnt.values())) > 3
    metrics = collected.metrics
    kinds = [metrics[f"supervised/{kind}/{name}"] for kind in ("corrected", "kept")
             for name in NAMES[3:]]  # fmt: skip
    assert sum(kinds) == last > 0
    assert metrics["supervised/score/team"] == pytest.approx(sum(scores) / len(scores))
    metrics, lines = measure(trainer, config, Path(config.run_dir))
    for number in (0, 1):
        own = [t["score"] for line in lines for t in line["turns"][3 * number :][:3]]
        assert metrics[f"eval/score/turn_{number + 1}"] == pytest.approx(sum(own) / len(own))


def test_agreeing_answers_of_all_turns_and_agents_train_one_model(maft: ConfigOf) -> None:
    trainer = build_agents(maft("algorithm.policies=single", "algorithm.select=agreeing"))
    collected = trainer.collect(0)
    (examples,) = collected.examples.values()
    read = trainer.components.task.read
    expected = []
    for episode in debates_of(collected):
        label = voted([read(turn["response"]) for turn in episode["turns"][3:]])
        expected += [
            (turn["context_ids"], turn["response_ids"])
            for turn in episode["turns"]
            if label is not None and read(turn["response"]) == label
        ]
    assert [(e.context_ids, e.response_ids) for e in examples] == expected
    assert len(expected) > 4
    texts = trainer.agents["single"].texts
    assert all(texts.context_ids(e.asked) == e.context_ids for e in examples)


HINTED = [
    *("algorithm.policies=single", "algorithm.select=correct", "algorithm.agents=1"),
    *("algorithm.turns=1", "algorithm.evaluation_agents=1", "algorithm.evaluation_turns=1"),
]


def test_a_hint_is_learnt_as_if_it_had_not_been_given(maft: ConfigOf) -> None:
    trainer = build_agents(maft(*HINTED))
    collected = trainer.collect(0)
    (examples,) = collected.examples.values()
    expected, hinted = [], 0
    for episode in debates_of(collected):
        first, second = episode["turns"]
        if trainer.components.task.is_right(first["response"], ""):
            assert second["response_ids"] == []
            expected.append((first["context_ids"], first["response_ids"]))
        elif trainer.components.task.is_right(second["response"], ""):
            assert second["context"] == f"{episode['prompt']['text'].removesuffix(' So')} 7 So"
            expected.append((first["context_ids"], second["response_ids"]))
            hinted += 1
    assert [(e.context_ids, e.response_ids) for e in examples] == expected
    assert 0 < hinted < len(expected)
    texts = trainer.agents["single"].texts
    assert all(texts.context_ids(e.asked) == e.context_ids for e in examples)


@pytest.mark.slow
def test_the_first_process_says_what_is_right_and_what_is_learnt(
    maft: ConfigOf, monkeypatch, tmp_path: Path
) -> None:
    """Comparing formulas can run out of time in one process and not in another."""
    hinted = maft(*HINTED, f"run_dir={tmp_path / 'hinted'}")
    trainer = build_agents(hinted)
    task = type(trainer.collect.components.task)  # type: ignore[attr-defined]
    monkeypatch.setattr(task, "is_right", lambda task, response, answer: True)
    episodes = trainer.collect(0).episodes
    assert episodes and all(episode.turns[1].absent for episode in episodes)
    trainer = build_agents(maft(f"run_dir={tmp_path / 'own'}"))
    monkeypatch.setattr(distributed, "first_works", lambda work: ({"x": []}, {"found": 1.0}))
    collected = trainer.collect(0)
    assert collected.examples == {"x": []} and collected.metrics["found"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_a_step_trains_everybody_who_has_something_to_learn(maft: ConfigOf, sharing: str) -> None:
    trainer = build_agents(maft(f"model.sharing={sharing}"))
    collect, learners = trainer.collect, []

    def noted(iteration: int) -> CollectedExamples:
        found = collect(iteration)
        learners.extend(name for name in NAMES if found.examples[name])
        return found

    trainer.collect = noted
    before = sums(trainer)
    if sharing == "copies":  # adapters begin with random weights of their own, which do nothing yet
        assert before["generation_0"] == before["critic_2"]
    trainer.step(0)
    after = sums(trainer)
    assert [name for name in NAMES if after[name] != before[name]] == learners
    assert len({tuple(after[name]) for name in learners}) == len(learners) > 3


def test_rates_and_passes_of_each_kind_and_iteration(maft: ConfigOf) -> None:
    config = maft("algorithm.epochs=2", "algorithm.critic_epochs=1").algorithm
    assert isinstance(config, MaftConfig)
    found = [
        (taken.epochs, taken.learning_rate, taken.fresh)
        for iteration in (0, 1)
        for name in ("generation_1", "critic_1")
        for taken in [finetune_plan(config, name, iteration, None)]
    ]
    assert found == [(2, 3e-3, True), (1, 1e-3, True), (2, 2e-3, True), (1, 2e-3, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("sharing", "products"), [("copies", "bf16"), ("adapters", "fp32")])
def test_from_the_base_again(maft: ConfigOf, sharing: str, products: str, tmp_path: Path) -> None:
    """The second iteration trains what the first one did, at the same rates, on other debates."""
    trainer = build_agents(
        maft(
            *("algorithm.start=base", "algorithm.schedule=linear"),
            *(f"model.sharing={sharing}", f"model.compute_precision={products}"),
            *("algorithm.policies=single", "algorithm.select=agreeing"),
        )
    )
    policy = trainer.agents["single"]
    start = {k: v.detach().clone() for k, v in policy.engine.trainable.items()}
    trainer.step(0)
    learnt = {k: v.detach().clone() for k, v in policy.engine.trainable.items()}
    examples = trainer.collect(1).examples["single"]
    shuffle = trainer.components.streams.shuffle.get_state()
    trainer._learn(policy, examples, 1)
    again = {k: v.detach().clone() for k, v in policy.engine.trainable.items()}
    assert any(not torch.equal(again[k], learnt[k]) for k in again)
    for name, value in start.items():  # by hand: back to the start, and the same once more
        policy.engine.trainable[name].data.copy_(value)
    trainer.components.streams.shuffle.set_state(shuffle)
    policy.engine.reset_optimizer()
    taken = trainer.finetune_plan("single", 1)
    trainer.update(policy, examples, taken.epochs, Stage(0, 1, taken.learning_rate))
    assert all(torch.equal(again[k], v) for k, v in policy.engine.trainable.items())


@pytest.mark.parametrize("unreadable", ["dropped", "counted"])
def test_the_first_agents_answers_and_the_vote(maft, tmp_path, unreadable: str) -> None:
    rule = f"algorithm.unreadable_votes={unreadable}"
    config = maft("evaluation.prompts=6", "algorithm.evaluation_turns=2", rule)
    trainer = build_agents(config)
    trainer.components.task.letters = "a"  # few answers can be read; it is the right one
    metrics, lines = measure(trainer, config, tmp_path)
    assert [len(line["turns"]) for line in lines] == [6] * 6
    read = trainer.components.task.read
    gold = read("7")
    for turn in (1, 2):
        said = [line["turns"][3 * turn - 3 : 3 * turn] for line in lines]
        last = [voted([read(turn["response"]) for turn in turns], unreadable) for turns in said]
        assert metrics[f"eval/vote/turn_{turn}"] == pytest.approx(last.count(gold) / 6)
        first = [read(line["turns"][3 * turn - 3]["response"]) == gold for line in lines]
        share = sum(first) / 6
        assert metrics[f"eval/single/turn_{turn}"] == pytest.approx(share)
    assert metrics["eval/consensus_diversity/turn_2"] >= 0
