"""How good a team of specialised agents is, and how different they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cory.config import MaftConfig
from cory.debate_metrics import DebateMeasure
from cory.episode import Metrics
from cory.evaluation import Part, Request
from cory.tasks import Task
from cory.team import Team
from cory.voice import Speaker, Voice


@dataclass(frozen=True)
class AgentsMeasure:
    """Numbers about the debates of an evaluation; what TeamExam asks for."""

    config: MaftConfig
    team: Team
    voices: Mapping[str, Voice]
    base: Speaker

    def __call__(self, task: Task, part: Part, request: Request) -> Metrics:
        """Accuracy of votes and of the first agent by turn, and the diversity of the answers."""
        debates = DebateMeasure(self.config.evaluation_agents, self.config.vote_ties)
        return debates(task, part, request)
