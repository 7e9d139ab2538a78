"""A verifier learns from a frozen model's answers, is measured, and judges as it was trained."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cory import distributed
from cory.algorithms.verifier import AnswerCollector, QuestionAnswers, verdict_metrics
from cory.config import Config
from cory.episode import Episode, Prompt, Turn
from cory.evaluation.responses import PromptScores
from cory.models.actor_critic import VALUE_HEAD, is_of_head
from cory.models.attention import BY_ROWS
from cory.rewards.verifier import Verifier, readings
from cory.runs.export import export
from cory.trainers.supervised import SupervisedTrainer
from tests.support.building import measure
from tests.support.close import assert_close
from tests.support.composing import ConfigOf, parsed
from tests.support.refusals import refusal
from tests.support.supervising import VERIFIER, Holds, build_verifier


@pytest.mark.slow
def test_it_learns_which_answers_to_a_question_are_right(questions, tmp_path) -> None:
    config = questions(
        *VERIFIER,
        *("algorithm.prompts_per_iteration=8", "algorithm.answers_per_question=16"),
        *("algorithm.keep_per_label=8", "algorithm.minibatch_size=4", "algorithm.balance=true"),
        *("evaluation.samples=8", "seed=1"),  # with seed 0 it gets to 0.81 in so few steps
    )
    trainer = build_verifier(config)
    before, _ = measure(trainer, config, tmp_path)
    for iteration in range(20):
        trainer.step(iteration)
    after, _ = measure(trainer, config, tmp_path)
    for part in ("natural", "balanced", "within"):
        assert after[f"eval/verifier_auc/{part}"] > 0.9, (before, after)
    assert before["eval/verifier_auc/within"] < 0.65
    assert after["eval/verifier_accuracy/balanced"] > 0.8


def turn(response: str, right: bool | None = None) -> Turn:
    return Turn("x", "solo", 0, "", response, [1], [2], right=right)


def collector_of(config: Config) -> AnswerCollector:
    trainer = build_verifier(config)
    assert isinstance(trainer.collect, AnswerCollector)
    return trainer.collect


@pytest.mark.slow
@pytest.mark.parametrize("balance", [True, False])
def test_each_question_gives_as_many_right_as_wrong_answers(questions, balance: bool) -> None:
    config = questions(
        *VERIFIER, f"algorithm.balance={str(balance).lower()}", "algorithm.answers_per_question=8"
    )
    collector = collector_of(config)
    eos = collector.policy.bundle.tokenizer.eos_token_id
    collected = collector(0)
    examples = collected.examples["verifier"]
    labels = [example.label for example in examples]
    assert all(example.response_ids[-1] == eos for example in examples)
    if balance:
        assert labels.count(1.0) == labels.count(0.0) > 0
    else:  # 2 * keep_per_label of each of the four questions, right or wrong
        assert len(labels) == 16 and labels.count(1.0) != labels.count(0.0)
    # exported examples have the whole answer, whose first token is not learnt
    for example in examples:
        said = example.pair(collector.policy.texts)
        whole = collector.policy.bundle.tokenizer.decode(
            [*example.context_ids, *example.response_ids], skip_special_tokens=True
        )
        assert example.lead in (0, 1) and said["prompt"] + said["completion"] == whole
    assert any(example.lead for example in examples)
    assert 1.3 <= collected.metrics["verifier/temperature"] <= 1.5


WRONG_TEXTS = ("wrong_common", "wrong_rare", "wrong_none")


@pytest.mark.parametrize(
    ("wrong", "worded"), [(2, "wrong_common"), (1, "wrong_rare"), (0, "wrong_none")]
)
def test_requests_are_worded_by_how_rare_wrong_answers_are(questions, wrong, worded) -> None:
    """Ten of each are wanted; from two wrong ones on, a fifth, they are not rare."""
    collector = collector_of(questions(*VERIFIER, "algorithm.keep_per_label=10"))
    texts = collector.config.request_texts
    for name in WRONG_TEXTS:
        setattr(texts, name, f"{name}: {{query}} {{answer}}")
    texts.paraphrase = "{query}: {answer} like {style}"
    known = [turn(f"right {n}", True) for n in range(4)]
    answers = QuestionAnswers(
        Prompt("0", "Q", "7"), [*known, *(turn(f"wrong {n}", False) for n in range(wrong))]
    )
    requests = collector.wrong_requests(answers)
    assert len(requests) == 10 - wrong
    assert requests[0].text == f"{worded}: Q {'wrong' if wrong else 'right'} 0"
    again = collector.paraphrases(answers)
    assert [request.right for request in again].count(True) == 6
    assert [request.right for request in again].count(False) == (10 - wrong if wrong else 0)
    assert again[0].text == f"Q: right 0 like {'wrong 0' if wrong else 'right 0'}"

    asked: list[str] = []

    def ask(prompts: Sequence[Prompt], texts: Sequence[str]) -> list[Turn]:
        """Every second answer comes out right, whatever was asked for."""
        asked.extend(texts)
        return [turn("x", n % 2 == 0) for n in range(len(texts))]

    collector._fulfil([answers], ask)
    assert len(asked) > 10 - wrong
    # those that were to be wrong and came out right are not kept
    assert len(answers.labelled(False)) - wrong <= len(asked) / 2 + 1


def judge(folder: Path, **changes: object) -> Verifier:
    """reward=verifier, on a folder."""
    words = ["reward=verifier", f"reward.path={folder}", "reward.batch_size=3"]
    words += ["reward.precision=fp32", "reward.compute_precision=fp32", "reward.chat=false"]
    config = parsed(*words).reward.replace(**changes)
    task: object = Holds(None, "aeiou")
    return Verifier(config, task, torch.device("cpu"), None)  # type: ignore[arg-type]  # judges only


Trained = tuple[SupervisedTrainer, Path]


@pytest.fixture
def train(questions: ConfigOf, tmp_path: Path) -> Callable[[str, float], Trained]:
    """`train(sharing, likelihood_coef)`: a verifier after two iterations, and its folder."""

    def make(sharing: str, likelihood_coef: float) -> Trained:
        config = questions(
            *VERIFIER,
            *(f"model.sharing={sharing}", "model.adapter.dropout=0"),
            f"algorithm.likelihood_coef={likelihood_coef}",
        )
        trainer = build_verifier(config)
        trainer.step(0)
        trainer.step(1)
        policy = trainer.agents["verifier"]
        folder = tmp_path / "verifier"
        export(policy.model, policy.bundle.tokenizer, folder, config.model.path, "")
        return trainer, folder

    return make


SAID = ["7", " so it is 7", "", "the movie was good and bad", " and"]


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize("likelihood_coef", [0.0, 0.05])
def test_the_reward_is_what_the_verifier_says_in_training(train, sharing, likelihood_coef) -> None:
    """The same tokens, the same number, by the engine and from the folder."""
    trainer, folder = train(sharing, likelihood_coef)
    policy = trainer.agents["verifier"]
    coef = trainer.config.likelihood_coef  # type: ignore[attr-defined]  # a verifier's
    queries = [f"{number} and 3? So" for number in range(len(SAID))]
    rows = readings(policy.bundle.texts, queries, SAID, None)
    logits = []
    policy.model.eval()
    for context, response in rows:  # one by one: nothing is padded
        ids = torch.tensor([[*context, *response]])
        mask = torch.ones(1, len(response), dtype=torch.bool)
        logprobs, values, *_ = policy.engine(ids, torch.ones_like(ids, dtype=torch.bool), mask)
        assert ids[0, -1] == policy.bundle.tokenizer.eos_token_id
        logits.append(values[0, -1] + coef * logprobs[0, :-1].sum())
    episodes = [
        Episode(Prompt(query, query), [turn(said)])
        for query, said in zip(queries, SAID, strict=True)
    ]
    judge(folder).score(episodes)
    scores = [episode.turns[0].score for episode in episodes]
    assert_close(torch.tensor(scores), torch.stack(logits).sigmoid())
    assert len({round(score or 0, 7) for score in scores}) == len(SAID)
    mixed = judge(folder, compute_precision="bf16")
    assert mixed.model.lm.config._attn_implementation == BY_ROWS
    assert mixed.model.lm.product_dtype == torch.bfloat16
    layers = mixed.model.lm.transformer.h[0]
    assert layers.mlp.c_fc.weight.dtype == torch.bfloat16  # it never trains
    assert layers.ln_1.weight.dtype == mixed.model.value_head.weight.dtype == torch.float32
    rounded = list(mixed.scores([(episode.prompt, episode.turns[0]) for episode in episodes]))
    assert rounded == pytest.approx(scores, abs=0.02) and rounded != scores
    assert judge(folder, attention="eager").model.lm.config._attn_implementation == "eager"


def test_a_verifier_learns_by_the_verdict_that_it_gives(questions: ConfigOf) -> None:
    """Loss and accuracy of its first step, before it has learnt, with and without likelihood."""
    trainer = build_verifier(questions(*VERIFIER, "algorithm.likelihood_coef=0.7"))
    logprobs = torch.full((1, 3), -2.0)
    values, labels = torch.full((1, 3), 1.0), torch.ones(1)
    mask = torch.ones(1, 3, dtype=torch.bool)
    # the verdicts are 1, 1 - 1.4 and 1 - 2.8
    expected = -torch.tensor([[1.0, -0.4, -1.8]]).sigmoid().log()
    found, statistics = trainer.loss(logprobs, values, labels, mask)
    assert_close(found, expected)
    assert statistics["accuracy"].tolist() == [0.0]
    plain = build_verifier(questions(*VERIFIER))
    found, statistics = plain.loss(logprobs, values, labels, mask)
    assert_close(found, -values.sigmoid().log())
    assert statistics["accuracy"].tolist() == [1.0]


def test_its_head_may_learn_alone(questions: ConfigOf) -> None:
    """Nothing else gets a gradient here; elsewhere that is the sign of a broken run."""
    trainer = build_verifier(
        questions(*VERIFIER, "model.value_detached=true", "algorithm.likelihood_coef=0")
    )
    (policy,) = trainer.agents.values()
    before = {name: weight.clone() for name, weight in policy.model.trainable().items()}
    trainer.step(0)
    after = policy.model.trainable()
    moved = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    assert moved and all(map(is_of_head, moved))
    assert trainer.updates[policy.name] == 1


def test_right_is_said_where_the_answer_is_known_and_absent_turns_get_nothing(
    train: Callable[[str, float], Trained], monkeypatch
) -> None:
    absent = Turn("x", "solo", 0, "", "", [], [])
    known = Episode(Prompt("0", "1 and 2?", answer="3"), [turn("a"), turn("x"), absent])
    unknown = Episode(Prompt("1", "1 and 2?"), [turn("a")])
    reward = judge(train("adapters", 0.05)[1])
    reward.score([known, unknown])
    assert [one.right for one in known.turns] == [True, False, None]
    assert unknown.turns[0].right is None
    monkeypatch.setattr(distributed, "first_works", lambda work: [not right for right in work()])
    for one in known.turns:
        one.right = one.score = None
    reward.score([known, unknown])
    assert [one.right for one in known.turns] == [False, True, None]
    assert known.turns[2].score is None
    # its own question alone decides, and the batch it was judged in does not
    assert_close(known.turns[0].score or 0, unknown.turns[0].score or 1)


def test_an_answer_that_is_too_long_loses_its_end(train: Callable[[str, float], Trained]) -> None:
    _, folder = train("copies", 0.05)
    reward = judge(folder)
    long, cut = turn(" good" * 500), turn(" good" * 400)
    reward.score([Episode(Prompt("0", "it"), [long, cut])])
    assert_close(long.score or 0, cut.score or 1)


@pytest.mark.slow
def test_a_folder_that_is_no_verifier_is_refused(train, tmp_path) -> None:
    _, folder = train("adapters", 0.0)

    def refused(rule: str, **changes: object) -> None:
        assert rule in refusal(lambda: judge(folder, **changes))

    refused("there is no verifier", path=str(tmp_path / "nowhere"))
    refused("reward.base=", base=str(tmp_path / "nowhere"))
    save_file({"weight": torch.zeros(1, 7), "bias": torch.zeros(1)}, folder / VALUE_HEAD)
    refused("size mismatch for weight")
    (folder / VALUE_HEAD).unlink()
    refused("there is no verifier")


def test_verdicts_by_hand() -> None:
    """Two questions: one with right and wrong answers, one with wrong ones only."""
    given = [(0.9, True), (0.2, True), (0.4, False), (0.6, False), (0.1, False)]
    found = verdict_metrics([given, [(0.7, False)]], scores := PromptScores(["a", "b"]))
    assert scores.values["eval/verifier_accuracy/natural"] == [3 / 5, 0]
    # natural: 0.9 right, 0.2 right (missed), 0.4 and 0.1 wrong, 0.6 and 0.7 wrong (missed)
    assert found["eval/verifier_accuracy/natural"] == pytest.approx(3 / 6)
    # pairs: 0.9 above all four; 0.2 above 0.1 alone
    assert found["eval/verifier_auc/natural"] == pytest.approx(5 / 8)
    # balanced: the first two of each of the first question's
    assert found["eval/verifier_accuracy/balanced"] == pytest.approx(2 / 4)
    assert found["eval/verifier_auc/balanced"] == pytest.approx(2 / 4)
    assert found["eval/verifier_auc/within"] == pytest.approx(4 / 6)
    # without right answers there is no AUC
    found = verdict_metrics([[(0.2, False)], [(0.6, False)]], PromptScores(["a", "b"]))
    assert found == {"eval/verifier_accuracy/natural": 0.5}
