"""Run directories for the page of `cory-board`: settings, lines of metrics, samples, a record."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.report.board.data import Limits, page_data, read_all
from cory.report.board.page import write_html
from tests.support.composing import compose_config

WriteRun = Callable[..., Path]


def line(iteration: int, score: float, **more: Any) -> dict[str, Any]:
    """A line of metrics of two agents."""
    scores = {f"objective/score/agent_{agent}": score + agent for agent in (0, 1)}
    return {"iteration": iteration, **scores, **more}


def sample(iteration: int, prompt: str, response: str, **more: Any) -> dict[str, Any]:
    """An answer of an evaluation."""
    turn = {"agent": "agent_0", "role": "solo", "context": None, "response": response, "score": 0.5}
    return {
        "iteration": iteration,
        "kind": "evaluation",
        "who": "agent_0",
        "split": "test",
        "sample": 0,
        "prompt_id": f"id of {prompt}",
        "prompt": prompt,
        "answer": None,
        "turns": [turn],
    } | more


def rows(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in lines)


def run_writer(folder: Path) -> WriteRun:
    """A function that writes a run directory: its name, its words, and what it holds."""

    def write(
        name: str,
        /,
        *words: str,
        lines: list[dict[str, Any]] | None = None,
        samples: list[dict[str, Any]] | None = None,
        finished: bool = True,
        **record: Any,
    ) -> Path:
        run_dir = folder / name
        run_dir.mkdir(parents=True)
        settings = compose_config(*words)
        OmegaConf.save(
            OmegaConf.create(OmegaConf.to_container(settings, resolve=True)),
            run_dir / "config.yaml",
        )
        (run_dir / "metrics.jsonl").write_text(rows(lines or [line(0, 0.0), line(1, 1.0)]))
        (run_dir / "samples.jsonl").write_text(rows(samples or []))
        if finished:
            (run_dir / "record.json").write_text(json.dumps({"wall_s": 90.0, **record}))
        return run_dir

    return write


def data_of(*folders: Path, points: int = 300, prompts: int = 16) -> dict[str, Any]:
    return page_data(read_all(folders), Limits(points, prompts))


def page_of(*folders: Path) -> str:
    return write_html(data_of(*folders), "runs")


def unpacked(page: str, name: str) -> str:
    """What a template of the page holds."""
    (text,) = re.findall(rf'<template id="{name}">([A-Za-z0-9+/=]*)</template>', page)
    return gzip.decompress(base64.b64decode(text)).decode("utf-8")
