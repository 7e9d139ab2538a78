"""Mirrors the records of a run to TensorBoard's event files, in the folder tensorboard/."""

import math
from pathlib import Path

from cory.episode import Episode, Metrics

FOLDER = "tensorboard"


class TensorBoard:
    """Event files of the first process, where `tensorboard` is true."""

    def __init__(self, run_dir: Path, logged: int) -> None:
        """logged: iterations that are kept; TensorBoard forgets later ones of an earlier start."""
        # two seconds, and most runs do without
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

        # a new file for each start; `purge_step` in it makes readers drop what is logged again
        self.writer = SummaryWriter(str(run_dir / FOLDER), purge_step=logged)

    def log(self, iteration: int, metrics: Metrics) -> None:
        """One scalar for each metric; those that are no finite number have no point."""
        for name, value in metrics.items():
            if math.isfinite(value):
                self.writer.add_scalar(name, value, iteration)
        self.writer.flush()  # a killed run keeps what it has logged

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """The episodes as one text."""
        text = "\n\n---\n\n".join(map(as_markdown, episodes))
        self.writer.add_text("samples", text, iteration)
        self.writer.flush()

    def finish(self) -> None:
        self.writer.close()


def as_markdown(episode: Episode) -> str:
    """An episode for TensorBoard, which renders Markdown: texts are indented, so that they stay."""
    blocks = [f"{episode.prompt.id}\n\n{_as_code(episode.prompt.text)}"]
    for turn in episode.turns:
        score = "" if turn.score is None else f", score {turn.score:.3f}"
        blocks.append(f"{turn.role} ({turn.agent}{score})\n\n{_as_code(turn.response or '')}")
    return "\n\n".join(blocks)


def _as_code(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
