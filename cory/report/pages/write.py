"""Pages, figures and overviews on disk, from the archive alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cory.report.checks import check_claims, defined_metrics, load_table
from cory.report.figures.style import save_figure
from cory.report.kinds import COMPUTED, draw
from cory.report.pages.overview import index, report
from cory.report.pages.page import page
from cory.report.pages.readme import BEGIN, END, readme_block
from cory.report.pages.shown import Everything, Shown
from cory.report.paper import PAPER_SCALE, Compose, Table, load_paper
from cory.report.records import archive
from cory.report.records.collect import CountedRuns, collect
from cory.report.records.gather import Gathered, gather
from cory.report.records.same_code import read_same
from cory.report.records.settings_now import other_settings


@dataclass(frozen=True)
class Places:
    """Where things lie."""

    conf: Path
    docs: Path  # docs/results
    metrics: Path  # docs/metrics.md

    def records(self, paper: str, scale: str) -> Path:
        """The archive of a scale."""
        return self.docs / paper / "records" / scale


def gather_tables(
    tables: Sequence[Table], places: Places, outputs: Path, allow_dirty: bool
) -> Gathered:
    """Bring the archive up to date with outputs/ for the experiments of tables of one scale."""
    first = tables[0]
    experiments = list(dict.fromkeys(e for table in tables if table.has_runs for e in table.to_run))
    # other tables may ask for other seeds of the same experiments
    others = (pair for table in tables for pair in table.runs_of_others)
    seeds = {seed for table in tables for seed in table.seeds}
    seeds |= {seed for name, seed in others if name in experiments}
    folder = places.records(first.paper, first.scale)
    return gather(experiments, sorted(seeds), first.scale, outputs, folder, allow_dirty)


def tables_of(places: Places, paper: str, scale: str) -> list[Table]:
    """Every table and figure of a paper that a scale has a form of, each checked."""
    about = load_paper(places.conf, paper)
    return [
        checked(places, paper, name, scale)
        for name in about["tables"]
        if Table(paper, name, scale, places.conf, about).offered
    ]


def checked(places: Places, paper: str, name: str, scale: str) -> Table:
    """One table at one scale; ValueError where its entry names what does not exist."""
    table = load_table(places.conf, paper, name, scale)
    check_claims(table, defined_metrics(places.metrics))
    return table


def write_page(table: Table, places: Places, compose: Compose) -> tuple[Shown, Path | None]:
    """Its page and figure; None, and no files, where nothing was run.

    What needs no runs has one page for all scales, written at the paper's.
    """
    path = places.docs / table.paper / f"{table.page}.md"
    image = path.with_suffix(".png")
    found, figure = CountedRuns({}), None
    if table.has_runs:
        folder = places.records(table.paper, table.scale)
        refused, same = archive.read_refused(folder), read_same(folder)
        found = collect(table, archive.read(folder), refused, same)
        found.notes += other_settings(found.vetted, compose)
    if table.has_runs or table.kind in COMPUTED:
        figure = draw(table, found)
    shown = Shown(table, found, image.name if figure is not None else None)
    if not table.has_runs and table.scale != PAPER_SCALE:
        return shown, None
    if figure is None:
        image.unlink(missing_ok=True)  # of a time when there were runs
    if table.has_runs and not shown.ran:
        path.unlink(missing_ok=True)
        return shown, None
    archive.write(path, page(table, found, shown.image, compose))
    if figure is not None:
        save_figure(figure, image)
    return shown, path


def write_overviews(
    everything: dict[str, Everything], places: Places, compose: Compose
) -> list[Path]:
    """docs/results/<paper>.md of every paper, and docs/results/index.md."""
    texts = {paper: report(tables, compose) for paper, tables in everything.items()}
    texts["index"] = index(everything, compose)
    paths = [places.docs / f"{name}.md" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        archive.write(path, text)
    return paths


def write_readme(everything: Mapping[str, Everything], readme: Path, compose: Compose) -> None:
    """Put the results table between README's markers."""
    archive.write(readme, with_block(readme.read_text(encoding="utf-8"), everything, compose))


def with_block(text: str, everything: Mapping[str, Everything], compose: Compose) -> str:
    """README with the results table of now; ValueError where the markers are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md holds no lines {BEGIN} and {END}")
    return before + readme_block(everything, compose) + after
