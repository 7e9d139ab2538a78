"""A process that takes iterations of a workload, and measures them.

python -m cory.performance.workload algorithm=ppo ...      # a worker of `alternation`
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cory.config import builder, parse_config
from cory.episode import Metrics
from cory.memory.operations import OPERATIONS, weights_of
from cory.models.engine import start_process_group, stop_process_group
from cory.models.policy import Policy
from cory.models.ppo_policy import PPOPolicy
from cory.performance.alternation import Answer, serve
from cory.performance.module_times import seconds_by_part
from cory.performance.operations import operations_by_phase
from cory.performance.products import executed_by_phase
from cory.runs.provenance import memory_used
from cory.runtime.allocator import keep_freed_memory
from cory.runtime.worker import build_parts
from cory.train import compose
from cory.trainers.ppo import PPOTrainer


class Workload:
    """The algorithm of a workload, and what its iterations are measured by."""

    def __init__(self, settings: list[str], folder: Path) -> None:
        """folder: takes what iterations write"""
        keep_freed_memory()
        self.config = parse_config(compose(*settings, f"run_dir={folder / 'run'}"))
        self.parts = build_parts(self.config)
        start_process_group(self.config.hardware.device)
        self.algorithm = builder("algorithm", self.config.algorithm.name)(
            self.config.algorithm, self.parts
        )
        self.iteration = 0

    def step(self) -> Answer:
        """Seconds of each phase of one more iteration, and tokens that were generated in it."""
        tokens = 0
        respond = Policy.respond

        def counting(*args: Any) -> Any:
            nonlocal tokens
            rows = respond(*args)
            tokens += sum(len(response.ids) for _, response in rows)
            return rows

        with patch.object(Policy, "respond", counting):
            metrics = self.algorithm.step(self.iteration)
        self.iteration += 1
        phases = {
            name.removeprefix("time/").removesuffix("_s"): seconds
            for name, seconds in metrics.items()
            if name.startswith("time/")
        }
        return {"seconds": phases, "tokens": tokens}

    def prompts(self) -> Answer:
        """The next iteration's prompts, for others to be measured with: texts and token ids."""
        texts = [
            p.text for p in self.parts.task.sample(self.config.algorithm.prompts_per_iteration)
        ]
        return {"texts": texts, "ids": self.parts.team.tokenizer(texts)["input_ids"]}

    def measure(self) -> Answer:
        """Peak memory so far; then what a further iteration consists of, by phase.

        Floating-point operations, matrix products alone in seconds, and torch's operations; of PPO,
        an update's time by part of the model, too.
        """
        answer: Answer = {"peak_bytes": memory_used(self.config.hardware.device)}
        with operations_by_phase() as found:
            self.step()
        answer["operations"] = {phase.removesuffix("_s"): n for phase, n in found.items()}
        with executed_by_phase() as executed:
            self.step()
        for phase, whole in executed.items():
            name = phase.removesuffix("_s")
            answer.setdefault("products_alone", {})[name] = whole.seconds()
            answer.setdefault("torch_operations", {})[name] = whole.operations
        answer["estimated_operations"] = self.estimate()
        if isinstance(self.algorithm, PPOTrainer):
            answer["update_by_part"] = self.update_by_part()
        return answer

    def update_by_part(self) -> dict[str, float]:
        """Seconds of an iteration's updates in each part of the model and of the engine."""
        sums: dict[str, float] = {}
        update = PPOTrainer.update

        def profiled(trainer: PPOTrainer, agent: PPOPolicy, *batch: Any) -> Metrics:
            metrics: Metrics = {}

            def work() -> None:
                metrics.update(update(trainer, agent, *batch))

            engine: Any = agent.engine
            named = {
                "gradients, averaged over processes": (engine._engine, "allreduce_gradients"),
                "norm of the gradient": (engine, "_gradient_norm"),
            }
            for part, seconds in seconds_by_part(agent.model, work, named).items():
                sums[part] = sums.get(part, 0.0) + seconds
            return metrics

        with patch.object(PPOTrainer, "update", profiled):
            self.step()
        return sums

    def estimate(self) -> float:
        """What `cory.memory.operations` expects of one iteration, without evaluations."""
        own = self.config.algorithm
        counted = next(of for kind, of in OPERATIONS.items() if isinstance(own, kind))
        weights = weights_of(self.config)

        def whole(iterations: int) -> float:
            algorithm = replace(own, iterations=iterations)
            return counted(replace(self.config, algorithm=algorithm), weights, {})[0]

        return whole(2) - whole(1)


def work(settings: list[str]) -> None:
    """The worker: builds the algorithm, then takes a step for each line."""
    with tempfile.TemporaryDirectory() as folder:
        workload = Workload(settings, Path(folder))
        serve({"step": workload.step, "measure": workload.measure, "prompts": workload.prompts})
    stop_process_group()
    sys.stdout.flush()
    os._exit(0)  # threads of the process group may abort a normal exit


if __name__ == "__main__":
    work(sys.argv[1:])
