"""A hook of mkdocs: pages from outside docs/, which are README.md, its like, and linked source.

A link such as `../cory/episode.py` opens that file on the repository's page; on the site it opens
a page with the file's text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File  # type: ignore[import-not-found]  # make docs has it

ROOT = Path(__file__).resolve().parents[2]
TOP = {"README.md": "index.md"} | {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
LINK = re.compile(r'(\]\(|src=")(?!\w+:)([^)\s"#]+)')


def uri_of(place: Path) -> str:
    """The page of a file of the repository."""
    name = place.relative_to(ROOT).as_posix()
    return TOP.get(name) or (name[5:] if name.startswith("docs/") else f"source/{name}.md")


def linked(text: str, uri: str) -> dict[str, Path]:
    """What a page links to -> that file or folder of the repository."""
    folder = ROOT if uri in TOP.values() else (ROOT / "docs" / uri).parent
    places = {target: (folder / target).resolve() for _, target in LINK.findall(text)}
    return {target: place for target, place in places.items() if place.exists()}


def on_files(files: Any, config: Any) -> None:
    for name, uri in TOP.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text("utf-8")))
    pages = list(files.documentation_pages())
    places = {p for page in pages for p in linked(page.content_string, page.src_uri).values()}
    for place in sorted(p for p in places if uri_of(p).startswith("source/")):
        names = (path.name for path in sorted(place.glob("*")))
        text = "\n".join(names) if place.is_dir() else place.read_text("utf-8")
        shown = f"````{{.{place.suffix[1:] or 'text'} linenums=1}}\n{text}\n````\n"
        head = f"---\nsearch: {{exclude: true}}\n---\n# {place.relative_to(ROOT)}\n\n"
        files.append(File.generated(config, uri_of(place), content=head + shown))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    here, places = page.file.src_uri, linked(markdown, page.file.src_uri)
    moved = {t: posixpath.relpath(uri_of(p), posixpath.dirname(here)) for t, p in places.items()}
    return LINK.sub(lambda link: link[1] + moved.get(link[2], link[2]), markdown)
