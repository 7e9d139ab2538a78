"""Plays are coroutines; what they ask together is one batch, in the order of the episodes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cory.episode import Asked, Prompt, Turn
from cory.rollout.scheduler import Cast, Play, RollOut
from tests.support.composing import parsed
from tests.support.speaking import Script

NUMBERS = [Prompt(str(n), str(n)) for n in (50, 3, 99, 25)]


def said(agent: str, asked: Asked) -> str:
    """The middle of two numbers, or the context."""
    low, _, high = str(asked.context).partition(" to ")
    return str((int(low) + int(high)) // 2) if high else f"<{asked.context}>"


def sizes(script: Script) -> list[int]:
    return [len(contexts) for *_, contexts in script.shown]


async def guess(prompt: Prompt, cast: Cast) -> None:
    """Halve until the number is found: an environment in the play itself."""
    low, high, number = 0, 100, 0
    while True:
        guessed = int((await cast["solver"].say(f"{low} to {high}", "solo", number)).response)
        if guessed == int(prompt.text):
            return
        low, high = (guessed, high) if guessed < int(prompt.text) else (low, guessed)
        number += 1


async def debate(prompt: Prompt, cast: Cast) -> None:
    """Three answer at once, twice; each is asked by a coroutine within another."""
    heard = prompt.text

    async def ask(name: str, number: int) -> Turn:
        for _ in range(1 + int(prompt.id) % 3):  # some episodes ask a little later than others
            await asyncio.sleep(0)
        return await asyncio.ensure_future(cast[name].say(heard, "debater", number))

    for number in range(2):
        turns = await asyncio.gather(*(ask(name, number) for name in "abc"))
        heard += "".join(turn.response for turn in turns)


def test_episodes_that_end_leave_smaller_batches() -> None:
    speech = Script(said)
    episodes = speech.play(guess, NUMBERS)
    assert [len(episode.turns) for episode in episodes] == [1, 5, 7, 2]
    assert [episode.turns[-1].response for episode in episodes] == ["50", "3", "99", "25"]
    assert sizes(speech) == [4, 3, 2, 2, 2, 1, 1]
    assert speech.shown[1][3] == ["0 to 50", "50 to 100", "0 to 50"]  # by episode


def test_what_is_asked_at_once_is_one_call_for_each_agent() -> None:
    speech = Script(said)
    (first, *_) = speech.play(debate, NUMBERS)
    assert [call[:3] for call in speech.shown] == [
        (name, "debater", number) for number in range(2) for name in "abc"
    ]
    assert sizes(speech) == [4] * 6
    assert [turn.agent for turn in first.turns] == [*"abcabc"]
    assert first.turns[3].context == "50<50><50><50>"


def test_who_waits_for_something_else_joins_a_later_batch() -> None:
    speech, opened = Script(said), []

    async def play(prompt: Prompt, cast: Cast) -> None:
        if prompt.id == "3":
            await asyncio.sleep(0.05)
            opened.append(len(speech.shown))
        for number in range(2):
            await cast["a"].say(prompt.text, "solo", number)

    episodes = speech.play(play, NUMBERS)
    assert opened == [2] and sizes(speech) == [3, 3, 1, 1]
    assert [len(episode.turns) for episode in episodes] == [2] * 4


def test_an_exception_ends_all_episodes() -> None:
    speech, ended = Script(said), []

    async def play(prompt: Prompt, cast: Cast) -> None:
        try:
            await cast["a"].say(prompt.text, "solo")
            if prompt.id == "99":
                raise KeyError("x")
            await asyncio.sleep(60)
        finally:
            ended.append(prompt.id)

    with pytest.raises(KeyError):
        speech.play(play, NUMBERS)
    assert len(speech.shown) == 1 and {*ended} == {"50", "3", "99", "25"}  # nobody sleeps on


def test_in_a_notebook_a_loop_runs_already() -> None:
    async def cell() -> int:
        return len(Script(said).play(guess, NUMBERS))

    assert asyncio.run(cell()) == 4 and Script(said).play(guess, []) == []


def numbers_of(
    play: Play, prompts: Sequence[Prompt], first: int = 0, loud: str = ""
) -> dict[tuple[str, str, int], float]:
    """Prompt, role and turn -> the first random number; the agent `loud` says something else."""
    drawn: dict[tuple[str, str, int], float] = {}

    def say(agent: str, asked: Asked) -> str:
        assert asked.uniforms is not None
        drawn[asked.prompt, asked.role, asked.turn] = float(asked.uniforms[0])
        return "something else" if agent == loud else said(agent, asked)

    actors: Any = Script(say)
    RollOut(actors, 4, parsed().algorithm.sampling, (7, "training"), first)(play, prompts)
    return drawn


async def three(prompt: Prompt, cast: Cast) -> None:
    """Everybody sees what was said; the last one speaks twice if it is told so."""
    heard = prompt.text
    for name in "abc":
        heard += (await cast[name].say(heard, name)).response
    if "else" not in heard:
        await cast["c"].say(heard, "c")


def test_random_numbers_are_those_of_episode_role_and_turn() -> None:
    """Not of the batch, of the other episodes, or of what others have said."""
    whole = numbers_of(three, NUMBERS)
    assert len({*whole.values()}) == len(whole) == 16
    parts = numbers_of(three, NUMBERS[:1]) | numbers_of(three, NUMBERS[1:], first=1)
    assert parts == whole
    changed = numbers_of(three, NUMBERS, loud="a")
    assert len(changed) == 12 and all(whole[key] == number for key, number in changed.items())


def test_a_turn_says_how_much_had_been_said_when_it_was_asked() -> None:
    async def play(prompt: Prompt, cast: Cast) -> None:
        await asyncio.gather(*(cast[name].say(prompt.text, name) for name in "ab"))
        await cast["c"].say(prompt.text, "c", aside=True)
        await cast["a"].say(prompt.text, "again")

    (episode,) = Script(said).play(play, NUMBERS[:1])
    assert [turn.asked_in for turn in episode.turns] == [0, 0, 2]
