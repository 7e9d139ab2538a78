"""Which responses are right: one verdict on each, the same in every process."""

from collections.abc import Sequence

from cory import distributed
from cory.tasks import Form


def judged(form: Form, responses: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each response gives its prompt's answer, as the first process finds it.

    Where formulas are compared, time may run out in one process and not in another; what follows
    from a verdict would then differ between them. Every process calls this.

    responses: (response, right answer)
    """
    return distributed.first_works(lambda: [form.is_right(*pair) for pair in responses])
