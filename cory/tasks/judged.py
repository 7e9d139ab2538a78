"""Which responses are right: one verdict on each, the same in every process."""

from collections.abc import Sequence

from cory import distributed
from cory.episode import Episode
from cory.tasks import Form


def judged(form: Form, responses: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each response gives its prompt's answer, as the first process finds it.

    Where formulas are compared, time may run out in one process and not in another; what follows
    from a verdict would then differ between them. Every process calls this.

    responses: (response, right answer)
    """
    return distributed.first_works(lambda: [form.is_right(*pair) for pair in responses])


def judge_rest(form: Form, episodes: Sequence[Episode]) -> None:
    """Fill `turn.right` where the reward did not; of prompts with answers, and turns not absent."""
    rest = [
        (str(episode.prompt.answer), turn)
        for episode in episodes
        for turn in episode.turns
        if episode.prompt.answer is not None and turn.right is None and not turn.absent
    ]
    verdicts = judged(form, [(turn.response, answer) for answer, turn in rest])
    for (_, turn), right in zip(rest, verdicts, strict=True):
        turn.right = right
