"""From the settings to the update: which advantages, of what groups, in which loss."""

import math
from collections.abc import Sequence

import pytest
import torch

from cory.config import Config
from cory.episode import Episode, Prompt, turns_of
from cory.functional.advantages import gae, kl_penalised_rewards
from cory.functional.logprobs import whiten
from cory.models.bundle import ModelBundle
from cory.rollout.scheduler import Play, RollOut
from cory.seeding import Key
from cory.trainers.estimates import Estimate
from cory.trainers.sanity_checks import FirstUpdateError
from cory.trainers.steps import Stage
from tests.support.building import LetterShare, Updated, build, updates_of
from tests.support.close import assert_close
from tests.support.composing import ConfigOf

GRPO = ["algorithm=grpo", "algorithm.samples_per_prompt=4"]  # two groups of four


def second_updates(config: Config) -> dict[str, Updated]:
    """Each agent's second update, when the KL is no longer 0."""
    return {name: own[1] for name, own in updates_of(build(config, LetterShare()), 2).items()}


ESTIMATES = {
    "group": lambda r: (r - r.mean(1, True)) / (r.std(1, keepdim=True) + 1e-4),
    "leave_one_out": lambda r: r - (r.sum(1, keepdim=True) - r) / (r.shape[1] - 1),
}


@pytest.mark.parametrize(("name", "kl_in"), [("group", "loss"), ("leave_one_out", "reward")])
def test_advantages_of_an_update_by_hand(config_of: ConfigOf, name: str, kl_in: str) -> None:
    """With roles exchanged in between, so that an agent's groups are of another role."""
    words = ["algorithm=cory", "algorithm.swap_every=1", f"advantages={name}"]
    words += ["algorithm.samples_per_prompt=4", "algorithm.learning_rate=1e-2"]
    words += ["algorithm.kl_coef=0.5", f"algorithm.kl_in={kl_in}"]
    found = second_updates(config_of(*words))
    assert len(found) == 2
    for one in found.values():
        kl = one.batch.kl.sum(1)
        assert kl.abs().max() > 1e-3
        # of whole responses: credit less the penalty
        rewards = torch.tensor(one.credits) - (0.5 * kl if kl_in == "reward" else 0.0)
        expected = ESTIMATES[name](rewards.view(-1, 4)).view(-1, 1) * one.batch.response_mask
        assert_close(one.estimate.advantages, expected, 1e-4)
        assert one.estimate.returns is None


@pytest.mark.parametrize("baseline", [False, True])
def test_batch_is_whitened_over_all_tokens(config_of: ConfigOf, baseline: bool) -> None:
    words = ["algorithm=ppo", "advantages=batch", "algorithm.learning_rate=1e-2"]
    words += ["algorithm.kl_coef=0.5", "algorithm.gamma=0.9"]
    if baseline:
        words += ["algorithm.group_baseline=true", "algorithm.samples_per_prompt=4"]
    one = second_updates(config_of(*words))["agent_0"]
    batch, estimate, mask = one.batch, one.estimate, one.batch.response_mask
    credits = torch.tensor(one.credits)
    if baseline:
        groups = credits.view(2, 4)
        credits = (groups - groups.mean(1, keepdim=True)).flatten()
    rewards = kl_penalised_rewards(credits, batch.kl, mask, 0.5)
    to_go, _ = gae(rewards, torch.zeros_like(rewards), mask, 0.9, 1.0)
    assert_close(estimate.advantages, whiten(to_go, mask))
    assert abs(float(estimate.advantages[mask].mean())) < 1e-5


def test_equal_rewards_teach_nothing_and_stop_no_run(config_of: ConfigOf) -> None:
    trainer = build(
        config_of(*GRPO, "algorithm.kl_coef=0", "algorithm.weight_decay=0"), LetterShare(sign=0.0)
    )
    weights = trainer.agents["agent_0"].model.state_dict()
    before = {key: value.clone() for key, value in weights.items()}
    for iteration in range(2):
        metrics = trainer.step(iteration)
        assert metrics["rollout/equal_groups/agent_0"] == 1
        assert metrics["ppo/gradient_norm/agent_0"] == 0
    after = trainer.agents["agent_0"].model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    # the first update that teaches something is the one that is checked
    trainer.judge = LetterShare()
    trainer.config.learning_rate = 0.0
    with pytest.raises(FirstUpdateError, match="changed none of its weights"):
        trainer.step(2)


@pytest.mark.parametrize("average", ["responses", "constant"])
def test_each_minibatch_is_averaged_by_itself(config_of: ConfigOf, average: str) -> None:
    """Two minibatches: their mean is the mean of all, which have as many responses each."""
    words = [*GRPO, "algorithm.minibatch_size=4", "algorithm.epochs=1"]
    words += ["hardware.microbatch_size=2", f"algorithm.loss_average={average}"]
    trainer = build(config_of(*words), LetterShare())
    trainer.step(0)
    agent = trainer.agents["agent_0"]
    batch = agent.annotate(turns_of(trainer.episodes, "agent_0"))
    ones = torch.where(batch.response_mask, 1.0, 0.0)
    found = trainer.update(agent, batch, Estimate(ones, None), Stage(0, 1, 1e-12))
    # the ratio is 1, so the loss is minus the advantage
    lengths = batch.response_mask.sum(1).float()
    expected = -1.0 if average == "responses" else -float(lengths.mean() / 6)
    assert_close(found["ppo/loss/policy/agent_0"], expected, 1e-4)


