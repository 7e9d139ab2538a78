"""Wheel and sdist: what they carry, and that the wheel works where nothing else of cory is."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from shutil import copytree
from zipfile import ZipFile

import pytest

from cory.models.paths import CLONE_ONLY
from tests.support.commands import ROOT, metrics

pytestmark = pytest.mark.slow
PIP = [sys.executable, "-m", "pip"]
QUIET = ["--quiet", "--no-deps", "--no-index"]


def wheel_of(source: Path, into: Path) -> Path:
    """Build a wheel of a source tree, with the setuptools that is installed here."""
    words = [*QUIET, "--no-build-isolation", "--wheel-dir", str(into), str(source)]
    subprocess.run([*PIP, "wheel", *words], check=True)
    (wheel,) = into.glob("cory-*.whl")
    return wheel


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout without what builds leave there, and with what an interpreter leaves."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    for name in ("cory", "conf"):
        copytree(ROOT / name, copy / name)
    left = copy / "cory/assets/team/__pycache__/guess.pyc"
    left.parent.mkdir(exist_ok=True)
    left.touch()
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(source, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_carries_code_settings_and_all_models_but_the_largest(wheel: Path) -> None:
    assert wheel.stat().st_size < 20e6
    files = [path for path in (ROOT / "cory").rglob("*") if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts]
    there = {str(path.relative_to(ROOT)) for path in files if path.parent.name not in CLONE_ONLY}
    there |= {f"cory/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    assert there >= {"cory/train.py", "cory/conf/train.yaml", "cory/assets/tiny/tokenizer.json"}
    carried = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert carried == there


def test_the_sdist_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True)
    (sdist,) = tmp_path.glob("cory-*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    again = wheel_of(tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path)
    first, second = (
        {one.filename: one.CRC for one in ZipFile(path).infolist()} for path in (wheel, again)
    )
    assert first == second and again.name == wheel.name


def test_installed_alone_it_trains_a_team_of_ones_own(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home)
    python = home / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", *QUIET, str(wheel)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    # what cory depends on, as it is installed here; an editable cory there has no effect
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (site / "others.pth").write_text("\n".join(places))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def typed(name: str, *words: str, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [home / "bin" / name, *words],
            cwd=cwd, env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        )  # fmt: skip

    where = typed("python", "-c", "import cory; print(cory.__file__)").stdout
    assert where.strip() == str(site / "cory" / "__init__.py")
    shown = typed("cory-train", "--help")
    assert shown.returncode == 0 and "algorithm   how agents act together" in shown.stdout
    assert typed("cory-new", "--team", "mine").returncode == 0
    few = ["algorithm.iterations=2", "algorithm.prompts_per_iteration=8", "evaluation.prompts=4"]
    few += ["algorithm.minibatch_size=8", "evaluation.samples=1", "run_dir=run"]
    trained = typed(
        "cory-train", "--config-dir", ".", "experiment=guess", *few, cwd=tmp_path / "mine"
    )
    assert trained.returncode == 0, trained.stderr
    lines = metrics(tmp_path / "mine/run")
    assert len(lines) == 2 and all("rollout/return/guesser" in line for line in lines)
    refused = typed("cory-train", "model=tiny_2x")
    assert refused.returncode != 0 and refused.stderr.splitlines()[-1] == (
        "error: model.path=asset:tiny_2x: only in a clone of the repository: "
        "model.path=<clone>/cory/assets/tiny_2x"
    )
