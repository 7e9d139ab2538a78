"""reward=classifier: reward models and sequence classifiers, in any precision."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from cory.config import ClassifierConfig
from cory.episode import Episode, Prompt, Turn
from cory.rewards.classifier import Classifier
from tests.support.building import CLASSIFIER
from tests.support.close import assert_close
from tests.support.composing import parsed
from tests.support.fixtures import LONGEST, make_tokenizer, save
from tests.support.llama import llama_tokenizer

WIDE = {"hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 4}  # for 4 bits
SAID = [  # query, what the pioneer said, what the observer said
    ("the movie", " was good", " was bad and it is a bad film"),
    ("a", " film", " film"),
    ("this sentence", " is it", ""),
]
TEXTS = [query + response for query, *both in SAID for response in both]


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


def classifier(path: str, **settings: Any) -> Classifier:
    return Classifier(CLASSIFIER.replace(path=path, **settings), None, torch.device("cpu"), None)


def scores(reward: Classifier) -> list[float]:
    """Of all that was said, agent by agent and prompt by prompt."""
    episodes = [
        Episode(
            Prompt(query, query),
            [
                Turn("agent_0", "pioneer", 0, query, first, [1], [2]),
                Turn("agent_1", "observer", 1, f"not judged: {first}", second, [1], [2]),
            ],
        )
        for query, first, second in SAID
    ]
    reward.score(episodes)
    return [float(turn.score or 0) for episode in episodes for turn in episode.turns]


def test_a_score_is_the_logit_of_query_and_response(tiny_judge: str) -> None:
    """Whoever spoke; the observer's prompt plays no part."""
    reward = classifier(tiny_judge)
    assert not reward.model.training
    assert not any(parameter.requires_grad for parameter in reward.model.parameters())
    found = scores(reward)
    for text, score in zip(TEXTS, found, strict=True):
        ids = torch.tensor([reward.tokenizer(text)["input_ids"]])
        assert_close(score, reward.model(input_ids=ids).logits[0, 1].item())
    assert len({round(score, 4) for score in found}) == 5  # two texts are the same


def test_a_probability_is_the_softmax_of_the_logits(tiny_judge: str) -> None:
    def both(output: str) -> list[torch.Tensor]:
        labels = ("POSITIVE", "NEGATIVE")
        return [
            torch.tensor(scores(classifier(tiny_judge, label=n, output=output))) for n in labels
        ]

    logits, share = both("logit"), both("probability")
    assert_close(share[0], torch.sigmoid(logits[0] - logits[1]))
    assert_close(share[0] + share[1], torch.ones(len(TEXTS)))
    assert share[0].std() > 0.01


def test_a_reward_model_gives_its_only_output(reward_model: str) -> None:
    found = scores(classifier(reward_model, label=None, batch_size=1))
    assert_close(scores(classifier(reward_model, label="LABEL_0")), found)
    share = scores(classifier(reward_model, label=None, output="probability"))
    assert_close(share, torch.tensor(found).sigmoid().tolist())


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
        alone = model(input_ids=ids).logits[0, 0].item()
        # products of other shapes round otherwise; padding that is read is off by far more
        assert_close(float(turn.score or 0), alone, rtol=1e-4)


def test_a_chat_goes_through_the_template_once(reward_model: str) -> None:
    chatting = classifier(reward_model, label=None, chat=None)
    assert chatting.chat and not classifier(reward_model, label=None).chat
    turn = Turn("agent_0", "solo", 0, "seen", "yes", [1], [2])
    asked = chatting._text(Prompt("0", "is it"), turn)
    assert asked == "<s>[INST] is it [/INST]<s>[INST] yes [/INST]"
    messages = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "is it"})
    longer = chatting._text(Prompt("0", "is it", messages=messages), turn)
    assert longer == "<s>[INST] be brief [/INST]<s>[INST] is it [/INST]<s>[INST] yes [/INST]"
    (ids,) = chatting.texts.ids([asked], None)
    bos = chatting.tokenizer.bos_token_id
    assert ids[0] == bos and list(ids).count(bos) == 2


def test_texts_are_cut_to_what_can_be_read(tiny_judge: str, tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    roberta = RobertaForSequenceClassification(
        RobertaConfig(
            vocab_size=len(tokenizer), num_hidden_layers=1, max_position_embeddings=LONGEST,
            num_labels=1, pad_token_id=1, **WIDE
        )
    )  # fmt: skip
    after_padding = save(roberta, tokenizer, str(tmp_path / "roberta"))  # so its positions begin
    for reward, longest in (
        (classifier(tiny_judge), LONGEST),
        (classifier(after_padding, label=None), LONGEST - 2),
    ):
        widths: list[int] = []
        reward.model.register_forward_pre_hook(
            lambda _, args, words, found=widths: found.append(words["input_ids"].shape[1]),
            with_kwargs=True,
        )
        # what is cut is the beginning: a response counts after any prompt
        good, bad = (reward._scores([" good" * 200 + said]) for said in (" a good film", " bad"))
        assert widths == [longest] * 2 and good != bad


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_half_precision_is_close_and_its_outputs_are_float32(reward_model, precision: str) -> None:
    exact = scores(classifier(reward_model, label=None))
    rounded = classifier(reward_model, label=None, precision=precision, compute_precision="bf16")
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
    assert head == (torch.bfloat16 if precision == "bf16" else torch.float32)
    assert rounded.model.model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16


def test_the_shipped_judge() -> None:
    """Its scores were measured once; at the small scale it stands for the paper's."""
    reward = classifier("asset:tiny_sentiment", batch_size=256)
    found = reward._scores(["the movie good film", "bad", "a it is bad and it is", "I can was"])
    assert found == pytest.approx([0.70134, -1.34009, -0.1123, 0.06491], abs=1e-5)
    assert parsed("reward=sentiment").reward == CLASSIFIER.replace(
        name="sentiment", path="lvwerra/distilbert-imdb", batch_size=256
    )
    small = parsed("reward=sentiment", "scale=small", "experiment=cory/imdb_cory").reward
    assert isinstance(small, ClassifierConfig) and small.path == "asset:tiny_sentiment"
