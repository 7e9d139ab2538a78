"""scripts/dashboard.py: what the page says becomes sections and panels of a workspace."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from scripts.dashboard import PAGE, Metric, build, panels_of, read_metrics, sections
from tests.support.wandb_server import WandbServer
from tests.support.warm import run_script
from tests.test_metrics_doc import documented

dashboard = partial(run_script, "scripts/dashboard.py")


def read() -> list[Metric]:
    return read_metrics(PAGE.read_text(encoding="utf-8"))


def shown() -> list[str]:
    """The metrics of the page that reach W&B."""
    return [name for name in documented() if not name.startswith("benchmark/")]


@pytest.mark.parametrize(
    ("logged", "title"),
    [
        ("objective/kl/agent_12", "objective/kl, by agent"),
        ("objective/kl/observer_2", "objective/kl, by role"),
        ("objective/kl_k1/agent_0", "objective/kl_k1, by agent"),
        ("eval/pass_at_16_low/agent_0", "eval/pass_at_<k>_low, by agent"),
        ("reward/tone/agent_0", "reward/<part>, by agent"),
        ("eval/reward/tone/team", "eval/reward/<part>, by team"),
        ("reward/own/logged/my/share", "reward/logged/<name>"),
        ("reward/taste/requests", "reward/requests"),
        ("objective/kl", None),
        ("ppo/loss/policy/agent_1_turn_2", "ppo/loss/policy, by agent"),
        ("before/vote/turn_3", "eval/vote, by turn"),
        ("eval/nll_others/critic", "eval/nll_others, by kind"),
        ("eval/verifier_auc/within", "eval/verifier_auc, by answers"),
        ("game/oracle_wins", "game/<role>_wins"),
        ("eval/win_rate_se/spag_1", "eval/win_rate_se, by opponent"),
        ("eval/win_rate_attacker_se/im", "eval/win_rate_<role>_se, by opponent"),
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


@pytest.mark.slow
def test_the_script_saves_it_as_a_view_of_the_project() -> None:
    server = WandbServer()
    done = dashboard("someone/test", WANDB_BASE_URL=server.url, WANDB_API_KEY="0" * 40)
    server.leave()
    assert done.returncode == 0, done.stderr
    (view,) = server.views
    assert (view["entityName"], view["projectName"]) == ("someone", "test")
    names = [s["name"] for s in json.loads(view["spec"])["section"]["panelBankConfig"]["sections"]]
    assert names == [section.name for section in sections(read())]


@pytest.mark.slow
def test_without_the_extra_it_lists_but_does_not_save(tmp_path: Path) -> None:
    (tmp_path / "wandb_workspaces.py").write_text(
        "raise ModuleNotFoundError(name='wandb_workspaces')"
    )
    done = dashboard("someone/test", "--dry-run", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert all(f"- `{name}`: " in done.stdout for name in shown())
    done = dashboard("someone/test", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == 'error: no wandb_workspaces; pip install ".[dashboard]"\n'