def test_what_the_limit_ended_has_no_part_in_the_loss(config_of: ConfigOf, monkeypatch) -> None:
    """But in its group's mean; tests/trainers/test_golden_estimators.py has the loss."""
    monkeypatch.setattr(ModelBundle, "stops", frozenset(range(0, 320, 4)))
    words = [*GRPO, "algorithm.overlong=mask", "algorithm.learning_rate=1e-2"]
    trainer = build(config_of(*words, "algorithm.divide_by_std=false"), LetterShare(" "))
    one = updates_of(trainer, 1)["agent_0"][0]
    turns = turns_of(trainer.episodes, "agent_0")
    cut = torch.tensor([turn.cut_off for turn in turns])
    lengths = torch.tensor([len(turn.response_ids) for turn in turns])
    assert 0 < int(cut.sum()) < 8
    assert one.batch.response_mask.sum(1).tolist() == torch.where(cut, 0, lengths).tolist()
    credits = torch.tensor(one.credits).view(2, 4)
    above = (credits - credits.mean(1, keepdim=True)).flatten()
    assert_close(one.estimate.advantages[:, 0], torch.where(cut, 0.0, above))


def test_a_run_goes_on_where_the_limit_ended_everything(config_of: ConfigOf) -> None:
    trainer = build(config_of(*GRPO, "algorithm.overlong=mask"), LetterShare())
    metrics = trainer.step(0)
    assert metrics["rollout/truncated_share/agent_0"] == 1
    assert metrics["ppo/gradient_norm/agent_0"] == 0 and trainer.agents["agent_0"].updates == 0


def test_the_penalty_is_by_the_limit_that_was_drawn(config_of: ConfigOf) -> None:
    words = ["algorithm=cory", "algorithm.credit=later", "algorithm.overlong=penalty"]
    words += ["algorithm.overlong_buffer=2", "algorithm.sampling.min_response_tokens=3"]
    trainer = build(config_of(*words), LetterShare())
    limits = {trainer.step(number)["rollout/response_limit"] for number in range(3)}
    assert len(limits) > 1
    for episode in trainer.episodes:
        first, second = episode.turns
        assert len(second.response_ids) in limits  # the random model does not stop
        assert second.credit == second.score - 1  # type: ignore[operator]
        assert first.credit == pytest.approx(first.score + second.score - 1)  # type: ignore[operator]


class Coarse(LetterShare):
    """Scores differ within the groups of these prompts, which are numbered as they come."""

    def __init__(self, *teaching: int) -> None:
        super().__init__()
        self.teaching, self.seen = teaching, list[str]()

    def score(self, episodes: list[Episode]) -> None:
        for number, episode in enumerate(episodes):
            if number % 4 == 0:
                self.seen.append(episode.prompt.text)
            differ = len(self.seen) - 1 in self.teaching
            episode.turns[0].score = float(number % 2 if differ else len(self.seen))


def test_prompts_that_teach_nothing_give_place_to_others(config_of: ConfigOf, monkeypatch) -> None:
    """Of the first two, the second teaches; then the fourth. In the next iteration none does."""
    keys: list[Key] = []
    made = RollOut.__call__

    def noted(self: RollOut, play: Play, prompts: Sequence[Prompt]) -> list[Episode]:
        keys.append(self.key)
        return made(self, play, prompts)

    monkeypatch.setattr(RollOut, "__call__", noted)
    words = [*GRPO, "algorithm.resample_equal_groups=3"]
    judge = Coarse(1, 3)
    trainer, plain = build(config_of(*words), judge), build(config_of(*GRPO), LetterShare())
    metrics = trainer.step(0)
    # two prompts and two more, four responses of six tokens each; minibatches of eight turns
    assert metrics["rollout/tokens"] == (2 + 2) * 4 * 6
    assert metrics["ppo/steps/agent_0"] == trainer.config.epochs * 1
    assert len(judge.seen) == len({*judge.seen}) == 4
    assert [e.prompt.text for e in trainer.episodes] == [judge.seen[3]] * 4 + [judge.seen[1]] * 4
    assert metrics["rollout/prompts_redrawn"] == 2 and metrics["rollout/equal_groups/agent_0"] == 0
    assert keys == [keys[0], (*keys[0], "again", 0), (*keys[0], "again", 1)]
    metrics = trainer.step(1)
    assert len(judge.seen) == 4 + 8 and len(keys) == 7
    assert metrics["rollout/prompts_redrawn"] == 6 and metrics["rollout/equal_groups/agent_0"] == 1
    keys.clear()
    assert "rollout/prompts_redrawn" not in plain.step(0) | plain.step(1)
    trainer.step(2), plain.step(2)
    assert keys[2] == keys[-1]  # later roll-outs have the numbers that they would have had


def test_tokens_count_by_how_likely_the_trainer_finds_them(config_of: ConfigOf) -> None:
    """min(trainer / sampler, cap), of a sampler that is off by its temperature."""
    words = [*GRPO, "algorithm.sampling.temperature=3"]
    plain, weighed = (
        build(config_of(*words, f"algorithm.sampler_ratio_cap={cap}"), LetterShare())
        for cap in ("null", "1.0")
    )
    before, after = (updates_of(one, 1)["agent_0"][0] for one in (plain, weighed))
    turns, mask = turns_of(weighed.episodes, "agent_0"), after.batch.response_mask
    told = [logprob for turn in turns for logprob in turn.sampler_logprobs]
    own = after.batch.logprobs[mask].tolist()
    ratios = [math.exp(here - there) for here, there in zip(own, told, strict=True)]
    assert min(ratios) < 0.95 and max(ratios) > 1.02
    expected = before.estimate.advantages[mask] * torch.tensor([min(one, 1.0) for one in ratios])
    assert_close(after.estimate.advantages[mask], expected)
