"""reward=classifier: reward models and sequence classifiers, in any precision."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from cory.config import ClassifierConfig, Config, ConfigError, SumConfig
from cory.episode import Episode, Prompt, Turn
from cory.memory import judge_part, parts_of
from cory.rewards.classifier import Classifier
from tests.support.building import CLASSIFIER
from tests.support.close import assert_close
from tests.support.composing import parsed
from tests.support.fixtures import LONGEST, make_tokenizer, save
from tests.support.llama import llama_tokenizer

SAID = [(" good film", "the movie"), ("", "bad"), (" it is bad and it is", "a"), (" was", "I can")]
WIDE = {"hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 4}  # for 4 bits


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random Llama with one output, and of a tokenizer with a chat template."""
    tokenizer = llama_tokenizer()
    torch.manual_seed(0)
    model = LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=len(tokenizer), num_hidden_layers=2, num_labels=1, initializer_range=0.1,
            max_position_embeddings=LONGEST, pad_token_id=None, **WIDE
        )
    )  # fmt: skip
    return save(model, tokenizer, str(tmp_path_factory.mktemp("reward_model")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random BERT with two classes."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer), num_hidden_layers=1, max_position_embeddings=LONGEST,
            initializer_range=0.2, pad_token_id=0, id2label={0: "BAD", 1: "GOOD"},
            label2id={"BAD": 0, "GOOD": 1}, **WIDE
        )
    )  # fmt: skip
    return save(model, tokenizer, str(tmp_path_factory.mktemp("bert")))


def classifier(path: str, **settings: Any) -> Classifier:
    return Classifier(CLASSIFIER.replace(path=path, **settings), None, torch.device("cpu"))


def scores(reward: Classifier, prompt: Callable[[str], Prompt] | None = None) -> list[float]:
    rows = [
        Episode(
            Prompt(query, query) if prompt is None else prompt(query),
            [Turn("agent_0", "solo", 0, "seen", said, [1], [2])],
        )
        for said, query in SAID
    ]
    reward.score(rows)
    return [float(turn.score or 0) for episode in rows for turn in episode.turns]


def test_a_reward_model_gives_its_only_output(reward_model: str) -> None:
    reward = classifier(reward_model, label=None, batch_size=1)
    found = scores(reward)
    for (said, query), score in zip(SAID, found, strict=True):
        ids = torch.tensor([reward.tokenizer(query + said)["input_ids"]])
        assert_close(score, reward.model(input_ids=ids).logits[0, 0].item())
    assert_close(scores(classifier(reward_model, label="LABEL_0")), found)
    share = scores(classifier(reward_model, label=None, output="probability"))
    assert_close(share, torch.tensor(found).sigmoid().tolist())
    # rows of other lengths beside one change nothing: the last token is found without padding
    assert_close(scores(classifier(reward_model, label=None, batch_size=4)), found)
    assert len({round(score, 4) for score in found}) == len(SAID)


@pytest.mark.parametrize("kind", ["template", "pad", "others", "roberta"])
def test_texts_in_a_batch_score_as_each_alone(kind: str, tmp_path: Path) -> None:
    """Also those that end in the token to pad with: by a template's EOS, or by themselves."""
    tokenizer, chat = llama_tokenizer(), kind == "template"
    if chat:  # no pad token: EOS is taken for it
        tokenizer.chat_template = "{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"
    else:
        tokenizer.add_special_tokens({"pad_token": "<0x00>"})
    size = {"vocab_size": len(tokenizer), "num_hidden_layers": 2, "num_labels": 1, **WIDE}
    size |= {"initializer_range": 0.2, "max_position_embeddings": LONGEST}
    # `others`: config.json names another one than the tokenizer
    size["pad_token_id"] = {"template": None, "others": 7}.get(kind, tokenizer.pad_token_id)
    torch.manual_seed(0)
    model: Any
    if kind == "roberta":
        model = RobertaForSequenceClassification(RobertaConfig(**size))
    else:
        model = LlamaForSequenceClassification(LlamaConfig(**size))
    path = save(model.eval(), tokenizer, str(tmp_path / "model"))
    said = ["word", "", "a longer one", "!"] if chat else ["word", "a<0x00>", "<0x00>", ""]
    turns = [Turn("agent_0", "solo", 0, "seen", text, [1], [2]) for text in said]
    classifier(path, label=None, chat=chat).score([Episode(Prompt("0", "ask"), turns)])
    model.config.pad_token_id = None  # alone, the score is at the last token
    for text, turn in zip(said, turns, strict=True):
        whole = f"ask</s>{text}</s>" if chat else "ask" + text
        ids = torch.tensor([tokenizer(whole, add_special_tokens=not chat)["input_ids"]])
        assert_close(float(turn.score or 0), model(input_ids=ids).logits[0, 0].item())


