"""One iteration: what it credits, reports and refuses, and what it must leave alone."""

from pathlib import Path

import pytest
import torch

from cory.episode import Episode, Prompt
from cory.functional.credit import own_score
from cory.models.actor_critic import Outputs
from cory.models.engine import Engine
from cory.models.policy import PPOPolicy
from cory.rollout.scheduler import Cast
from cory.seeding import Streams
from cory.trainers.ppo import PPOTrainer
from cory.trainers.sanity_checks import FirstUpdateError, byte_sum
from cory.trainers.steps import TrainingDiverged
from tests.support.building import LetterShare, build, measure, steps
from tests.support.close import assert_close
from tests.support.composing import ConfigOf
from tests.support.speaking import Script


def weights(agent: PPOPolicy) -> list[int]:
    """A fingerprint of each."""
    return [byte_sum(parameter.detach()) for parameter in agent.model.parameters()]


def restarted(trainer: PPOTrainer) -> list[str]:
    """The streams of random numbers that are at their beginning."""
    fresh, own = (
        Streams(trainer.components.streams.seed).state_dict(),
        trainer.components.streams.state_dict(),
    )
    numbers = [name for name in ("length", "data") if own[name] == fresh[name]]
    tokens = ("sampling", "shuffle", "init")
    return [*numbers, *(name for name in tokens if torch.equal(own[name], fresh[name]))]


def states(trainer: PPOTrainer) -> dict[str, tuple[list[int], float, int, float]]:
    """Weights, optimiser moments, statistics and KL coefficient of each agent."""
    found = {}
    for name, agent in trainer.agents.items():
        moments = sum(float(m["exp_avg"].abs().sum()) for m in agent.engine.moments().values())
        found[name] = (weights(agent), moments, int(agent.scale.moments.count), agent.kl_coef)
    return found


@pytest.mark.parametrize("official", [False, True])
def test_an_exchange_moves_no_state_and_the_official_one_resets_it(config_of, official) -> None:
    config = config_of(
        "algorithm=cory",
        "algorithm.swap_every=2",
        f"algorithm.official_swap={official}".lower(),
        *("algorithm.kl_controller=adaptive", "algorithm.score_scaling=normalise"),
        "algorithm.sampling.min_response_tokens=4",
    )
    trainer = build(config, LetterShare())
    trainer.step(0)
    exchange = trainer.after_step
    trainer.after_step = lambda iteration: None
    trainer.step(1)
    before = states(trainer)
    assert restarted(trainer) == []
    exchange(1)
    after = states(trainer)
    assert restarted(trainer) == ["length", "sampling", "shuffle"] * official
    (episode,) = Script(lambda agent, asked: "x").play(
        trainer.play, trainer.components.task.sample(1)
    )
    assert [turn.agent for turn in episode.turns] == ["agent_1", "agent_0"]
    if not official:
        assert after == before
        return
    for name in trainer.agents:
        assert after[name][0] == before[name][0]
        assert before[name][1] > 0 and after[name][1] == 0
        assert before[name][2] == 16 and after[name][2] == 0
        assert before[name][3] != config.algorithm.kl_coef == after[name][3]


@pytest.mark.parametrize("estimator", ["full", "k3"])
def test_the_logged_kl_is_the_one_that_is_optimised(config_of: ConfigOf, estimator: str) -> None:
    config = config_of(
        "algorithm=ppo", f"algorithm.kl_estimator={estimator}", "algorithm.learning_rate=1e-2"
    )
    trainer = build(config, LetterShare())
    trainer.step(0)
    metrics = trainer.step(1)
    agent = trainer.agents["agent_0"]
    kl = metrics["objective/kl/agent_0"]
    assert kl != 0
    assert_close(
        metrics["objective/combined/agent_0"],
        metrics["objective/score/agent_0"] - agent.kl_coef * kl,
    )
    if estimator == "k3":
        assert_close(kl, metrics["objective/kl_k3/agent_0"])


def test_the_first_update_is_refused_when_the_reference_is_another_model(config_of) -> None:
    trainer = build(config_of(), LetterShare())
    team = trainer.agents["agent_0"].bundle
    with torch.no_grad():
        next(team.pretrained.parameters()).mul_(2.0)
    with pytest.raises(FirstUpdateError, match="KL to the reference"):
        trainer.step(0)


