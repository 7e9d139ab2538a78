"""conf/paper/ against sweeps, experiments and metrics; and the scripts that read it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from cory.report.checks import load_table
from cory.report.claims.sides import operands
from cory.report.pages.changes import chosen, scale_files, scale_reasons, setting_differences
from cory.report.pages.write import Places, checked, tables_of
from cory.report.paper import WHOLE_SCALES, Table, load_paper
from cory.report.records import archive
from cory.report.records.archive import Archived
from cory.report.records.collect import collect
from cory.report.tables import second_hand
from tests.support.composing import CONF, options, parsed
from tests.support.made_up_runs import WriteRun
from tests.support.reporting import ROOT, composed, places_in, run_script, write_all

NAMED = {
    "cory": "fig2 fig3 fig4 fig5 fig6 fig7 fig8 fig9 fig10 grid_ppo tab1 tab2 tab3 tab4 tab5 "
    "compute_matched credit credit_leave_one_out credit_value_head credit_rotation "
    "credit_frontier agents kl_estimator leave_one_out value_zero",
    "maporl": "toy_fig5 exp1_fig2 transitions remark2 shaping_alpha shaping_beta transfer hetero "
    "sft_exp5 verifier_tab7 single_rl_tab8 reward_designs verifier_quality leave_one_out baselines "
    "value_head value_rate value_zero",
    "spag": "fig1 tab1 tab2 fig3a fig3b fig3c fig3d fig3e fig4l fig4r fig5 fig6 app_e examples "
    "rate",
    "maft": "fig1 tab1 tab2 fig3 fig4 fig5 fig6 fig7 tab3 fig8 tab4 appG tab5 fig9 fig10 tab6 tab7 "
    "fig11 fig12 fig13 critics critics_iters",
}
WITHOUT_RUNS = {"cory": {"tab1", "tab2"}, "maporl": {"toy_fig5"}, "maft": {"appG"}, "spag": set()}
COMPUTED = ("game", "skills")
DEBATES = ("turns", "transitions", "alone")
GAMES = ("matches", "benchmarks", "factor", "dialogues")
FINE_TUNING = ("accuracy", "iterations", "scatter")
# under the rules of docs/studies.md; the others are older
FIVE_SEEDS = {
    *(
        "baselines",
        "credit",
        "credit_leave_one_out",
        "credit_rotation",
        "credit_frontier",
        "credit_value_head",
        "critics",
        "critics_iters",
    ),
    *("kl_estimator", "leave_one_out", "value_head", "value_rate", "value_zero"),
}


def all_tables() -> list[tuple[str, str]]:
    papers = {paper: load_paper(CONF, paper)["tables"] for paper in NAMED}
    return [(paper, name) for paper, tables in papers.items() for name in tables]


@pytest.mark.slow
@pytest.mark.parametrize("paper", NAMED)
def test_every_table_has_a_sweep_and_the_other_way_round(paper: str) -> None:
    names = {name for own, name in all_tables() if own == paper}
    sweeps = {path.stem for path in (CONF / "sweep" / paper).glob("*.yaml")}
    parts = {name for name in sweeps if name.endswith(("_small", "_medium"))}  # of one scale
    assert names - sweeps == WITHOUT_RUNS[paper] and sweeps - parts <= names
    assert {name.rpartition("_")[0] for name in parts} <= names
    assert names == set(NAMED[paper].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "name", "scale"),
    [
        *((paper, name, scale) for paper, name in all_tables() for scale in WHOLE_SCALES),
        ("cory", "fig6", "medium"),
        ("cory", "kl_estimator", "medium"),
    ],
)
def test_some_sweep_runs_what_controls_are_about(paper: str, name: str, scale: str) -> None:
    """Else no run of the page's seeds could show that the baseline works."""
    table = load_table(CONF, paper, name, scale)
    needed = {(control, seed) for control in table.control_runs for seed in table.seeds}
    own = {(experiment, seed) for experiment in table.to_run for seed in table.seeds}
    assert needed - own <= table.runs_of_others


