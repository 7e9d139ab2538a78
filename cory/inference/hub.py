"""Uploads of exported agents to the Hugging Face hub.

The token comes from the environment variable HF_TOKEN alone, and goes to the hub alone.
"""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from cory.config import ConfigError, require
from cory.inference.merging import is_adapter, is_hub_name
from cory.models.lora import DESCRIPTION

TOKEN = "HF_TOKEN"  # environment variable
CARD = "README.md"


def token_of() -> str:
    """The token; ConfigError where there is none."""
    token = os.environ.get(TOKEN, "").strip()
    require(
        bool(token),
        f"--push-to-hub: the environment variable {TOKEN} is not set; it has to hold a token that "
        f"may write (https://huggingface.co/settings/tokens)",
    )
    return token


def names_for(name: str, agents: list[str]) -> dict[str, str]:
    """The repository of each agent: `name`, or of several agents `name-<agent>`."""
    names = {agent: name if len(agents) == 1 else f"{name}-{agent}" for agent in agents}
    for one in names.values():
        try:
            validate_repo_id(one)
        except HFValidationError as error:
            raise ConfigError(f"--push-to-hub={name}: {str(error).splitlines()[0]}") from error
    return names


def require_loadable(agent: Path) -> None:
    """Refuse an adapter whose base lies on this machine alone."""
    if not is_adapter(agent):
        return
    described = json.loads((agent / DESCRIPTION).read_text(encoding="utf-8"))
    base = str(described.get("base_model_name_or_path"))
    require(
        is_hub_name(base),
        f"--push-to-hub: {agent} is an adapter on {base}, which others do not have; add --merge",
    )


def push(folder: Path, name: str, public: bool) -> str:
    """Upload a folder as the repository `name`, made if it is not there; returns its address.

    public: what is made can be seen by everybody; else by its owner
    """
    token = token_of()
    with tempfile.TemporaryDirectory(prefix="cory_") as place:
        staged = Path(place) / "agent"
        shutil.copytree(folder, staged, copy_function=_link)
        if (staged / CARD).exists():
            text = without_local_base((staged / CARD).read_text(encoding="utf-8"))
            (staged / CARD).unlink()  # it may be a link to the run's own
            (staged / CARD).write_text(text, encoding="utf-8")
        try:
            api = HfApi(token=token)
            made = api.create_repo(name, private=not public, exist_ok=True)
            full = getattr(made, "repo_id", None) or name
            api.upload_folder(
                repo_id=full, folder_path=staged, commit_message="Agent trained by cory"
            )
        except Exception as error:  # of the hub's client or its network (detail 17)
            reason = " ".join(str(error).split()).replace(token, "<token>")
            raise ConfigError(f"--push-to-hub={name}: {reason or repr(error)}"[:400]) from None
    return str(made)


def without_local_base(text: str) -> str:
    """A model card without `base_model` in its head where that is no name on the hub."""
    found = re.match(r"---\n(.*?)^---\n", text, flags=re.DOTALL | re.MULTILINE)
    if found is None:
        return text
    kept = [
        line
        for line in found[1].splitlines()
        if not line.startswith("base_model: ") or is_hub_name(line.removeprefix("base_model: "))
    ]
    return "\n".join(["---", *kept, "---", text[found.end() :]])


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
