"""Roll-outs as the released code of CORY makes them: with dropout, and with the end's text."""

from dataclasses import replace

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory.episode import Episode
from cory.models import policy
from cory.models.generation import Response
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build, measure, steps
from tests.support.fixtures import END

DROPOUT = "model.rollout_dropout=true"
# a policy that stays what it is, so that the sampler alone can be another one
STILL = ["algorithm.learning_rate=1e-9", "algorithm.epochs=1"]


@pytest.fixture(scope="module")
def with_rates(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """`model.path` of a model whose checkpoint has dropout."""
    folder = str(tmp_path_factory.mktemp("with_rates"))
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    for rate in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        setattr(model.config, rate, 0.3)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return f"model.path={folder}"


def gaps(trainer: PPOTrainer, iterations: int) -> list[dict[str, float]]:
    """By agent, how far the sampler was from the policy in each iteration."""
    names = list(trainer.agents)
    steps = [trainer.step(iteration) for iteration in range(iterations)]
    return [{name: step[f"objective/sampler_gap_max/{name}"] for name in names} for step in steps]


@pytest.mark.parametrize("official", [False, True])
def test_dropout_acts_after_the_first_update_of_a_trainer(config_of, with_rates, official) -> None:
    """The released exchange builds trainers anew, of models that are not in training mode."""
    words = ["algorithm=cory", "algorithm.swap_every=2", with_rates, *STILL]
    words.append(f"algorithm.official_swap={official}".lower())
    found = gaps(build(config_of(*words, DROPOUT), LetterShare()), 4)
    acts = [all(gap > 1e-2 for gap in step.values()) for step in found]
    rests = [all(gap < 1e-4 for gap in step.values()) for step in found]
    assert acts == [False, True, not official, True]
    assert rests == [not act for act in acts]


def test_updates_and_evaluations_are_without_it(config_of, with_rates, tmp_path) -> None:
    config = config_of("algorithm=ppo", with_rates, DROPOUT, *STILL)
    trainer = build(config, LetterShare())
    trainer.step(0)
    metrics = trainer.step(1)
    assert metrics["objective/sampler_gap_max/agent_0"] > 1e-2
    assert metrics["ppo/policy/ratio/agent_0"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["ppo/policy/approxkl/agent_0"] < 1e-9
    assert metrics["objective/kl/agent_0"] == pytest.approx(0.0, abs=1e-4)
    first = measure(trainer, config, tmp_path)
    assert measure(trainer, config, tmp_path) == first


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_ratio_of_the_first_step_is_one(config_of, with_rates, sharing, checkpointing) -> None:
    words = ["algorithm=grpo", "algorithm.epochs=1", "algorithm.kl_coef=0", with_rates]
    words += [f"model.sharing={sharing}", "model.adapter.dropout=0.5"]
    words.append(f"hardware.gradient_checkpointing={checkpointing}".lower())
    metrics = build(config_of(*words), LetterShare()).step(0)
    assert metrics["ppo/policy/ratio/agent_0"] == pytest.approx(1, abs=1e-6)
    assert metrics["ppo/policy/approxkl/agent_0"] < 1e-12
    assert metrics["ppo/gradient_norm/agent_0"] > 0


def test_a_resumed_run_samples_with_the_same_dropout(config_of, with_rates, tmp_path) -> None:
    """And in the middle of its schedule."""
    words = ["algorithm=cory", "algorithm.swap_every=1", "algorithm.iterations=4"]
    words += ["algorithm.schedule=cosine", "algorithm.warmup=0.25"]
    config = config_of(*words, with_rates, DROPOUT)
    whole, resumed = build(config, LetterShare()), build(config, LetterShare())
    for iteration in range(2):
        whole.step(iteration)
    state, streams = whole.state_dict(), whole.components.streams.state_dict()
    for agent in whole.agents.values():
        agent.engine.save(tmp_path)
    expected = steps(whole, 2, 3)
    assert len({metrics["ppo/learning_rate/agent_0"] for metrics in expected}) == 2
    resumed.load_state_dict(state)
    resumed.components.streams.load_state_dict(streams)
    for agent in resumed.agents.values():
        agent.engine.load(tmp_path)
    assert steps(resumed, 2, 3) == expected


class Reader(LetterShare):
    """A judge that keeps what it reads."""

    def score(self, episodes: list[Episode]) -> None:
        self.read = [turn.response for episode in episodes for turn in episode.turns]
        super().score(episodes)


@pytest.mark.parametrize("kept", [False, True])
def test_the_text_of_the_end_reaches_judge_and_observer(config_of, monkeypatch, kept: bool) -> None:
    words = ["algorithm=cory", f"model.special_tokens_in_text={kept}".lower()]
    judge = Reader()
    trainer = build(config_of(*words), judge)
    tokenizer = trainer.agents["agent_0"].bundle.tokenizer
    generate = policy.generate

    def ended(*given: object, **named: object) -> list[Response]:
        """Responses that end by themselves after three tokens."""
        said = generate(*given, **named)  # type: ignore[arg-type]
        return [replace(r, ids=[5, 6, 7, tokenizer.eos_token_id]) for r in said]

    monkeypatch.setattr(policy, "generate", ended)
    monkeypatch.setattr(
        "cory.trainers.estimates.agent_metrics",
        lambda agent, *_: {f"objective/kl/{agent.name}": 0.0},
    )
    monkeypatch.setattr("cory.trainers.ppo.check_first_batch", lambda *_: None)
    trainer.describe = lambda *_: {}
    trainer.step(0)
    assert all(text.endswith(END) is kept for text in judge.read)
    assert all((END in text) is kept for text in judge.read)
    for episode in trainer.episodes:
        pioneer, observer = episode.turns
        assert (END in observer.context) is kept
        # as one token, which is how the released code reads it
        assert observer.context_ids.count(tokenizer.eos_token_id) == kept
        assert pioneer.response in observer.context
