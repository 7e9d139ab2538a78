"""The loop over iterations, shared by all algorithms."""

import copy
import io
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cory import distributed
from cory.algorithms import Algorithm
from cory.config import Config, nearest, require
from cory.episode import Metrics
from cory.evaluation.responses import BEFORE, BEFORE_ANY, EvalRequest
from cory.functional.statistics import mean
from cory.models.server import ServerGone
from cory.report.hints import AGENT, obstacles
from cory.rewards import Reward
from cory.runs.checkpoint import Checkpoints
from cory.runs.recorder import Recorder
from cory.runs.run_dir import BEST, ITERATIONS, SCORES
from cory.runs.signals import Stopped, leave_if_asked, stopping_anywhere
from cory.trainers.steps import TrainingDiverged

EVALUATION = "eval/"  # begins the metrics that only evaluations have
# kind of number that the bar shows -> the metrics that are of this kind, of each agent or turn
SHOWN = {
    "reward": rf"objective/score/{AGENT}",
    "kl": rf"objective/kl/{AGENT}",
    "loss": r"(supervised|offline)/loss/.+|verifier/loss",
    "accuracy": r"verifier/accuracy",
    "accuracy by turn": r"debate/right/turn_\d+",
    "win rate": r"eval/win_rate/(?!itself).+",
}
UNTRAINED = {"before training: held-out reward": r"before/score/.+"}  # until iteration 1 ends
LINE_EVERY = 10.0  # seconds between lines of progress in a file, at least
MOST_VALUES = 3  # of a kind that are shown one by one
UNNAMED = re.compile(r"(agent|turn)_\d+|reward|kl|loss|accuracy.*|win rate|before.*")


