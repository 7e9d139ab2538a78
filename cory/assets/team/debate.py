"""Two debaters answer at once, then again after they have read each other."""

import asyncio


async def play(prompt, team):
    both, question = (team.first, team.second), prompt.text.removesuffix(" Answer:")
    first, second = await asyncio.gather(*(one.say(prompt.text) for one in both))
    for_first = f"{question} Reference: {second.text.strip()} Answer:"
    for_second = f"{question} Reference: {first.text.strip()} Answer:"
    await asyncio.gather(team.first.say(for_first), team.second.say(for_second))
