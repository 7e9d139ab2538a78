"""The HTML file: data, plotly.js and the page's own scripts, with no request to anywhere.

Data and plotly.js are compressed and written in base 64, so that no text of a run can end a script
or a tag. The policy in the head lets the browser run these scripts alone, by their hashes, and
load nothing. The scripts put texts on the page as text, never as HTML.
"""

import base64
import gzip
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any

SCRIPTS = (
    "dom.js",
    "state.js",
    "numbers.js",
    "filters.js",
    "runs.js",
    "curves.js",
    "samples.js",
    "before.js",
    "matrices.js",
    "main.js",
)
PLACE = re.compile(r"\{\{(\w+)\}\}")


def write_html(data: dict[str, Any], title: str) -> str:
    """The whole file."""
    # read as a file: importing plotly takes a second
    plotly = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    own = "\n".join(_part(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_hash(own)} {_hash(plotly)}; style-src 'unsafe-inline'; "
        f"img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    # NaN would be no JSON
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": _part("page.css"),
        "data": _packed(text),
        "plotly": _packed(plotly),
        "script": own,
    }
    # in one pass: a title that looks like a place is no place
    return PLACE.sub(lambda place: parts[place[1]], _part("page.html"))


def _part(name: str) -> str:
    """A file of page/."""
    return (resources.files(__package__) / "page" / name).read_text("utf-8")


def _packed(text: str) -> str:
    """Compressed, in base 64."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _hash(script: str) -> str:
    """A script as Content-Security-Policy names it."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