def test_medium_has_the_tables_alone_that_have_a_sweep_there() -> None:
    found = tables_of(places_in(CONF), "cory", "medium")
    assert [table.name for table in found] == ["fig3", "fig6", "kl_estimator"]
    assert found[0].experiments == ["cory/imdb_ppo", "cory/imdb_cory"]
    assert found[1].experiments[1:] == ["cory/imdb_cory_no_transfer", "cory/imdb_cory_no_exchange"]
    pair = ["cory/imdb_ppo", "cory/imdb_cory"]
    assert found[2].experiments == [*pair, *(f"{name}_k1" for name in pair)]
    none = "cory fig4: there is no conf/sweep/cory/fig4_medium.yaml"
    with pytest.raises(ValueError, match=f"^scale medium has no form of {none}$"):
        load_table(CONF, "cory", "fig4", "medium")


def test_runs_that_another_table_asks_for_are_not_called_refused() -> None:
    table = checked(places_in(CONF), "spag", "rate", "small")
    assert ("spag/llama2_im", 3000) in table.runs_of_others
    assert ("spag/llama2_spag_1_quarter", 3100) not in table.runs_of_others
    archived = archive.read(ROOT / "docs/results/spag/records/small")
    assert {run.seed for run in archived if run.experiment == "spag/llama2_im"} > {3000, 3004}
    found = collect(table, archived, [])
    assert not [one for one in found.refused if one.name.endswith(("seed3000", "seed3004"))]
    refusal = archive.Refused("spag/llama2_im", "spag/llama2_im/seed3000", "dirty", 3000)
    assert refusal not in collect(table, archived, [refusal]).refused
    stranger = dataclasses.replace(table, about={**table.about, "tables": {"rate": table.entry}})
    assert "spag/llama2_im/seed3000" in [
        one.name for one in collect(stranger, archived, []).refused
    ]


@pytest.mark.parametrize("paper", NAMED)
def test_claims_asked_when_their_runs_had_been_seen_are_marked(paper: str) -> None:
    claims = [
        claim for table in tables_of(places_in(CONF), paper, "small") for claim in table.claims
    ]
    said = {claim["id"] for claim in claims if "had been seen" in claim.get("note", "")}
    assert {claim["id"] for claim in claims if claim.get("post_hoc")} == said
    assert {claim.get("post_hoc", True) for claim in claims} == {True}


@pytest.mark.parametrize(
    ("scale", "player"), [("paper", "GPT-4"), ("small", "the scripted players")]
)
def test_a_title_names_who_plays_at_its_scale(scale: str, player: str) -> None:
    title = checked(places_in(CONF), "spag", "fig4l", scale).title
    assert title == f"Fig. 4, left: win rates against {player}"


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "name"), all_tables())
def test_a_table_fits_its_sweep(paper: str, name: str) -> None:
    table = checked(places_in(CONF), paper, name, "paper")
    ids = [claim["id"] for claim in table.claims]
    assert len(ids) == len(set(ids)) and not [text for text in ids if "{" in text]
    if name in WITHOUT_RUNS[paper]:
        assert (table.kind in COMPUTED) == bool(ids)
        return
    assert ids and table.entry["sweep"] == f"{paper}/{name}"
    sweep = OmegaConf.load(CONF / "sweep" / f"{table.entry['sweep']}.yaml")
    assert sorted(table.to_run) == sorted(sweep.hydra.sweeper.params.experiment.split(","))
    assert table.seeds == list(range(5 if name in FIVE_SEEDS else 3))
    assert all(second_hand.second_hand_text(row) for row in table.rows)
    if table.kind in DEBATES:
        check_debates(table)
        return
    if table.kind in GAMES:
        check_games(paper, name)
    if table.kind in FINE_TUNING:
        check_fine_tuning(table)
    if table.kind in ("verifier", *GAMES, *FINE_TUNING):
        return
    for row in table.rows:  # what a page says about a run is what the run has
        settings = composed(row["experiment"], "paper").algorithm
        assert settings.kl_coef == float(row.get("eta", settings.kl_coef))
        assert settings.learning_rate == float(row.get("lr", settings.learning_rate))
    for prompt in table.entry.get("prompts", []):
        for row in table.rows:
            assert prompt["text"] in composed(row["experiment"], "small").evaluation.probes


