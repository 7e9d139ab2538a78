"""Imports inside cory/ point down only, and each outside library has its place."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import cory

ROOT = Path(cory.__file__).resolve().parent
LAYERS = [  # low to high; packages of one layer may import each other, but not in a circle
    ["config", "episode", "seeding", "distributed", "user_function"],
    ["functional", "games"],
    ["models", "tasks"],
    ["runs"],
    ["endpoint", "rewards"],
    ["rollout", "memory"],
    ["evaluation"],
    ["trainers"],
    ["algorithms"],
    ["inference"],
    ["report"],
    ["runtime"],
    ["train", "notebook", "benchmarks"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ONLY_IN = {  # outside library -> the packages that may import it
    "deepspeed": {"models"},
    "transformers": {"benchmarks", "memory", "models", "runs", "runtime"},
    "hydra": {"train", "runtime"},
    "wandb": {"runs"},
    "openai": {"endpoint"},
    "lm_eval": {"benchmarks"},
    "peft": {"models"},
    "math_verify": {"tasks"},
    "bitsandbytes": {"models"},  # transformers imports it, too, where a model is loaded in 4 bits
}
FILES = sorted(
    path
    for path in ROOT.rglob("*.py")
    if path != ROOT / "__init__.py" and ROOT / "assets" not in path.parents
)


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


@cache
def imported_by(path: Path) -> list[str]:
    """The same of a file."""
    return imports(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = module(path)
    assert own in LEVEL, f"{own} has no layer"
    for name in imported_by(path):
        top, *rest = name.split(".")
        if top == "cory":
            assert LEVEL[rest[0]] <= LEVEL[own], f"{own} imports {name}"
        assert own in ONLY_IN.get(top, {own}), f"{own} imports {top}"
        assert top not in ("tests", "scripts"), f"{own} imports {top}"


def test_no_two_packages_import_each_other() -> None:
    imported: dict[str, set[str]] = {}
    for path in FILES:
        names = (name.split(".") for name in imported_by(path))
        others = {name[1] for name in names if name[0] == "cory"}
        imported.setdefault(module(path), set()).update(others - {module(path)})
    order = list(TopologicalSorter(imported).static_order())  # CycleError names a circle
    assert set(order) >= LEVEL.keys()


HELP = "cory.train; sys.argv[1:] = ['--help']; cory.train.main()"


@pytest.mark.parametrize(
    ("name", "libraries"),
    [
        ("cory", "torch numpy pandas hydra"),
        (HELP, "torch numpy transformers deepspeed pandas scipy datasets"),
        ("cory.runtime.worker", "datasets matplotlib wandb openai"),
    ],
)
def test_nothing_slow_is_imported_before_it_is_needed(name: str, libraries: str) -> None:
    source = f"import sys, {name}; print({{*'{libraries}'.split()}} & sys.modules.keys())"
    command = [sys.executable, "-c", source]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert said.stdout.splitlines()[-1] == "set()"
