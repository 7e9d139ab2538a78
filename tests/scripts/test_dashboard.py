"""scripts/dashboard.py: what the page says becomes sections and panels of a workspace."""

import re

import pytest

from scripts.dashboard import PAGE, Metric, build, panels_of, read_metrics, sections


def read() -> list[Metric]:
    return read_metrics(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("logged", "title"),
    [
        ("objective/kl/observer_2", "objective/kl, by role"),
        ("eval/pass_at_16/agent_0", "eval/pass_at_<k>, by agent"),
        ("reward/own/logged/my/share", "reward/logged/<name>"),
        ("ppo/loss/policy/agent_1_turn_2", "ppo/loss/policy, by agent"),
        ("before/vote/turn_3", "eval/vote, by turn"),
        ("eval/win_rate_attacker/im", "eval/win_rate_<role>, by opponent"),
        ("benchmark/mmlu/agent_0", None),
    ],
)
def test_a_logged_name_is_in_the_panel_of_its_metric_alone(logged: str, title: str | None) -> None:
    panels = [panel for metric in read() for panel in panels_of(metric)]
    titles = [panel.title for panel in panels if re.search(panel.pattern, logged)]
    assert titles == ([] if title is None else [title])


def test_the_workspace_holds_the_panels_and_their_meanings() -> None:
    content = sections(read())
    spec = build("someone", "test", content)._to_model().spec.model_dump(by_alias=True)
    found = spec["section"]["panelBankConfig"]["sections"]
    assert [section["name"] for section in found] == [section.name for section in content]
    assert [section["isOpen"] for section in found] == [True] + [False] * (len(found) - 1)
    for stored, section in zip(found, content, strict=True):
        *plots, legend = stored["panels"]
        assert [plot["config"]["metricRegex"] for plot in plots] == [
            panel.pattern for panel in section.panels
        ]
        assert all(plot["config"]["xAxis"] == "iteration" for plot in plots)
        assert all(plot["config"]["groupArea"] == "stddev" for plot in plots)
        assert legend["config"]["value"] == section.legend()
    grouping = [key["name"] for key in spec["section"]["runSets"][0]["grouping"]]
    assert grouping == ["experiment.value", "scale.value"]