def check_debates(table: Table) -> None:
    """Claims name turns and policies that the runs have, and runs are judged by what they need."""
    for claim in table.claims:
        for operand in operands(claim):
            settings = composed(operand["experiment"], "paper").algorithm
            who = operand["metric"].rpartition("/")[2]
            of_training = operand["metric"].startswith("objective/")
            assert operand["at"] == ("final" if of_training else "last")
            if of_training or operand["metric"].startswith("eval/pass_at_1/"):
                assert who in parsed(f"experiment={operand['experiment']}").algorithm.policies()
            elif who != "team":
                assert who.removeprefix("turn_") in map(str, range(settings.evaluation_turns + 1))
    for experiment in table.to_run:
        settings = composed(experiment, "paper")
        where = f"{settings.reward.get('path')} {settings.init_from}"
        needed = [name for name in all_experiments() if f"/{name}/" in where]
        for name in needed:
            assert name in table.needs, experiment
            assert table.to_run.index(name) < table.to_run.index(experiment)


def check_fine_tuning(table: Table) -> None:
    """Rows and claims name turns, iterations and agents that the runs have; what others start from
    runs before them; at small scale some rows are left."""
    sides = [operand for claim in table.claims for operand in operands(claim)]
    sides += [row for row in table.rows if "experiment" in row]
    for side in sides:
        algorithm = composed(side["experiment"], "paper").algorithm
        for key in ("metric", "across", "with"):
            who = side.get(key, "").rpartition("/")[2]
            if who.startswith("turn_"):
                assert int(who.removeprefix("turn_")) <= algorithm.evaluation_turns, side
            elif who:
                kinds = {"specialised": ("generation", "critic")}.get(algorithm.policies, "single")
                assert who == "team" or who in kinds, side
        if str(side.get("at", "")).startswith("iteration_"):
            assert int(side["at"].removeprefix("iteration_")) <= algorithm.iterations, side
    known = all_experiments()
    for experiment in table.to_run:
        start = str(composed(experiment, "paper").init_from)
        for needed in (one for one in known if f"/{one}/" in start):
            assert table.to_run.index(needed) < table.to_run.index(experiment), experiment
    small = checked(places_in(CONF), table.paper, table.name, "small")
    assert small.rows and set(small.experiments) <= set(table.experiments)


def check_games(paper: str, name: str) -> None:
    """Claims name opponents that the runs play in roles that their game has, at either scale;
    runs come after those that they start from or play, and play the words that are shown."""
    known = all_experiments()
    for scale in ("paper", "small"):
        table = checked(places_in(CONF), paper, name, scale)
        for claim in table.claims:
            if scale not in claim.get("scales", [scale]):
                continue
            for operand in operands(claim):
                assert operand["at"] == "last"
                family, metric, who = operand["metric"].split("/")
                if family == "benchmark":
                    continue
                settings = composed(operand["experiment"], scale)
                assert settings.algorithm.opponents.get(who), (operand, scale)
                role = metric.removeprefix("win_rate").strip("_")
                if role and role != metric:
                    assert role in settings.task.texts.rules, operand
        for experiment in table.to_run:
            settings = composed(experiment, scale)
            where = f"{settings.init_from} {settings.algorithm.opponents} "
            for needed in (one for one in known if f"/{one}/" in where):
                assert table.to_run.index(needed) < table.to_run.index(experiment), experiment
        for prompt in table.entry.get("prompts", []):
            for row in table.rows:
                assert prompt["text"] in composed(row["experiment"], scale).evaluation.probes


def all_experiments() -> list[str]:
    return options("experiment")


def test_the_reasons_of_a_scale_are_its_comments() -> None:
    folders = ("model", "task", "reward", "algorithm", "experiment")
    paths = [path for folder in folders for path in (CONF / "small" / folder).rglob("*.yaml")]
    assert len(paths) > 50
    for path in paths:
        commented = [x for x in path.read_text().splitlines() if " # " in x and x[0] != "#"]
        assert len(scale_reasons(path, [])) == len(commented), path