def test_the_first_update_is_refused_when_training_sees_other_logprobs(
    config_of: ConfigOf, monkeypatch
) -> None:
    trainer = build(config_of("algorithm=ppo"), LetterShare())
    engine = trainer.agents["agent_0"].engine
    monkeypatch.setattr(
        type(engine), "__call__", lambda self, *x: Outputs(self._engine(*x)[0] - 0.1, *[None] * 3)
    )
    with pytest.raises(FirstUpdateError, match="ratio is off 1"):
        trainer.step(0)


PENALTY, COOL = "algorithm.sampling.repetition_penalty=1.5", "algorithm.sampling.temperature=0.7"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([PENALTY], PENALTY.removeprefix("algorithm.")),
        ([COOL, "algorithm.policy_temperature=1.0"], "samples from another distribution"),
        ([COOL, "algorithm.policy_temperature=0.7"], None),
    ],
)
def test_a_sampler_that_differs_is_reported_with_its_setting(
    config_of: ConfigOf, capsys, words: list[str], named: str | None
) -> None:
    metrics = build(config_of("algorithm=ppo", *words), LetterShare()).step(0)
    said = capsys.readouterr().err
    if named is None:
        assert "samples from another distribution" not in said
        assert metrics["objective/sampler_gap_max/agent_0"] < 1e-4
    else:
        assert named in said
        assert metrics["objective/sampler_gap_max/agent_0"] > 1e-3


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_metrics(config_of: ConfigOf) -> None:
    class Broken(LetterShare):
        def score(self, episodes: list[Episode]) -> None:
            super().score(episodes)
            episodes[0].turns[0].score = float("nan")

    trainer = build(config_of("algorithm=ppo"), Broken())
    with pytest.raises(TrainingDiverged, match="iteration 1:") as stopped:
        trainer.step(0)
    assert "objective/kl/agent_0" in stopped.value.metrics


def test_the_kl_controller_counts_the_turns_that_were_there(config_of, monkeypatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(PPOPolicy, "adapt_kl_coef", lambda self, kl, turns: counted.append(turns))
    config = config_of("algorithm=ppo")
    trainer = build(config, LetterShare())
    play, asked = trainer.play, []

    async def without_one(prompt: Prompt, cast: Cast) -> None:
        asked.append(prompt)
        if len(asked) == 1:
            cast["agent_0"].absent("solo")
        else:
            await play(prompt, cast)

    def own(episodes: list[Episode]) -> None:
        own_score([episode for episode in episodes if not episode.turns[0].absent])

    monkeypatch.setattr(trainer, "play", without_one)
    monkeypatch.setattr(trainer, "assign_credit", own)
    trainer.step(0)
    assert counted == [config.algorithm.prompts_drawn() - 1]


def test_evaluation_disturbs_no_training_stream(config_of: ConfigOf, tmp_path: Path) -> None:
    plain = build(config_of("algorithm=ppo"), LetterShare())
    measured = build(config_of("algorithm=ppo"), LetterShare())
    plain.step(0)
    measured.step(0)
    settings = config_of("evaluation.greedy=true", "evaluation.samples=2")
    first = measure(measured, settings, tmp_path)
    assert first == measure(measured, settings, tmp_path)
    assert steps(plain, 1) == steps(measured, 1)


def test_a_first_update_may_stand_still_only_where_every_step_was_left_out(
    config_of: ConfigOf, monkeypatch
) -> None:
    """Each was passed over, as too far from what was sampled."""
    epochs = 10  # ten times a tenth is less than 1 in floating point
    words = ("algorithm=ppo", f"algorithm.epochs={epochs}", "algorithm.max_mean_ratio=1e-9")
    trainer = build(config_of(*words), LetterShare())
    before = weights(trainer.agents["agent_0"])
    assert trainer.step(0)["ppo/policy/passed_over/agent_0"] == pytest.approx(1)
    assert trainer.agents["agent_0"].updates == 0
    assert weights(trainer.agents["agent_0"]) == before
    # the next update is the first one that counts, and is checked
    trainer.config = trainer.config.replace(max_mean_ratio=None)
    monkeypatch.setattr(Engine, "step", lambda engine: 0.0)
    with pytest.raises(FirstUpdateError, match="its first update changed none of its weights"):
        trainer.step(1)
