"""What repeats pyproject.toml: requirements.lock and what else fixes an environment, citation."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = ROOT / "requirements.lock"


def locked() -> dict[str, str]:
    """Version by package."""
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {plain(name): version for name, version in pairs}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_has_a_fitting_version_of_all_that_make_install_asks_for() -> None:
    versions = locked()
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    assert len(wanted) > 20
    for requirement in map(Requirement, wanted):
        version = versions[plain(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement
    assert "cory" not in versions
    assert len(versions) > 100  # also what these need


def test_the_lock_and_the_makefile_name_one_torch() -> None:
    (pinned,) = re.findall(r"^TORCH \?= torch==(\S+)$", (ROOT / "Makefile").read_text(), re.M)
    (image,) = re.findall(r"^ARG TORCH=torch==(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    assert locked()["torch"] == pinned == image


def test_the_citation_and_the_history_are_of_this_version() -> None:
    version = PROJECT["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^## (\d\S*),", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == version