@pytest.mark.parametrize(
    "experiment",
    [
        "cory/imdb_ppo_xl",
        "maft/llama3_mathall_iters",
        "maft/gpt35_gsm_base",
        "maft/phi3_math_adapters",
        "maporl/gsm8k_hetero_llama",
        "maporl/anli_maporl",
        "spag/llama2_im_words_10k",
        "spag/llama2_spag_3_oldlist",
    ],
)
def test_the_files_of_a_scale_are_those_that_hydra_reads(experiment: str) -> None:
    words = [f"experiment={experiment}", "scale=small"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        read = loader.compute_defaults_list("train", words, RunMode.RUN).defaults
    paths = [CONF / f"{one.config_path}.yaml" for one in read]
    small = [p for p in paths if p.is_relative_to(CONF / "small") and p.exists()]
    assert scale_files(CONF, "small", experiment) == [
        CONF / "scale/small.yaml", *(path for path in small if path.parent != CONF / "small")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "experiment", ["cory/imdb_cory", "maporl/gsm8k_from_anli", "maft/phi3_math_adapters"]
)
def test_what_an_experiment_chooses_is_what_hydra_composes(experiment: str) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", [f"experiment={experiment}"], return_hydra_config=True)
    choices = cfg.hydra.runtime.choices
    found = chosen(CONF, "train") | chosen(CONF, f"experiment/{experiment}")
    groups = ("model", "task", "algorithm", "reward", "hardware")
    assert {group: found[group] for group in groups} == {g: choices[g] for g in groups}


@pytest.fixture
def small_conf(tmp_path: Path) -> Path:
    """A conf/ with one paper, whose one claim a test writes."""
    for name in ("experiment/p/run", "scale/paper", "scale/small"):
        (tmp_path / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text("{}\n")
    (tmp_path / "train.yaml").write_text("{}\n")
    (tmp_path / "paper").mkdir()
    write_sweep(tmp_path, experiment="p/run", seed="0,1")
    return tmp_path


def write_sweep(conf: Path, **params: str) -> None:
    (conf / "sweep").mkdir(exist_ok=True)
    cfg = {"hydra": {"sweeper": {"params": params}}}
    OmegaConf.save(OmegaConf.create(cfg), conf / "sweep" / "p.yaml")


def claimed(conf: Path, left: dict[str, Any], relation: str = ">", **more: Any) -> Table:
    """The table `t` of paper `p` with one claim."""
    claim = {"id": "c", "text": "x", "section": "1", "left": left, "relation": relation, "right": 0}
    rows = [{"label": "r", "experiment": "p/run"}]
    table = {"title": "T", "kind": "curves", "sweep": "p", "rows": rows}
    about = {
        "title": "P",
        "where": "W",
        "window": 1,
        "tables": {"t": table | {"claims": [claim], **more}},
    }
    OmegaConf.save(OmegaConf.create(about), conf / "paper" / "p.yaml")
    return checked(Places(conf, conf, ROOT / "docs/metrics.md"), "p", "t", "small")


GOOD = {"experiment": "p/run", "metric": "objective/kl/agent_0", "at": "final"}


@pytest.mark.parametrize(
    ("change", "relation", "message"),
    [
        ({"metric": "objective/kll/agent_0"}, ">",
         "p t: claim c: docs/metrics.md does not define objective/kll/agent_0"),
        ({"metric": "objective/kl/agent"}, ">",
         "p t: claim c: docs/metrics.md does not define objective/kl/agent"),
        ({"metric": "eval/pass_at_x/agent_0"}, ">",
         "p t: claim c: docs/metrics.md does not define eval/pass_at_x/agent_0"),
        ({"metric": "ppo/loss/policy/agent_0"}, ">",
         "p t: claim c: the archive does not keep ppo/loss/policy/agent_0"),
        ({"experiment": "p/other"}, ">", "p t: experiment=p/other does not exist"),
        ({"at": "end"}, ">", "p t: claim c: at=end is unknown; use one of final"),
        ({}, "=", "p t: claim c: relation must be one of >, <, <=, ~, dominates"),
    ],
)  # fmt: skip
def test_a_claim_over_what_does_not_exist_is_refused(
    small_conf: Path, change: dict[str, str], relation: str, message: str
) -> None:
    assert claimed(small_conf, GOOD).claims
    assert claimed(small_conf, GOOD | {"metric": "eval/pass_at_16_low/team"}).claims
    with pytest.raises(ValueError) as error:
        claimed(small_conf, GOOD | change, relation)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"experiment": "p/run,p/nope", "seed": "0"},
         "p t: sweep=p runs p/run, p/nope; conf/paper/p.yaml shows p/run"),
        ({"seed": "0"}, "p t: sweep=p has no hydra.sweeper.params.experiment"),
    ],
)  # fmt: skip
def test_a_sweep_that_runs_something_else_is_refused(
    small_conf: Path, params: dict[str, str], message: str
) -> None:
    write_sweep(small_conf, **params)
    with pytest.raises(ValueError) as error:
        claimed(small_conf, GOOD)
    assert str(error.value) == message