@dataclass
class Loop:
    """Iterates from the newest checkpoint on: step, keep samples, save, evaluate, log.

    A checkpoint holds the metrics of its last iteration and is written before the evaluation, which
    may take hours: a run that goes on begins it again, with nothing trained again.
    """

    algorithm: Algorithm
    config: Config
    record: Recorder
    checkpoints: Checkpoints
    export: Callable[[Path, int], None]  # writes the agents as they are after so many iterations
    reward: Reward  # logged with each iteration
    read: Callable[[str], object] | None  # the answer in a response; None: there are none to read
    bar: tqdm = field(init=False)  # of iterations, while `run` works
    saved: int | None = field(default=None, init=False)  # iterations before the newest checkpoint
    pending: Metrics = field(default_factory=dict, init=False)  # what is not logged yet
    # of keep_best: metric, mode, best value so far and the iteration that has it
    best: tuple[str, str, float, int] | None = field(default=None, init=False)

    def run(self) -> None:
        """All iterations that are left; Stopped where the run is to stop before its end."""
        iterations = self.config.algorithm.iterations
        restored = self.checkpoints.restore(self.algorithm.agents)
        start, trained = 0, False  # whether only the evaluation and log of `start` are left
        if restored is None:
            self.record.start(0, None)
        else:
            self.saved, state = restored
            self.algorithm.load_state_dict(state["algorithm"])
            self.record.start(self.saved, state["record"])
            self.pending, self.best, trained = state["metrics"], state["best"], state["trained"]
            start = self.saved - trained
        latest: Metrics = {}
        screen = sys.stdout.isatty()
        shape = "|{bar:12}| {n_fmt}/{total_fmt}" if screen else "iteration {n_fmt}/{total_fmt}"
        with tqdm(
            total=iterations,
            initial=start,
            file=sys.stdout if screen else Lines(),
            mininterval=0.1 if screen else LINE_EVERY,
            desc=f"{self.config.experiment} seed {self.config.seed}",
            bar_format=f"{{desc}} {shape} {{elapsed}}<{{remaining}}{{postfix}}",
            miniters=0,
            disable=distributed.rank() != 0,
        ) as self.bar:
            if self.saved is None and self.config.evaluates_before:
                self.pending = self._measure(BEFORE_ANY, "the evaluation before the training")
                self.bar.set_postfix_str(progress(self.pending, UNTRAINED))
            if iterations == 0:
                self.record.log(0, self._measure(0, "the evaluation"))
            for iteration in range(start, iterations):
                leaving = self._iterate(iteration, trained and iteration == start)
                latest |= self.pending
                self.pending = {}
                self.bar.set_postfix_str(progress(latest), refresh=False)
                self.bar.update()
                if leaving:
                    raise Stopped(f"saved after iteration {iteration + 1} of {iterations}")

    def _iterate(self, iteration: int, trained: bool) -> bool:
        """One iteration, until it is logged; whether the run is to stop after it.

        trained: it was trained and saved before a restart; the evaluation and the log are left
        """
        config, iterations = self.config, self.config.algorithm.iterations
        last = iteration + 1 == iterations
        if not trained:
            self.pending |= self._train(iteration)
            if iteration == 0 and distributed.rank() == 0:
                self._say_obstacles()
        leaving = not last and stopping_anywhere()
        if not trained and (last or leaving or due(iteration, config.checkpoint_every)):
            self._save(iteration + 1, trained=True)
        if last or due(iteration, config.evaluate_every):
            where = f"the evaluation after iteration {iteration + 1} of {iterations}"
            try:
                self.pending |= self._measure(iteration, where)
            except (Stopped, ServerGone):
                if self.saved != iteration + 1:
                    self._save(iteration + 1, trained=True)
                raise
        if not last and due(iteration, config.export_every):
            self.export(self.record.run_dir / ITERATIONS / str(iteration + 1), iteration + 1)
        if config.keep_best is not None:
            check_name(config.keep_best, iteration, self.pending)
            self._keep_best(iteration, config.keep_best, config.keep_best_mode)
        self.record.log(iteration, self.pending)
        return leaving

    def _say_obstacles(self) -> None:
        """After the first iteration: what will keep the run from learning, a line for each."""
        turns = [turn for one in self.algorithm.episodes for turn in one.turns if not turn.absent]
        unread = [self.read(turn.response) is None for turn in turns] if self.read else []
        ends = self.read is not None or bool(self.config.model.chat)
        for line in obstacles(self.pending, ends, mean(unread) if unread else 0.0):
            tqdm.write(f"note: {line}")

    def _keep_best(self, iteration: int, metric: str, mode: str) -> None:
        """Export the agents to best/ if this iteration's value is better than all before it.

        A run that goes on repeats the iterations after its checkpoint, to the same values and
        agents; so the best value of a checkpoint is all that it needs to know.
        """
        value = distributed.from_first(float(self.pending.get(metric, math.nan)))
        sign = 1 if mode == "max" else -1
        earlier = -math.inf
        if self.best is not None and self.best[:2] == (metric, mode):
            earlier = sign * self.best[2]
        if math.isfinite(value) and sign * value > earlier:
            self.best = metric, mode, value, iteration
            self.export(self.record.run_dir / BEST, iteration + 1)

    def best_agents(self) -> str:
        """Which agents are in best/, in words."""
        if self.best is None:
            return f"note: no iteration had a finite keep_best={self.config.keep_best}"
        metric, _, value, iteration = self.best
        return f"best of {metric}: {value:.4g} after iteration {iteration + 1}; agents in {BEST}/"

    def _train(self, iteration: int) -> Metrics:
        """The iteration's roll-out and updates; the numbers of one that diverged are logged."""
        self.reward.at(iteration)
        untouched = copy.deepcopy(self.algorithm.state_dict())
        try:
            metrics = self.algorithm.step(iteration)
        except (Stopped, ServerGone):  # while data were collected: the weights are as before
            if self.saved != iteration:
                self._save(iteration, algorithm=untouched)
            raise
        except TrainingDiverged as error:
            self.record.log(iteration, self.pending | error.metrics | self.reward.metrics())
            error.args = (f"{error}; of its checkpoints, {self.checkpoints.newest()}",)
            raise
        metrics |= self.reward.metrics()
        last = iteration + 1 == self.config.algorithm.iterations
        if last or due(iteration, self.config.samples_every):
            self.record.log_samples(iteration, self.algorithm.episodes[: self.config.samples_kept])
        return metrics

    def _measure(self, iteration: int, where: str) -> Metrics:
        """Metrics of an evaluation; its responses go to samples.jsonl. Stopped if the run is to.

        iteration: after which it is; BEFORE_ANY: of the agents before any training
        where: the evaluation, in the message of Stopped
        """
        config, iterations = self.config, self.config.algorithm.iterations
        done, final = min(iteration + 1, iterations), iteration + 1 >= iterations
        self.reward.at(done)
        request = EvalRequest(config.evaluation, config.seed, iteration, final, trained=done)

        def before_each(answered: int, rows: int) -> None:
            leave_if_asked(f"{'saved' if request.done else 'left'} within {where}")
            self.bar.set_postfix_str(f"evaluation: {answered} of {rows} responses", refresh=False)
            self.bar.update(0)

        metrics = self.algorithm.evaluate(request, before_each)
        kind = {"kind": BEFORE} if request.untrained else {}
        self.record.log_lines([line | kind for line in request.lines])
        self.record.log_lines([{"iteration": iteration, **asdict(request.scores)}], SCORES)
        self.reward.metrics()  # those that are logged are about training
        return request.scores.metrics() if request.untrained else metrics

    def _save(self, done: int, trained: bool = False, algorithm: Any = None) -> None:
        """Write a checkpoint after `done` iterations.

        trained: the last of them is not logged yet
        algorithm: its state; None: as it is now
        """
        state = {
            "algorithm": self.algorithm.state_dict() if algorithm is None else algorithm,
            "record": self.record.state_dict(),
            "metrics": self.pending,
            "trained": trained,
            "best": self.best,
        }
        self.checkpoints.save(done, self.algorithm.agents, state)
        self.saved = done


