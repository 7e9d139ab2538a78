from __future__ import annotations

from cory.episode import Episode, Prompt, Turn
from cory.functional.advantages import groups_of


def turn(agent: str, role: str, round: int = 0, absent: bool = False) -> Turn:
    return Turn(agent, role, round, "", "", [1], [] if absent else [2])


def episode(*turns: Turn) -> Episode:
    # the same text every time: a query that is drawn twice is two queries
    return Episode(Prompt("0", "again"), list(turns))


def test_single_turns_are_grouped_by_query() -> None:
    episodes = [episode(turn("a", "solo")) for _ in range(6)]
    assert groups_of(episodes, "a", 3).tolist() == [0, 0, 0, 1, 1, 1]
    assert groups_of(episodes, "a", 1).tolist() == [0, 1, 2, 3, 4, 5]
    assert groups_of(episodes, "b", 3).tolist() == []


def test_each_agent_has_the_groups_of_its_own_role() -> None:
    episodes = [episode(turn("a", "pioneer"), turn("b", "observer")) for _ in range(4)]
    for agent in "ab":
        assert groups_of(episodes, agent, 2).tolist() == [0, 0, 1, 1]


def test_a_policy_that_speaks_for_all_is_compared_with_its_role_and_round() -> None:
    """Two debaters over two rounds: four groups for each query, in the order of the turns."""
    turns = [turn("a", role, round) for round in (0, 1) for role in ("debater_0", "debater_1")]
    found = groups_of([episode(*turns) for _ in range(4)], "a", 2).tolist()
    assert found == [0, 1, 2, 3] * 2 + [4, 5, 6, 7] * 2


def test_absent_turns_belong_to_no_group() -> None:
    episodes = [episode(turn("a", "x"), turn("a", "x", 1, absent=gone)) for gone in (True, False)]
    assert groups_of(episodes, "a", 2).tolist() == [0, -1, 0, 1]
