"""Credit by replays: what an utterance changes, by playing its episode again without it."""

from pathlib import Path

import pytest

from cory.config import PythonRewardConfig
from cory.episode import Episode, score_of, tokens_of
from cory.rewards import RunFacts
from cory.rewards.python_function import PythonReward
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build
from tests.support.composing import ConfigOf

HEARING = """
async def play(prompt, team):
    first = await team.one.say(prompt.text)
    heard = {HEARD}
    second, third = await asyncio.gather(
        team.two.say("It said " + heard + "."), team.one.say("Again " + prompt.text)
    )
    said = len(second.text) + 2 * third.text.count("a")
    return {"one": [0.5 * len(heard), said], "two": 10 * bool(second.text)}
"""


def paid(trainer: PPOTrainer) -> list[float]:
    """The sum of all rewards of each episode."""
    return [sum(score_of(turn) for turn in e.turns) for e in trainer.episodes]


@pytest.mark.parametrize("fixed", ["null", "{two:start}"])
def test_credit_is_what_an_utterance_changes(team: ConfigOf, fixed: str) -> None:
    """Beside a team with the same random numbers that does not hear the first reply."""
    text, fixed = "import asyncio\n" + HEARING, f"algorithm.fixed={fixed}"
    words = (fixed, "algorithm.credit=counterfactual")
    trainer = build(team(text.replace("{HEARD}", "first.text"), *words))
    metrics = trainer.step(0)
    deaf = build(team(text.replace("{HEARD}", '""'), fixed))
    deaf.step(0)
    changed = tokens = 0
    for episode, without, whole, rest in zip(
        trainer.episodes, deaf.episodes, paid(trainer), paid(deaf), strict=True
    ):
        first, second, third = episode.turns
        assert (first.text, third.text) == (without.turns[0].text, without.turns[2].text)
        assert first.credit == whole - rest
        learns = second.agent in trainer.agents  # else nobody asks what it is worth
        assert second.credit == (len(second.text) + 10 if learns else whole)
        assert third.credit == 2 * third.text.count("a")
        changed += len(second.text) != len(without.turns[1].text)
        tokens += len(without.turns[1].ids) if first.text else 0
        tokens += tokens_of([episode])
    assert changed > 1 and metrics["rollout/tokens"] == tokens
    assert metrics["rollout/return/two"] == 10 and metrics["time/replay_s"] > 0


class Heard(LetterShare):
    """Keeps the episodes that it scored, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.scored: list[list[Episode]] = []

    def score(self, episodes: list[Episode]) -> None:
        super().score(episodes)
        self.scored.append(episodes)


@pytest.mark.parametrize("rule", ["counterfactual", "resampled"])
def test_replays_are_scored_by_the_reward_and_seen_nowhere_else(
    config_of: ConfigOf, rule: str
) -> None:
    config, reward = config_of("algorithm=cory", f"algorithm.credit={rule}"), Heard()
    trainer = build(config, reward)
    metrics = trainer.step(0)
    (played, replayed), differ = reward.scored, 0
    assert played == trainer.episodes and len(replayed) == 16
    for number, other in enumerate(replayed):  # of each episode without pioneer, without observer
        episode, place = played[number // 2], number % 2
        whole, rest = (sum(score_of(turn) for turn in e.turns) for e in (episode, other))
        assert episode.turns[place].credit == whole - rest
        assert (other.turns[place].text == "") == (rule == "counterfactual")
        differ += other.turns[1 - place].text != episode.turns[1 - place].text
        assert place == 0 or other.turns[0].text == episode.turns[0].text
    assert differ >= 4
    # sampled again: observers that are shown something else; and each utterance that has another
    shown = [(again.turns[1], e.turns[1]) for again, e in zip(replayed[::2], played, strict=True)]
    anew = [turn for turn, before in shown if turn.context != before.context]
    anew += [] if rule == "counterfactual" else [e.turns[n % 2] for n, e in enumerate(replayed)]
    assert metrics["rollout/tokens"] == tokens_of(played) + sum(len(turn.ids) for turn in anew)
    # the roll-out, and the numbers of the run, are as without replays
    plain = build(config_of("algorithm=cory"), LetterShare())
    first = plain.step(0)
    families = ("rollout/response", "rollout/distinct", "objective/score", "transfer/")
    names = [name for name in first if name.startswith(families)]
    assert {n: first[n] for n in names} == {n: metrics[n] for n in names}
    one, other = (run.components.streams.key_of_roll_out() for run in (trainer, plain))
    assert one == other


def test_what_a_reward_logs_is_about_the_episodes(config_of: ConfigOf, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def score(completions, log_metric, **columns):\n"
        "    log_metric('silent', sum(not text for text in completions))\n"
        "    return [len(text) for text in completions]\n"
    )
    function = PythonRewardConfig(name="python", function=f"{tmp_path}/mine.py:score")
    reward = PythonReward(function, None, None, RunFacts(tmp_path, 1))
    trainer = build(config_of("algorithm=cory", "algorithm.credit=counterfactual"), reward)
    metrics = trainer.step(0)
    silent = sum(not turn.text for e in trainer.episodes for turn in e.turns)
    assert metrics["reward/logged/silent"] == silent and reward.metrics() == {}
