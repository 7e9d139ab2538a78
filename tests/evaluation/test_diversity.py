"""Models that measure diversity, on tiny random weights: by hand, in any batches and padding."""

from collections.abc import Hashable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
)

from cory import distributed
from cory.config import ConfigError, DiversityConfig
from cory.episode import Prompt
from cory.evaluation.debates import MaftMetrics
from cory.evaluation.diversity import (
    DebateRecord,
    Diversity,
    Encoder,
    Scorer,
    nll_others,
    token_nll,
)
from cory.functional.votes import kl_between, kl_diversity
from cory.models.bundle import ModelBundle
from cory.models.policy import Policy
from tests.support.building import plain_logprobs
from tests.support.close import assert_close
from tests.support.composing import ConfigOf
from tests.support.fixtures import make_tokenizer, save
from tests.support.speaking import Script

CPU = torch.device("cpu")
TEXTS = ["a good film", "the movie was bad", "it", "a bad film and it is a good movie"]
QUESTION = "the film"


def settings(**changes: object) -> DiversityConfig:
    off = DiversityConfig(
        encoder=None,
        scorer=None,
        kl_to_base=False,
        nll_others=False,
        precision="fp32",
        batch_size=8,
        max_tokens=48,
    )
    return off.replace(**changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random T5 with its tokenizer; the decoder's weights are there, too."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
    )
    return save(model, tokenizer, str(tmp_path_factory.mktemp("tiny_t5")))


@pytest.fixture(scope="module")
def policies(config_of: ConfigOf) -> list[Policy]:
    """Three critics of which no two are alike."""
    config = config_of("hardware.rollout_batch_size=2")
    bundle = ModelBundle(config.model, CPU)
    stream = torch.Generator().manual_seed(0)
    models = list(bundle.new_models(["critic_0", "critic_1", "critic_2"], stream))
    for model in models:
        with torch.no_grad():
            for parameter in model.lm.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=stream))
    return [Policy(bundle, model, None, config.hardware) for model in models]


def debated(
    answers: Sequence[Hashable | None], responses: Sequence[str], base: Sequence[str] = ()
) -> DebateRecord:
    """Two turns: all said `it` in the first one, `responses` in the last; the vote is 7."""
    return DebateRecord(
        question=QUESTION,
        answers=[[7] * len(answers), answers],
        votes=[7, 7],
        responses=[["it"] * len(answers), responses],
        contexts=[f"{QUESTION} {n}" for n in range(len(answers))],
        base=base,
    )


def pooled(model: torch.nn.Module, folder: str, text: str) -> torch.Tensor:
    """The mean of last hidden states, read alone and without padding."""
    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        states: torch.Tensor = model(input_ids=ids).last_hidden_state
    return states[0].mean(0)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_embeddings_of_t5_and_of_causal_models(tiny_t5, tiny_model, batch_size: int) -> None:
    config = settings(batch_size=batch_size)
    for folder, model in (
        (tiny_t5, T5EncoderModel.from_pretrained(tiny_t5)),
        (tiny_model, AutoModelForCausalLM.from_pretrained(tiny_model).base_model),
    ):
        expected = torch.stack([pooled(model.eval(), folder, text) for text in TEXTS])
        assert_close(Encoder(folder, config, CPU).embeddings(TEXTS), expected)


def test_long_texts_end_early_and_an_empty_one_is_read_too(tiny_model: str, tiny_t5: str) -> None:
    long = "good " * 200
    for folder in (tiny_model, tiny_t5):
        encoder = Encoder(folder, settings(max_tokens=5), CPU)
        cut, short, empty = encoder.embeddings([long, "good good good good good", ""])
        assert_close(cut, short)
        assert empty.isfinite().all()
    # a model that cannot read so much reads what it can
    assert Encoder(tiny_model, settings(max_tokens=4096), CPU).longest == 64
    assert Encoder(tiny_t5, settings(max_tokens=4096), CPU).longest == 4096