class Lines(io.TextIOBase):
    """Where progress goes in a file: a line for each change, no signs that move a bar."""

    last = ""

    def write(self, text: str) -> int:
        line = text.strip()
        if line not in ("", self.last):
            print(line, flush=True)
            self.last = line
        return len(text)


def progress(metrics: Metrics, kinds: Mapping[str, str] = SHOWN) -> str:
    """What the bar says: of each kind its values, or the mean of more than three; whose, by name.

    metrics: the latest value of each metric
    kinds: as SHOWN
    """
    parts = []
    for kind, pattern in kinds.items():
        found = {name: value for name, value in metrics.items() if re.fullmatch(pattern, name)}
        if len(found) > MOST_VALUES:
            kind, found = f"mean {kind}", {kind: mean([*found.values()])}
        said = [kind]
        for name, value in found.items():
            who = name.rpartition("/")[2]
            said += [f"{value:.2f}" if UNNAMED.fullmatch(who) else f"{who} {value:.2f}"]
        parts += [" ".join(said)] if found else []
    return " | ".join(parts)


def check_name(name: str, iteration: int, metrics: Metrics) -> None:
    """Refuse a keep_best that an evaluation lacks; note one that the first step lacks."""
    if name in metrics:
        return
    of_evaluation = name.startswith(EVALUATION)
    known = [one for one in metrics if one.startswith(EVALUATION) or not of_evaluation]
    said, hint = f"keep_best={name} is no metric of", nearest(name, known)
    require(not (of_evaluation and known), f"{said} this run{hint}")
    if iteration == 0 and not of_evaluation:
        distributed.note(f"{said} the first iteration{hint}")


def due(iteration: int, every: int) -> bool:
    """Whether an action is due that happens every `every` iterations; 0: never."""
    return every > 0 and (iteration + 1) % every == 0
