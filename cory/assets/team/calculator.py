"""A solver that may ask a calculator, and a checker that accepts or rejects its answer."""

import re


async def play(prompt, team):
    work = await team.solver.say(f"{prompt.text} You may write calc(2 + 3).")
    calls = re.findall(r"calc\((\d+) ?\+ ?(\d+)\)", work.text)
    told = f" The calculator says {sum(map(int, calls[-1]))}." if calls else ""
    answer = await team.solver.say(f"{prompt.text}{told} Answer:")
    verdict = await team.checker.say(f"{prompt.text} {answer.text.strip()} Right? yes or no:")
    right = float(re.findall(r"-?\d+", answer.text)[-1:] == [prompt.answer])
    accepts = float("yes" in verdict.text.lower())
    return {"solver": [0.1 * bool(calls), right], "checker": float(accepts == right)}
