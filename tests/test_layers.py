"""Imports inside cory/ point down only, and each outside library has its place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cory

ROOT = Path(cory.__file__).resolve().parent
LAYERS = [  # low to high
    [
        "config",
        "episode",
        "processes",
        "streams",
        "functional",
        "games",
        "origin",
        "run_dir",
        "pieces",
        "watch",
    ],
    ["pretrained", "tasks", "shape", "remote", "journal", "endpoint", "endpoint_player"],
    ["team", "adapters", "engine", "generation", "workload", "footprint", "readers"],
    [
        *("voice", "codec", "agent", "export", "rewards", "interactions", "play", "game_sets"),
        *("debate", "debate_wording", "summaries"),
    ],
    [
        *("evaluation", "verification", "debate_metrics", "diversity", "opponents", "game_exam"),
        *("endpoint_debate", "specialisation"),
    ],
    ["trainers"],
    ["algorithms"],
    ["record", "mirror", "checkpoint", "loop", "preflight"],
    ["harness", "benchmark_record", "benchmarks"],
    ["question_files", "debate_text", "inference"],
    ["report"],
    ["worker", "launch", "elastic"],
    ["train"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ONLY_IN = {  # outside library -> the modules that may import it
    "deepspeed": {"engine"},
    "transformers": {
        "pretrained",
        "team",
        "adapters",
        "generation",
        "export",
        "worker",
        "shape",
    },
    "hydra": {"train"},
    "wandb": {"mirror"},
    "openai": {"remote"},
    "lm_eval": {"harness"},
    "peft": {"adapters"},
    "math_verify": {"tasks"},
    "bitsandbytes": set(),  # transformers imports it, where a model is loaded in 4 bits
}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def module(path: Path) -> str:
    """The part of cory that a file belongs to: `config`, `tasks`, ..."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[str]:
    """Dotted names of all that is imported, wherever the statement stands."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = module(path)
    assert own in LEVEL, f"{own} has no layer"
    for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        top, *rest = name.split(".")
        if top == "cory":
            assert LEVEL[rest[0]] <= LEVEL[own], f"{own} imports {name}"
        assert own in ONLY_IN.get(top, {own}), f"{own} imports {top}"
        assert top not in ("tests", "scripts"), f"{own} imports {top}"


def test_every_library_is_imported_where_it_may_be() -> None:
    found: dict[str, set[str]] = {library: set() for library in ONLY_IN}
    for path in FILES:
        for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
            found.get(name.split(".")[0], set()).add(module(path))
    assert found == ONLY_IN


@pytest.mark.parametrize(
    ("library", "place"), [("wandb", "mirror"), ("openai", "remote"), ("lm_eval", "harness")]
)
def test_what_few_runs_need_is_imported_only_when_used(library: str, place: str) -> None:
    tree = ast.parse((ROOT / f"{place}.py").read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]

    def times(part: ast.AST) -> int:
        return sum(name.split(".")[0] == library for name in imports(part))

    assert sum(map(times, functions)) == times(tree) > 0