@pytest.mark.parametrize("column", [2, -1, 1.5, "1", None])
def test_a_label_beside_the_logits_is_refused(bert: str, tmp_path: Path, column: Any) -> None:
    """A column that is not there fails at the first score; a negative one reads another class."""
    folder = tmp_path / "judge"
    shutil.copytree(bert, folder)
    described = json.loads((folder / "config.json").read_text())
    described["label2id"] = {"BAD": 0, "GOOD": column}
    (folder / "config.json").write_text(json.dumps(described))
    with pytest.raises(ConfigError) as error:
        classifier(str(folder), label="GOOD")
    assert str(error.value).startswith(f"reward.path={folder}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("label", "rule"), [(None, "has BAD, GOOD"), ("good", "of BAD, GOOD")])
def test_a_label_that_is_none_of_its_classes_is_refused(
    bert: str, label: str | None, rule: str
) -> None:
    with pytest.raises(ConfigError, match=r"^reward\.label=(null|good) .*" + rule):
        classifier(bert, label=label)


def test_a_chat_goes_through_the_template_once(reward_model: str) -> None:
    alone = classifier(reward_model, label=None, chat=None)
    assert alone.chat and not classifier(reward_model, label=None).chat
    turn = Turn("agent_0", "solo", 0, "seen", "yes", [1], [2])
    asked = alone._text(Prompt("0", "is it"), turn)
    assert asked == "<s>[INST] is it [/INST]<s>[INST] yes [/INST]"
    messages = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "is it"})
    longer = alone._text(Prompt("0", "is it", messages=messages), turn)
    assert longer == "<s>[INST] be brief [/INST]<s>[INST] is it [/INST]<s>[INST] yes [/INST]"
    seen: list[torch.Tensor] = []
    alone.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True
    )
    alone._scores([asked])
    bos = alone.tokenizer.bos_token_id
    assert seen[0][0, 0] == bos and (seen[0] == bos).sum() == 2


def test_a_template_that_is_not_there_is_refused(bert: str) -> None:
    judge = classifier(bert, label="GOOD", chat=None)
    assert not judge.chat
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "the movie"}]
    turn = Turn("a", "solo", 0, "", " good", [1], [2])
    with pytest.raises(ConfigError, match=r"reads texts: it cannot be shown prompt 7, which"):
        judge.score([Episode(Prompt("7", "the movie", messages=chat), [turn])])
    judge.score([Episode(Prompt("7", "the movie", messages=chat[1:]), [turn])])
    assert turn.score is not None
    with pytest.raises(
        ConfigError, match=r"reward\.chat=true: the tokenizer of reward\.path=.* has"
    ):
        classifier(bert, label="GOOD", chat=True)


def test_a_template_that_refuses_an_answer_is_told_at_once(
    reward_model: str, tmp_path: Path
) -> None:
    shutil.copytree(reward_model, tmp_path / "judge")
    template = "{% if messages[-1].role != 'user' %}{{ raise_exception('no answers') }}{% endif %}"
    (tmp_path / "judge" / "chat_template.jinja").write_text(template)
    rule = r"^reward\.path=\S+: the chat template refuses messages of user, assistant: no answers$"
    with pytest.raises(ConfigError, match=rule):
        classifier(str(tmp_path / "judge"), label=None, chat=None)


@pytest.mark.parametrize("settings", [{"precision": "bf16", "compute_precision": "bf16"},
                                      {"compute_precision": "bf16"}])  # fmt: skip
def test_half_precision_is_close_and_its_outputs_are_float32(
    reward_model: str, settings: dict[str, str]
) -> None:
    exact = scores(classifier(reward_model, label=None))
    rounded = classifier(reward_model, label=None, **settings)
    products: set[torch.dtype] = set()
    rounded.model.model.layers[1].mlp.up_proj.register_forward_hook(
        lambda *seen: products.add(seen[2].dtype)
    )
    found = scores(rounded)
    assert products == {torch.bfloat16}
    assert 0 < max(abs(a - b) for a, b in zip(exact, found, strict=True)) < 0.1
    # the output layer computes in float32: not every score is a bfloat16 number
    assert (torch.tensor(found).bfloat16().float() != torch.tensor(found)).any()
    head = rounded.model.score.weight.dtype
    assert head == (torch.bfloat16 if "precision" in settings else torch.float32)
    assert rounded.model.model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["reward_model", "bert"])
