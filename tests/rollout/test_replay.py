"""Episodes played again: the same but for what follows from one utterance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cory.episode import TEXT_ONLY, Asked, Episode, Prompt
from cory.rollout.replay import Replay, replays_of
from cory.rollout.scheduler import Cast, Play, RollOut
from cory.rollout.team import Team, team_play
from cory.user_function import UserFunction
from tests.support.composing import parsed
from tests.support.speaking import Script

PROMPTS = [Prompt("x", "X"), Prompt("y", "Y")]


async def team(prompt: Prompt, cast: Cast) -> None:
    """Two answer a plan at once, a judge hears both, and the planner hears the judge."""
    plan = await cast["planner"].say(prompt.text, "plan")
    a, b = await asyncio.gather(*(cast[n].say(f"{n}{plan.response}", "answer") for n in "ab"))
    verdict = await cast["judge"].say(f"{a.response}+{b.response}", "verdict")
    await cast["planner"].say(f"so {verdict.response}", "plan")


class Drawn(Script):
    """Says `<context,number>`: what an agent is asked, and its first random number, as a word."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.numbers: list[tuple[str, int, float]] = []  # role, turn, number

    def _say(self, agent: str, asked: Asked) -> str:
        assert asked.uniforms is not None
        self.numbers.append((asked.role, asked.turn, float(asked.uniforms[0])))
        return f"<{asked.context},{hash(float(asked.uniforms[0])) % 97}>"


def rolled_out(play: Play, prompts: Sequence[Prompt], *replays: Replay) -> tuple[Any, Drawn]:
    """Episodes, and who was asked for them."""
    script = Drawn()
    actors: Any = script
    out = RollOut(actors, 4, parsed().algorithm.sampling, (7,), first=5, replays=replays)
    return out(play, prompts), script


def texts(episode: Episode) -> list[str]:
    return [turn.response for turn in episode.turns]


def test_an_episode_is_the_same_where_nothing_is_replaced() -> None:
    episodes, first = rolled_out(team, PROMPTS)
    for episode in episodes:
        for turn in episode.turns:
            turn.score, turn.credit, turn.parts = 1.0, 2.0, {"x": 1.0}
    known = [next(replays_of(e, 5 + n, ["judge"], True))[1] for n, e in enumerate(episodes)]
    # what was said is said again, and nobody is asked ...
    again, script = rolled_out(team, PROMPTS, *(Replay(r.number, r.said) for r in known))
    assert [texts(e) for e in again] == [texts(e) for e in episodes] and script.numbers == []
    # ... and has yet to be scored, without a change to what was played
    assert {(t.score, t.credit, len(t.parts)) for e in again for t in e.turns} == {(None, None, 0)}
    assert {(t.score, t.credit) for e in episodes for t in e.turns} == {(1.0, 2.0)}
    # with the same random numbers it is also the same where all is sampled anew
    anew, script = rolled_out(team, PROMPTS, *(Replay(r.number, {}) for r in known))
    assert [texts(e) for e in anew] == [texts(e) for e in episodes]
    assert script.numbers == first.numbers and len(script.numbers) == 10


# an utterance of those that learn -> the roles of those who hear of it, and what stays as it was
HEARD: dict[int, tuple[list[str], list[int]]] = {
    0: (["answer", "answer", "verdict", "plan"], []),
    1: (["verdict", "plan"], [0, 2]),  # who answers beside it does not hear it
    4: ([], [0, 1, 2, 3]),
}


@pytest.mark.parametrize("muted", [True, False])
@pytest.mark.parametrize("place", HEARD)
def test_only_what_follows_from_the_replaced_utterance_is_sampled(place: int, muted: bool) -> None:
    episodes, first = rolled_out(team, PROMPTS)
    roles, same = HEARD[place]
    for number, episode in enumerate(episodes):
        found = list(replays_of(episode, 5 + number, ["planner", "a"], muted))
        assert [turn for turn, _ in found] == [episode.turns[n] for n in HEARD]
        replay = found[[*HEARD].index(place)][1]
        (again,), script = rolled_out(team, [episode.prompt], replay)
        other, was = again.turns[place], episode.turns[place]
        own = [] if muted else [was.role]
        assert [role for role, *_ in script.numbers] == own + roles
        # each at its own random number, but for another sample
        assert {*script.numbers[len(own) :]} <= {*first.numbers[number::2]}
        assert {*script.numbers[: len(own)]}.isdisjoint(first.numbers)
        if muted:
            assert (other.response, other.response_ids) == ("", TEXT_ONLY)
            assert not other.absent and other.sampler_logprobs == []
        else:
            assert other.context == was.context and other.response != was.response
        assert [texts(again)[n] for n in same] == [texts(episode)[n] for n in same]


def test_replays_are_one_batch_of_each_agent() -> None:
    episodes, _ = rolled_out(team, PROMPTS)
    pairs = [(e, r) for n, e in enumerate(episodes) for _, r in replays_of(e, 5 + n, "ab", True)]
    _, script = rolled_out(team, [e.prompt for e, _ in pairs], *(replay for _, replay in pairs))
    calls = [(agent, len(contexts)) for agent, _, _, contexts in script.shown]
    assert calls == [("judge", 4), ("planner", 4)]


def test_branches_of_one_role_keep_their_order() -> None:
    """What was said in them is said again, whether a branch is at its first utterance or later."""

    async def branches(prompt: Prompt, cast: Cast) -> None:
        async def branch(name: str) -> None:
            first = await cast["a"].say(name, "role")
            await cast["a"].say(f"{name}+{first.response}", "role")

        await asyncio.gather(branch("p"), branch("q"))

    (episode,), _ = rolled_out(branches, PROMPTS[:1])
    assert [turn.context for turn in episode.turns][:2] == ["p", "q"]
    for place, (turn, replay) in enumerate(replays_of(episode, 5, ["a"], True)):
        (again,), script = rolled_out(branches, PROMPTS[:1], replay)
        assert (again.turns[place].context, again.turns[place].response) == (turn.context, "")
        # what its branch says after it is sampled, and nothing else
        assert len(script.numbers) == (1 if place < 2 else 0)


def test_a_list_that_a_play_writes_on_is_recognised(tmp_path: Path, monkeypatch) -> None:
    chat: list[dict[str, str]] = []

    async def play(prompt: Prompt, agents: Team) -> None:
        chat[:] = [{"role": "user", "content": prompt.text}]
        for agent in agents:
            chat.append({"role": "assistant", "content": (await agent.say(chat)).text})
            chat[0]["content"] += "!"

    function = UserFunction("play", tmp_path, play)
    monkeypatch.setattr("cory.rollout.team.load_function", lambda key, value: function)
    words = ["algorithm=team", "algorithm.play=x.py:play", "algorithm.agents=[one,two]"]
    mine = team_play(parsed(*words).algorithm)
    (episode,), _ = rolled_out(mine, PROMPTS[:1])
    assert [len(turn.asked) for turn in episode.turns] == [1, 2]
    (_, replay), *_ = replays_of(episode, 5, ["two"], True)
    _, script = rolled_out(mine, PROMPTS[:1], Replay(replay.number, replay.said))
    assert script.numbers == []
