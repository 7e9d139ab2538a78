"""A team with one partner changed: what each agent's words, or its training, are worth to the team.

Every utterance keeps its random numbers, so that what differs is the changed partner's doing.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from cory.config import Config
from cory.episode import Metrics
from cory.evaluation.responses import EvalRequest, PromptScores
from cory.models.actor import Actor, Silent
from cory.models.policy import Policy

Probes = Mapping[str, Mapping[str, Actor]]  # name of a probe -> who speaks in whose place


def probes_of(config: Config, learners: Mapping[str, Policy], fixed: Sequence[str] = ()) -> Probes:
    """What `evaluation.probes_of_team` asks for.

    learners: who speaks for the agents that learn, by the names that plays have for them
    fixed: those that do not learn; they are muted, too
    """
    names, policies, found = [*learners], [*learners.values()], dict[str, dict[str, Actor]]()
    for kind in config.evaluation.probes_of_team:
        if kind == "muted":
            found |= {f"{kind}_{name}": {name: Silent(name)} for name in [*names, *fixed]}
        elif kind == "untrained":
            for name, policy in learners.items():
                start = policy.reference(policy.name).as_member(config)
                found[f"{kind}_{name}"] = {name: start}
        elif kind == "swapped":  # each speaks for the one before it
            found[kind] = dict(zip(names, [*policies[1:], policies[0]], strict=True))
    return found


def worth_asking(probes: Probes, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The probes without those that mute somebody after whom nobody else speaks.

    lines: of the unchanged team, as of samples.jsonl
    """
    spoken, heard = set[str](), set[str]()
    for line in lines:
        speakers = [(turn["agent"], turn["role"]) for turn in line["turns"]]
        spoken.update(*speakers)
        heard.update(*(one for one, later in combinations(speakers, 2) if one != later))
    unheard = spoken - heard
    return [
        probe
        for probe, changed in probes.items()
        if not any(name in unheard and isinstance(who, Silent) for name, who in changed.items())
    ]


def of_probe(probe: str, metrics: Metrics, scores: PromptScores, request: EvalRequest) -> Metrics:
    """The metrics of the changed team: `eval/score/team` is `eval/muted_sender/score/team`.

    scores: what prompts contribute to them; they join those of the request
    """

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name.replace("/", f"/{probe}/", 1): value for name, value in values.items()}

    request.scores.values |= renamed(scores.values)
    request.scores.shares |= renamed(scores.shares)
    return renamed(metrics)