def distribution(folder: str, question: str, response: str) -> torch.Tensor:
    """By hand: softmax after the question and after each token of the response, on average."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    shown, said = tokenizer(f"{question}\n")["input_ids"], tokenizer(response)["input_ids"]
    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(folder).eval()
        logits = model(torch.tensor([[*shown, *said]])).logits[0]
    return F.softmax(logits[len(shown) - 1 :], -1).mean(0).log()


@pytest.mark.parametrize("batch_size", [1, 3])
def test_distributions_of_responses(tiny_model: str, batch_size: int) -> None:
    scorer = Scorer(tiny_model, settings(batch_size=batch_size), CPU)
    model = scorer.loaded()
    for question, responses in ((QUESTION, [*TEXTS, ""]), ("it", ["bad"])):
        expected = [distribution(tiny_model, question, response) for response in responses]
        found = scorer.distributions(model, question, responses)
        assert_close(found, torch.stack(expected))


def test_nll_by_hand(policies: list[Policy]) -> None:
    contexts = ["the", "a film and it is", "movie", "it"]
    responses = ["a good film", "bad", "", "the movie was a good film"]
    bundle, model = policies[1].bundle, policies[1].model
    found = token_nll(policies[1], contexts, responses)
    assert found[2] is None
    for context, response, nll in zip(contexts, responses, found, strict=True):
        if nll is not None:
            shown, said = (bundle.tokenizer(text)["input_ids"] for text in (context, response))
            assert_close(nll, -plain_logprobs(model.lm, shown, said).mean())


def test_nll_of_others_is_over_ordered_pairs(policies: list[Policy]) -> None:
    debates = [debated([7] * 3, TEXTS[:3]), debated([7] * 3, ["bad", "", "good"])]
    each = [
        nll
        for d in debates
        for n, listener in enumerate(policies)
        for j in range(3)
        if j != n
        for nll in token_nll(listener, [d.contexts[j]], [d.responses[-1][j]])
        if nll is not None
    ]
    assert len(each) == 10  # of 12 pairs: nobody can find an empty response likely
    found = nll_others(debates, "critic", policies)
    assert found == pytest.approx({"eval/nll_others/critic": sum(each) / 10})
    # a single model listens to the other seats
    one = [nll for d in debates for nll in token_nll(policies[0], d.contexts, d.responses[-1])]
    counted = [nll for nll in one if nll is not None]
    found = nll_others(debates, "single", [policies[0]] * 3)
    assert found == pytest.approx({"eval/nll_others/single": sum(counted) / 5})


@pytest.mark.slow
def test_what_a_debate_says(tiny_model: str, tiny_t5: str, policies: list[Policy]) -> None:
    config = settings(encoder=tiny_t5, scorer=tiny_model, kl_to_base=True, nll_others=True)
    debates = [
        debated([7, 8, 7], [TEXTS[0], TEXTS[1], TEXTS[3]], ["bad"]),
        debated([7, None, 8], TEXTS[:3], ["good", "a film"]),  # one agrees: no pair
    ]
    found = Diversity(config, CPU).measure(debates, ["generation", "critic"], policies)
    assert found.keys() == {
        *(f"eval/consensus_diversity/turn_{turn}" for turn in (1, 2)),
        *(f"eval/dissimilarity/turn_{turn}" for turn in (1, 2)),
        *("eval/kl_diversity/turn_2", "eval/kl_base/generation", "eval/kl_base/critic"),
        "eval/nll_others/critic",
    }
    assert found["eval/consensus_diversity/turn_1"] == 0
    assert found["eval/consensus_diversity/turn_2"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    agreed = Encoder(tiny_t5, config, CPU).embeddings([TEXTS[0], TEXTS[3]])
    cosine = F.cosine_similarity(*agreed, dim=0).item()
    assert found["eval/dissimilarity/turn_2"] == pytest.approx(1 - cosine, abs=1e-6)

    def logp(texts: Sequence[str]) -> torch.Tensor:
        return torch.stack([distribution(tiny_model, QUESTION, text) for text in texts])

    last = [logp(d.responses[-1]) for d in debates]
    base, first = [logp(d.base) for d in debates], logp(["it"])
    expected = {
        "eval/kl_diversity/turn_2": [kl_diversity(own) for own in last],
        "eval/kl_base/critic": [kl_between(*pair) for pair in zip(last, base, strict=True)],
        "eval/kl_base/generation": [kl_between(first, own) for own in base],
    }
    for name, numbers in expected.items():
        assert found[name] == pytest.approx(sum(numbers) / 2, rel=1e-3), name
        assert found[name] > 0
    assert (
        found["eval/nll_others/critic"]
        == nll_others(debates, "critic", policies)["eval/nll_others/critic"]
    )


def test_which_answers_agree_is_what_the_first_process_finds(tiny_model: str, monkeypatch) -> None:
    scorer = Scorer(tiny_model, settings(max_tokens=4), CPU)
    with pytest.raises(ConfigError, match="leaves no room for a response; it reads 4"):
        scorer.distributions(None, "a question of more than four tokens", ["it"])
    diversity = Diversity(settings(encoder=tiny_model), CPU)
    debates = [debated([7, 7, 8], TEXTS[:3])]
    found = "eval/dissimilarity/turn_2"
    assert found in diversity.measure(debates, ["single"] * 2, [])
    monkeypatch.setattr(distributed, "first_works", lambda work: [[0]])  # time ran out there
    assert found not in diversity.measure(debates, ["single"] * 2, [])


def test_the_base_model_is_asked_what_agents_are_asked() -> None:
    messages = ({"role": "system", "content": "Count."}, {"role": "user", "content": "1 + 1"})
    prompts = [Prompt("a", "1 + 1", messages=messages), Prompt("b", "2")]
    config: Any = SimpleNamespace(
        diversity=settings(scorer="x", kl_to_base=True),
        sampling=SimpleNamespace(min_response_tokens=1, max_response_tokens=4),
    )
    script, none = Script(lambda agent, asked: "said"), cast(Any, None)
    metrics = MaftMetrics(config, {}, cast(Any, script["base"]), none, None)
    request: Any = SimpleNamespace(seed=0)
    assert metrics._base_responses(prompts, request) == [["said"], ["said"]]
    ((*_, shown),) = script.shown
    assert shown == [prompts[0].opening, "2"] and shown[0] != "1 + 1"