def test_what_others_need_runs_first_and_has_no_row(small_conf: Path) -> None:
    (small_conf / "experiment/p/judge.yaml").write_text("{}\n")
    write_sweep(small_conf, experiment="p/judge,p/run", seed="0,1")
    table = claimed(small_conf, GOOD, needs=["p/judge"])
    assert (table.to_run, table.experiments) == (["p/judge", "p/run"], ["p/run"])
    for swept, message in {
        "p/run,p/judge": "p t: sweep=p must begin with p/judge, which the others need",
        "p/run": "p t: sweep=p runs p/run; conf/paper/p.yaml shows p/run and needs p/judge",
    }.items():
        write_sweep(small_conf, experiment=swept, seed="0,1")
        with pytest.raises(ValueError) as error:
            claimed(small_conf, GOOD, needs=["p/judge"])
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"needs": ["p/run"]}, "needs names an experiment of a row"),
        ({"needs": ["p/nope"]}, "experiment=p/nope does not exist"),
        ({"panels": "task"}, "every row has a panel where the table has panels, else none"),
        ({"against": "p/nope"}, "against=p/nope is no row's experiment"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(
    small_conf: Path, more: dict[str, Any], message: str
) -> None:
    write_sweep(small_conf, experiment="p/run", seed="0")
    with pytest.raises(ValueError, match=message):
        claimed(small_conf, GOOD, **more)


def test_an_experiment_may_have_changes_of_its_own_at_a_scale(small_conf: Path) -> None:
    own = small_conf / "small/experiment/p/run.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("seed: 1   # a reason\n")
    found = scale_files(small_conf, "small", "p/run")
    assert found == [small_conf / "scale/small.yaml", own]
    assert scale_reasons(own, []) == ["- `seed: 1`: a reason"]


def test_templates_are_filled_in() -> None:
    table = load_table(CONF, "cory", "fig2", "paper")
    assert [claim["id"] for claim in table.claims] == [
        "frontier_llm1", "frontier_llm2", "every_eta_llm1", "every_eta_llm2",
    ]  # fmt: skip
    parts = table.claims[3]["parts"]
    assert len(parts) == 8 and parts[0]["name"] == "task reward at 1e-5"
    assert parts[1]["left"] == {
        "experiment": "cory/gsm8k_cory_eta1e-5", "metric": "objective/kl/agent_1", "at": "final",
    }  # fmt: skip
    assert "{" not in str(parts).replace("{'", "")


@pytest.mark.slow
def test_the_script_writes_page_and_figure(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    script = ("scripts/table.py", "cory", "fig3", "--scale", "small")
    options = ("--outputs", str(tmp_path / "outputs"), "--docs", str(tmp_path / "docs"))
    done = run_script(*script, *options)
    assert done.returncode == 0, done.stderr
    assert "gathered cory/imdb_ppo/seed0" in done.stdout
    written = tmp_path / "docs/cory/fig3_small"
    assert written.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "](fig3_small.png)" in written.with_suffix(".md").read_text()
    refused = run_script("scripts/table.py", "cory", "fig6", *options)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: there is no run of cory fig6 at scale paper")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nobody", "t1"), "nobody is not a paper; choose one of cory, maft, maporl, spag"),
        (("cory", "fig99"), "cory has no fig99; choose one of fig2, fig3, "),
        (("cory", "fig3", "--scale", "huge"), "--scale huge: there is no conf/scale/huge.yaml"),
        (("--all", "--scale", "smal"), "--scale smal is none of paper, small, medium"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    folders = (f"--outputs={tmp_path}", f"--docs={tmp_path}", f"--readme={tmp_path / 'README.md'}")
    done = run_script("scripts/table.py", *words, *folders)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: {message}")


def test_a_setting_that_one_side_has_as_before_is_a_change() -> None:
    """It is left out of what counts as the same run, and so was missing in the list."""
    table, name = load_table(CONF, "cory", "fig3", "small"), "cory/imdb_ppo"
    paper: Any = OmegaConf.to_container(composed(name, "paper"), resolve=True)
    settings: Any = OmegaConf.to_container(composed(name, "paper"), resolve=True)
    paper["algorithm"] |= {"schedule": "linear", "optimizer": "adam"}
    settings["algorithm"]["schedule"] = "constant"
    # of before they came; an evaluation more is no change of the training
    del settings["algorithm"]["optimizer"], settings["model"]["attention"]
    del settings["evaluation"]["before"]
    run = Archived(name, 0, "small", "paper", {}, None, [], settings, [], [])
    assert setting_differences(table, {name: run}, {name: paper}) == [
        ["`algorithm.optimizer`", "adam", "adamw", "all"],
        ["`algorithm.schedule`", "linear", "constant", "all"],
    ]


@pytest.mark.parametrize(("paper", "name"), all_tables())
def test_every_study_names_its_positive_control(paper: str, name: str) -> None:
    """Of each claim that runs decide; `control: []` says that it is about baselines alone."""
    table = checked(places_in(CONF), paper, name, "small")
    if name in WITHOUT_RUNS[paper]:
        assert not table.controls
        return
    silent = [claim["id"] for claim in table.claims
              if "control" not in claim and not table.entry.get("control")]  # fmt: skip
    assert not silent and (table.controls or not table.claims)


def test_a_control_that_does_not_exist_is_refused(small_conf: Path) -> None:
    left = {"experiment": "p/run", "metric": "objective/kl/agent_0", "at": "last"}
    with pytest.raises(ValueError, match="p t: claim c: control nothing is none of"):
        claimed(small_conf, left, control=["nothing"])


@pytest.mark.parametrize("paper", NAMED)
def test_the_claims_in_a_minute_exist(paper: str) -> None:
    about = load_paper(CONF, paper)["in_a_minute"]
    ids = {
        f"{name}{at}.{claim['id']}"
        for at, scale in (("", "small"), ("@medium", "medium"))
        for name in NAMED[paper].split()
        if scale == "small" or (CONF / "sweep" / paper / f"{name}_{scale}.yaml").exists()
        for claim in checked(places_in(CONF), paper, name, scale).claims
    }
    assert set(about["claims"]) <= ids and about["picture"] in NAMED[paper].split()


def test_a_scale_names_the_controls_of_the_claims_that_it_judges() -> None:
    controls = {
        scale: list(load_table(CONF, "maporl", "hetero", scale).controls) for scale in WHOLE_SCALES
    }
    both = ["member_helps_qwen", "member_helps_llama"]
    assert controls == {"paper": both, "small": both[:1]}  # the other pair is not run there


def test_reasons_for_values_that_another_file_replaced_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(
        "defaults:\n  - override /task: sums   # an option\n"
        "algorithm:\n  learning_rate: 3e-4   # a rate\n  epochs: 2\n"
        "  sampling:\n    top_k: null   # all tokens\n  stop: ${other}   # of another value\n"
        "model: {name: tiny}   # a model\n"
    )
    same = {"algorithm.learning_rate": 3e-4, "algorithm.sampling.top_k": None}
    kept = [reason.split("`")[1] for reason in scale_reasons(path, [same])]
    always = ["task: sums", "stop: ${other}", "model: {name: tiny}"]
    assert kept == [always[0], "learning_rate: 3e-4", "top_k: null", *always[1:]]
    other = {"algorithm.learning_rate": 3e-5, "algorithm.sampling.top_k": 50, "algorithm.stop": 1}
    kept = [reason.split("`")[1] for reason in scale_reasons(path, [other])]
    assert kept == always
    assert len(scale_reasons(path, [other, same])) == 5
