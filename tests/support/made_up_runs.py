"""Run directories as a sweep leaves them, with made-up numbers."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tests.support.composing import compose_config

COMMIT, OTHER = "a" * 40, "b" * 40
KS = (1, 2, 4, 8, 16)
ROLES = ("pioneer", "observer")


@cache
def composed_once(experiment: str, scale: str) -> DictConfig:
    return compose_config(f"experiment={experiment}", f"scale={scale}")


def settings_of(experiment: str, scale: str, seed: int, changed: Mapping[str, Any]) -> str:
    """The resolved settings of a run, as config.yaml."""
    cfg = composed_once(experiment, scale).copy()
    for key, value in {"seed": seed, **changed}.items():
        OmegaConf.update(cfg, key, value)
    return OmegaConf.to_yaml(cfg, resolve=True)


def curve(start: float, end: float, iterations: int) -> list[float]:
    return [start + (end - start) * i / (iterations - 1) for i in range(iterations)]


def lines_of(
    score: float, kl: float, agents: int, seed: int, iterations: int = 40, eta: float = 0.3
) -> list[dict[str, float]]:
    """A run that ends about there; an agent's numbers also stand under its role."""
    noise = random.Random(seed)
    lines: list[dict[str, float]] = []
    for i, (s, k) in enumerate(
        zip(curve(0, score, iterations), curve(0, kl, iterations), strict=True)
    ):
        line: dict[str, float] = {"iteration": i}
        for agent in range(agents):
            role = ROLES[agent] if agent < 2 else f"observer_{agent}"
            value = s + noise.gauss(0, 0.01)
            for name in (f"agent_{agent}", role):
                line[f"objective/score/{name}"] = value
                line[f"objective/score_std/{name}"] = 0.59
                line[f"objective/kl/{name}"] = k
                line[f"objective/combined/{name}"] = value - eta * k
            line[f"rollout/distinct_2/agent_{agent}"] = 0.9 - k / 100
            line[f"rollout/truncated_share/agent_{agent}"] = k / 100
            line[f"ppo/loss/policy/agent_{agent}"] = noise.random()
        lines.append(line)
    lines[-1] |= {f"eval/score/agent_{agent}": score for agent in range(agents)}
    return lines


def passing(rate: float, agents: int) -> dict[str, float]:
    """The last line's share of an evaluation with pass@k."""
    line: dict[str, float] = {}
    whos = [f"agent_{agent}" for agent in range(agents)]
    for who in [*whos, *([*ROLES, "team"] if agents > 1 else [])]:
        for k in KS:
            for kind in ("pass_at", "any_of"):
                value = 1 - (1 - rate) ** k
                line[f"eval/{kind}_{k}/{who}"] = value
                line[f"eval/{kind}_{k}_low/{who}"] = value - 0.03
                line[f"eval/{kind}_{k}_high/{who}"] = value + 0.03
        line[f"eval/greedy/{who}"] = rate
    return line


WriteRun = Callable[..., Path]


def run_writer(outputs: Path, scale: str = "small") -> WriteRun:
    """A function that writes a run directory below outputs/ as a sweep would."""

    def write(
        experiment: str,
        seed: int,
        lines: list[dict[str, float]],
        /,
        overrides: tuple[str, ...] = (),
        folder: str | None = None,
        answers: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        **record: Any,
    ) -> Path:
        run_dir = outputs / "runs" / scale / "paper" / experiment / (folder or f"seed{seed}")
        run_dir.mkdir(parents=True)
        (run_dir / "config.yaml").write_text(settings_of(experiment, scale, seed, settings or {}))
        typed = ("sweep=cory/some", f"experiment={experiment}", f"seed={seed}", f"scale={scale}")
        (run_dir / "overrides.txt").write_text("".join(f"{x}\n" for x in (*typed, *overrides)))
        (run_dir / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        samples = [
            {
                "iteration": 39,
                "kind": "probe",
                "who": agent,
                "sample": sample,
                "prompt": f"Question: {text} Answer:",
                "turns": [{"agent": agent, "role": "solo", "response": f"{agent}: {response}"}],
            }
            for text, response in (answers or {}).items()
            for agent in [key[11:] for key in lines[-1] if key.startswith("eval/score/agent_")]
            for sample in (0, None)
        ]
        (run_dir / "samples.jsonl").write_text("".join(json.dumps(x) + "\n" for x in samples))
        digest = hashlib.sha256((run_dir / "config.yaml").read_bytes()).hexdigest()
        facts = {
            "experiment": experiment,
            "sweep": "cory/some",
            "scale": scale,
            "seed": seed,
            "iterations": len(lines) if len(lines) > 1 else 0,
            "final": lines[-1],
            "commit": COMMIT,
            "code": {"cory": [COMMIT]},
            "clean": True,
            "settings_sha256": digest,
            "device": "CPU x86_64, 2 cores",
            "began": "2026-01-02T03:04:05+00:00",
            "wall_s": 90.0,
        }
        (run_dir / "record.json").write_text(json.dumps(facts | record))
        return run_dir

    return write
