"""Nim against each other: take 1 to 3 of a heap; who takes the last one wins."""

import re


async def play(prompt, team):
    left = int(prompt.columns["heap"])
    players = [team.first, team.second]
    while True:
        player, other = players
        move = await player.say(f"{left} left. You take:")
        taken = int((re.findall(r"[123]", move.text) or [0])[0])
        if not 1 <= taken <= left:  # no legal move: the other one wins
            return {player.name: -1, other.name: 1} if other.turns else {player.name: -1}
        left -= taken
        if left == 0:
            return {player.name: 1, other.name: -1} if other.turns else {player.name: 1}
        players = [other, player]
