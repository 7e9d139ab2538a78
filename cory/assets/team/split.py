"""Two agents know one half of a problem each: one tells, the other answers (task=split)."""


async def play(prompt, team):
    question, first, second = (prompt.columns[key] for key in ("question", "first", "second"))
    told = await team.teller.say(f"{question} You know: {first}. Tell:")
    heard = f"{question} Told: {told.text.strip()}. You know: {second}. Answer:"
    answer = await team.answerer.say(heard)
    return float(answer.text.strip() == prompt.answer)


async def muted(prompt, team):
    """The control: nothing is told."""
    heard = f"{prompt.columns['question']} Told: . You know: {prompt.columns['second']}. Answer:"
    answer = await team.answerer.say(heard)
    return float(answer.text.strip() == prompt.answer)
