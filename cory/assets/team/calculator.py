"""A solver that may ask a calculator, and a checker that accepts or rejects its answer."""

import re


def calculate(text):
    """The value of the last calc(2 + 3), calc(2 - 3) or calc(2 * 3) in a text; None without one."""
    calls = re.findall(r"calc\((\d+) ?([-+*]) ?(\d+)\)", text)
    if not calls:
        return None
    a, sign, b = calls[-1]
    return {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign]


async def play(prompt, team):
    work = await team.solver.say(f"{prompt.text} You may write calc(2 + 3).")
    value = calculate(work.text)
    told = "" if value is None else f" The calculator says {value}."
    answer = await team.solver.say(f"{prompt.text}{told} Answer:")
    verdict = await team.checker.say(f"{prompt.text} {answer.text.strip()} Right? yes or no:")
    right = float(re.findall(r"-?\d+", answer.text)[-1:] == [prompt.answer])
    accepts = float("yes" in verdict.text.lower())
    return {"solver": [0.1 * (value is not None), right], "checker": float(accepts == right)}
