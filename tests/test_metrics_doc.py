"""docs/metrics.md and the code name the same metrics."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.benchmarks import GEOMETRIC_MEAN
from cory.config import Config, PythonRewardConfig, SumConfig, builder
from cory.episode import Episode
from cory.rewards import RunReward
from cory.runtime.build import build_parts
from cory.runtime.loop import seconds_of
from scripts import dashboard
from tests.support.agents import MAFT, build_agents
from tests.support.building import CLASSIFIER, LetterShare, build, measure
from tests.support.chat_server import ChatServer, judge, reply
from tests.support.composing import parsed
from tests.support.supervising import SFT, VERIFIER, build_sft, build_verifier


class Alternating:
    """A judge to whom every second answer is right, so that answers of all kinds occur."""

    def score(self, episodes: list[Episode]) -> None:
        turns = [turn for episode in episodes for turn in episode.turns]
        for number, turn in enumerate(turns):
            turn.score, turn.right = float(number % 2), bool(number % 2)


ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("objective", "rollout", "ppo", "role", "transfer", "debate", "verifier", "supervised")
FAMILIES += ("game", "offline", "eval", "time", "reward")
PACKAGES = ("trainers", "algorithms", "evaluation", "rewards")  # whose modules name metrics
# the last part of a name, when it says whom the number is about
WHOM = re.compile(
    r"/(agent_\d+(_turn_\d+)?|turn_\d+|pioneer|observer(_\d+)?|team|natural|balanced|within"
    r"|itself|scripted|single|(generation|critic)(_\d+)?)$"
)
# two tiny turns of Adversarial Taboo, among four words that are learnt from and two that are not
GAMES = [
    *("scale=small", "init_from=null", "task.max_turns=2", "evaluation.prompts=2"),
    *("algorithm.iterations=1", "algorithm.iterations_per_epoch=1", "algorithm.minibatch_size=4"),
    "algorithm.prompts_per_iteration=4",
    *("algorithm.instructions.per_iteration=1", "evaluation.probes=[]"),
    "++algorithm.opponents.im=null",
    *("algorithm.sampling.min_response_tokens=4", "algorithm.sampling.max_response_tokens=4"),
]


def documented() -> list[str]:
    """The first column of the tables of docs/metrics.md."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return [name for cell in cells for name in cell.strip("`").split("`, `")]


def literals() -> set[str]:
    """Every string of PACKAGES that names a metric, `{}` for what is filled in."""
    found = set()
    for path in chain.from_iterable((ROOT / "cory" / room).glob("*.py") for room in PACKAGES):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        formatted = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
        inside = {id(part) for parts in formatted for part in parts}
        plain = [[n] for n in nodes if isinstance(n, ast.Constant) and id(n) not in inside]
        for parts in [*formatted, *plain]:
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
            if re.fullmatch(rf"({'|'.join(FAMILIES)})/[\w/{{}}]+", text):
                found.add(text)
    return found


def plain(name: str) -> str:
    """A logged name as the page has it: without whom it is about, <k> for a number, <role>, ..."""
    name = re.sub(r"((pass_at|any_of)_)\d+", r"\1<k>", WHOM.sub("", name))
    name = re.sub(r"(?<=[/_])(own|tone|taste)(?=/|_|$)", "<part>", name)
    name = re.sub(r"^reward/<part>/", "reward/", name).replace("logged/length", "logged/<name>")
    return re.sub(r"(?<=[/_])(attacker|defender)(?=_|$)", "<role>", name)


@pytest.fixture(scope="module")
def logged(
    config_of: Callable[..., Config],
    questions: Callable[..., Config],
    tmp_path_factory: pytest.TempPathFactory,
) -> set[str]:
    """Names that runs of every algorithm log, with what they end with."""
    folder = tmp_path_factory.mktemp("logged")
    names: set[str] = set()
    for algorithm in ("ppo", "cory", "grpo"):
        names |= build(config_of(f"algorithm={algorithm}"), LetterShare()).step(0).keys()
    config = questions("evaluation.greedy=true", "evaluation.team=true")
    names |= measure(build(config), config, folder)[0].keys()
    config = questions(
        *("algorithm=maporl", "algorithm.guards.boxed=false", "algorithm.guards.min_tokens=null"),
        *("evaluation.greedy=true", "evaluation.team=true"),
    )
    debate = build(config, Alternating())
    # a random model is never right: let the length of what it says decide
    debate.task.read = lambda response: 7 if len(response) % 2 else 3  # type: ignore[method-assign]
    names |= debate.step(0).keys() | measure(debate, config, folder)[0].keys()
    names |= logged_by_supervised(questions, folder) | logged_by_games(folder)
    names |= logged_by_agents(questions, folder / "agents")
    return names | logged_by_rewards(config_of, folder)


@pytest.mark.slow
def test_the_page_names_what_a_run_logs(logged: set[str]) -> None:
    benchmarks = OmegaConf.load(ROOT / "conf" / "benchmarks" / "spag.yaml").benchmarks
    of_a_record = {f"benchmark/{name}" for name in (*benchmarks, GEOMETRIC_MEAN)}
    assert {plain(name) for name in logged | of_a_record} == set(documented())


@pytest.mark.slow
def test_whatever_a_run_logs_has_a_panel(logged: set[str]) -> None:
    page = dashboard.PAGE.read_text(encoding="utf-8")
    metrics = dashboard.read_metrics(page)
    panels = [panel for metric in metrics for panel in dashboard.panels_of(metric)]
    for name in logged:
        assert any(re.search(panel.pattern, name) for panel in panels), name


def logged_by_supervised(questions: Callable[..., Config], run_dir: Path) -> set[str]:
    config = questions(*VERIFIER)
    verifier = build_verifier(config)
    found = verifier.step(0).keys() | measure(verifier, config, run_dir)[0].keys()
    # only with models that chat
    found |= {"verifier/requested", "verifier/requests_kept"}
    return found | build_sft(questions(*SFT)).step(0).keys()


def logged_by_agents(questions: Callable[..., Config], run_dir: Path) -> set[str]:
    config = questions(
        *(*MAFT, f"run_dir={run_dir}", "algorithm.prompts_per_iteration=4"),
        *("diversity@algorithm.diversity=tiny", "algorithm.diversity.max_tokens=40"),
    )
    trainer = build_agents(config)
    found = {"debate/pseudo_right/team"}  # what is right has no vowel that could be read
    found |= {"eval/endpoint_requests/team", "eval/endpoint_tokens/team"}  # only where one speaks
    return found | trainer.step(0).keys() | measure(trainer, config, run_dir)[0].keys()


def logged_by_rewards(config_of: Callable[..., Config], folder: Path) -> set[str]:
    (folder / "mine.py").write_text(
        "def score(completions, log_metric, **kwargs):\n"
        "    log_metric('length', len(completions))\n"
        "    return [1.0] * len(completions)\n"
    )
    server = ChatServer(lambda number, body: reply("Grade: 3"))
    config = config_of(f"run_dir={folder}", "algorithm=ppo")
    own = PythonRewardConfig(name="python", function=f"{folder}/mine.py:score")
    tone = CLASSIFIER.replace(path=config.reward.path)
    found = set()
    for reward in (
        own,
        SumConfig(name="sum", parts={"own": own, "tone": tone, "taste": judge(server)}, weights={}),
    ):
        config.reward = reward
        trainer = build(config)
        found |= trainer.step(0).keys()
        assert isinstance(trainer.reward, RunReward)
        found |= trainer.reward.metrics().keys()
        found |= measure(trainer, config, folder)[0].keys()
        found |= seconds_of(trainer.reward).keys()
    server.shutdown()
    server.server_close()
    return found


def logged_by_games(run_dir: Path) -> set[str]:
    found = {"game/endpoint_requests", "game/endpoint_tokens"}  # only where one plays
    for experiment, games in (("llama2_im", "scripted"), ("llama2_spag_1", "self_play")):
        own = run_dir / games
        words = (f"experiment=spag/{experiment}", *GAMES, f"algorithm.games={games}")
        config = parsed(*words, f"run_dir={own}")
        trainer = builder("algorithm", config.algorithm.name)(config.algorithm, build_parts(config))
        found |= trainer.step(0).keys() | measure(trainer, config, own)[0].keys()
    return found


def test_no_metric_is_named_twice() -> None:
    assert len(documented()) == len(set(documented()))


def test_the_page_names_what_only_some_settings_log() -> None:
    """A metric behind an `if` that the run above does not enter is a string of the source."""
    names = [f"{name}{whom}" for name in documented() for whom in ("", "/x", "/turn_x")]
    found = literals()
    assert {"objective/kl", "objective/kl_{}", "ppo/value/mean/{}", "time/{}"} <= found
    assert {"eval/score/{}", "eval/{}_low/{}", "transfer/gain/{}"} <= found
    for literal in sorted(found):
        pattern = re.escape(plain(literal)).replace(r"\{\}", r"[\w/<>]+")
        assert any(re.fullmatch(pattern, name) for name in names), literal


def test_every_line_says_where_the_number_is_computed() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.+", text, flags=re.MULTILINE)
    of_rows = [re.findall(r"`((?:\w+/)*\w+\.py)(?:: ([\w.]+))?`", row) for row in rows]
    assert rows and all(of_rows)
    places = [place for of_row in of_rows for place in of_row]
    for file, name in places:
        source = (ROOT / "cory" / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"(def|class) {name.rpartition('.')[2]}\b", source), name
