"""Whoever responds to contexts: the protocol of actors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cory.config import SamplingConfig
from cory.episode import RECORDED, TEXT_ONLY, Asked, Context, Turn, as_text


class Actor(Protocol):
    """Responds to contexts: a policy, a reference, or a model behind an endpoint."""

    name: str

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> Sequence[Turn | None]:
        """As `Policy.turns`; None where a server finds the context too long."""

    def fits(self, context: Context, limit: int) -> bool:
        """As `Policy.fits`; True where only a server knows."""


@dataclass
class Silent:
    """An `Actor` whose utterances are empty texts."""

    name: str

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn]:
        places = [(one.role, one.round, as_text(one.context)) for one in asked]
        return [Turn(self.name, *own, "", [], TEXT_ONLY, asked_in=RECORDED) for own in places]

    def fits(self, context: Context, limit: int) -> bool:
        """As `Actor`: it reads nothing."""
        return True