def test_four_bits_leave_the_output_layer_whole(kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(kind)
    label = None if kind == "reward_model" else "GOOD"
    exact = scores(classifier(path, label=label))
    packed = classifier(path, label=label, quantisation="nf4")
    found = scores(packed)
    assert 0 < max(abs(a - b) for a, b in zip(exact, found, strict=True)) < 1
    kinds = [type(module).__name__ for module in packed.model.modules()]
    assert kinds.count("Linear4bit") >= 6
    assert type(getattr(packed.model, "score", None) or packed.model.classifier) is nn.Linear


def held_bytes(model: nn.Module) -> int:
    """Bytes of all weights and of the scales of quantised ones."""
    total = 0
    for weight in model.parameters():
        total += weight.numel() * weight.element_size()
        state = getattr(weight, "quant_state", None)
        if state is not None:
            total += state.absmax.numel() * state.absmax.element_size()
            total += 4 * state.state2.absmax.numel() if state.nested else 0
    return total


@pytest.mark.parametrize("kind", ["reward_model", "bert"])
def test_layers_are_kept_as_their_products_need_them(
    kind: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(kind)
    config = CLASSIFIER.replace(path=path, compute_precision="bf16")
    model = classifier(path, label=("GOOD", None)[kind == "reward_model"],
                       compute_precision="bf16").model  # fmt: skip
    whole = sum(4 * parameter.numel() for parameter in model.parameters())
    assert 0.4 * whole < held_bytes(model) < 0.9 * whole
    assert held_bytes(model) <= judge_part("reward", config).bytes


@pytest.mark.parametrize(("precision", "each"), [("fp32", 4), ("bf16", 2)])
def test_the_estimate_knows_the_precision(bert: str, precision: str, each: int) -> None:
    config = CLASSIFIER.replace(path=bert, precision=precision, compute_precision=precision)
    model = classifier(bert, label="GOOD").model
    elements = sum(parameter.numel() for parameter in model.parameters())
    assert judge_part("reward", config).bytes == each * elements
    away = judge_part("reward", config.replace(path="not/here"))
    assert away.bytes == 0 and away.what == "reward (not on this machine: not counted)"


def test_every_part_of_a_sum_is_in_the_estimate(
    bert: str, reward_model: str, config_of: Callable[..., Config]
) -> None:
    config = config_of()
    one, other = (CLASSIFIER.replace(path=path) for path in (bert, reward_model))
    away = CLASSIFIER.replace(path="not/here")
    config.reward = SumConfig(
        name="sum", parts={"tone": one, "taste": other, "away": away}, weights={}
    )
    found = {part.what: part.bytes for part in parts_of(config) if "reward" in part.what}
    assert found == {
        "reward.parts.tone": judge_part("", one).bytes,
        "reward.parts.taste": judge_part("", other).bytes,
        "reward.parts.away (not on this machine: not counted)": 0,
    }


def test_texts_are_cut_to_what_is_asked_or_can_be_read(bert: str, tmp_path: Path) -> None:
    widths: list[int] = []

    def read(reward: Classifier) -> int:
        reward.model.register_forward_pre_hook(
            lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]),
            with_kwargs=True,
        )
        reward._scores([" good" * 200])
        return widths[-1]

    assert read(classifier(bert, label="GOOD")) == LONGEST
    assert read(classifier(bert, label="GOOD", max_tokens=5)) == 5
    with pytest.raises(ConfigError, match=rf"reward\.max_tokens=65 is more than the {LONGEST} tok"):
        classifier(bert, label="GOOD", max_tokens=LONGEST + 1)
    tokenizer = make_tokenizer()
    roberta = RobertaForSequenceClassification(
        RobertaConfig(
            vocab_size=len(tokenizer), num_hidden_layers=1, max_position_embeddings=LONGEST,
            num_labels=1, pad_token_id=1, **WIDE
        )
    )  # fmt: skip
    path = save(roberta, tokenizer, str(tmp_path / "roberta"))
    # its positions begin behind that of padding
    assert read(classifier(path, label=None)) == LONGEST - 2


def test_sentiment_is_a_preset_of_what_it_was() -> None:
    for option, path in (("sentiment", "lvwerra/distilbert-imdb"),
                         ("sentiment_tiny", "asset:tiny_sentiment")):  # fmt: skip
        assert parsed(f"reward={option}").reward == CLASSIFIER.replace(
            name="sentiment", path=path, batch_size=256
        )
    small = parsed("reward=sentiment", "scale=small", "experiment=cory/imdb_cory").reward
    assert isinstance(small, ClassifierConfig) and small.path == "asset:tiny_sentiment"


def test_the_scores_of_the_shipped_judge_are_those_of_before() -> None:
    """Measured before it could have another precision than float32."""
    reward = classifier("asset:tiny_sentiment", batch_size=256)
    assert [round(score, 5) for score in scores(reward)] == SHIPPED


SHIPPED = [0.70134, -1.34009, -0.1123, 0.06491]

REFUSED = [
    (["reward.output=score"], r"reward\.output must be one of logit, probability, got score"),
    (["reward.batch_size=0"], r"reward\.batch_size must be at least 1, got 0"),
    (["reward.max_tokens=0"], r"reward\.max_tokens must be at least 1, got 0"),
    (["reward.precision=fp8"], r"reward\.precision must be one of fp32, bf16, fp16, got fp8"),
    (["reward.precision=fp16"], r"reward\.precision=fp16 needs a GPU: hardware\.device=cpu has"),
    (
        ["reward.precision=bf16", "reward.compute_precision=fp32"],
        r"reward\.compute_precision=fp32 does not go with reward\.precision=bf16",
    ),
    (["reward.quantisation=int8"], r"reward\.quantisation must be one of none, nf4, got int8"),
    (["reward.compute_precision=tf32"], r"reward\.compute_precision=tf32 needs a GPU"),
]


@pytest.mark.parametrize(("words", "rule"), REFUSED)
def test_settings_that_cannot_be_are_refused(words: list[str], rule: str) -> None:
    with pytest.raises(ConfigError, match=f"^{rule}"):
        parsed("reward=classifier", "reward.path=here", *words)
