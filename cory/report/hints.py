"""What keeps a run from learning: said after its first iteration, and again at its end."""

import re
from collections.abc import Mapping

from cory.runs.run_dir import SAMPLES

# policies, of what the last part of a metric's name may be; others are roles and means over agents
AGENT = r"(?!(?:pioneer|observer(?:_\d+)?|team)$)[^/]+"
MOST_CUT, MOST_EQUAL, MOST_UNREAD = 0.5, 0.8, 0.5  # shares above which a hint is given


def obstacles(metrics: Mapping[str, float], ends: bool, unread: float = 0.0) -> list[str]:
    """Lines about scores, lengths, groups and answers from which little can be learnt.

    metrics: of one iteration, or the ends of a run's
    ends: whether a response should come to an end; a text that is no answer may well go on
    unread: share of the responses in which no answer can be read
    """
    found = []
    equal = [who for who, spread in of_agents(metrics, "objective/score_std").items() if not spread]
    if equal:
        found.append(
            f"reward: all answers of {', '.join(equal)} have the same score, so that nothing can "
            f"be learnt from them; {SAMPLES} shows what they are"
        )
    cut = max(of_agents(metrics, "rollout/truncated_share").values(), default=0.0)
    if ends and cut > MOST_CUT:
        setting = "algorithm.sampling.max_response_tokens"
        found.append(f"{setting}: {cut:.0%} of the responses are cut off")
    if unread > MOST_UNREAD:
        found.append(
            f"task.prompt_template: in {unread:.0%} of the responses no answer can be read; it "
            f"should ask for the form that task.answers says"
        )
    groups = max(of_agents(metrics, "rollout/equal_groups").values(), default=0.0)
    if groups > MOST_EQUAL and not equal:
        found.append(
            f"algorithm.samples_per_prompt: {groups:.0%} of the groups have equal scores and teach "
            f"nothing; more samples help, or prompts that are right now and then"
        )
    return found


def of_agents(metrics: Mapping[str, float], name: str) -> dict[str, float]:
    """The agents that have a metric, and its value."""
    found = {m: m.rpartition("/")[2] for m in metrics if re.fullmatch(f"{name}/{AGENT}", m)}
    return {who: float(metrics[m]) for m, who in found.items()}
