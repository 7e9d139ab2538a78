"""Number guessing: the game answers each guess with higher or lower; its state is plain Python."""

import re


async def play(prompt, team):
    secret = int(prompt.columns["secret"])
    heard = prompt.text
    for guesses in range(1, 6):
        reply = await team.guesser.say(f"{heard} Guess:")
        found = re.search(r"\d+", reply.text)
        if found is None:
            heard += " no number."
        elif int(found[0]) == secret:
            return {"guesser": 1 / guesses}
        else:
            way = "higher" if secret > int(found[0]) else "lower"
            heard += f" {found[0]}: {way}."
    return {"guesser": 0}
