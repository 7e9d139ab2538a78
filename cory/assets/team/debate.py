"""Two debaters answer at once, then again after they have read each other."""

import asyncio


async def play(prompt, team):
    question = prompt.text.removesuffix(" Answer:")
    first, second = await asyncio.gather(*(one.say(prompt.text) for one in (team.first, team.second)))
    await asyncio.gather(
        team.first.say(f"{question} Reference: {second.text.strip()} Answer:"),
        team.second.say(f"{question} Reference: {first.text.strip()} Answer:"),
    )
