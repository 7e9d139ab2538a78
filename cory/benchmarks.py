"""The command `cory-benchmark`: tasks of lm-evaluation-harness, put to a finished run.

    cory-benchmark RUN_DIR --tasks gsm8k,arc_easy             the first agent, or --agent NAME
    cory-benchmark RUN_DIR --tasks gsm8k --team               the last answer of all agents together
    cory-benchmark RUN_DIR --tasks gsm8k --base --limit 100   the model before training, to try

A model with a chat template is asked in it, as the run asks. Scores go to
RUN_DIR/agents/benchmarks.json. Needs `pip install '.[eval]'`, and the network for questions that
are not on this machine.
"""

import argparse
import importlib.util
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from cory.config import Config, ConfigError, ModelConfig, nearest, parse_config, require
from cory.inference import device_or_default, load_team, on_device
from cory.models.bundle import ModelBundle
from cory.models.loading import readable
from cory.models.lora import DESCRIPTION, load_adapter
from cory.models.tokenization import apart, opens
from cory.report.runs import aligned
from cory.runs.files import write_whole
from cory.runs.recorder import device_name
from cory.runs.run_dir import AGENTS, BENCHMARKS, read_benchmarks, require_agents

SEED = 1234  # of few-shot examples where they are drawn; the harness's own
Entry = dict[str, Any]  # a score and how it was measured


@dataclass(frozen=True)
class Measurement:
    """How tasks are put to an agent or the team of a run."""

    run_dir: Path
    agent: str | None = None  # None: the first
    team: bool = False  # the last answer of all of them instead
    base: bool = False  # the model that the agent was trained from instead
    chat: bool | None = None  # in the chat template; None: as the run
    precision: str | None = None  # None: that of the run's matrix products
    bos: bool | None = None  # whether texts begin with BOS; None: the tokenizer decides
    max_tokens: int | None = None  # of an answer; None: the task's own, of a team the run's
    limit: int | None = None  # questions per task; None: all
    include: tuple[Path, ...] = ()  # folders with task files
    suite: str | None = None  # a name for all this in the scores
    batch_size: str | None = None  # texts at once, or `auto`; None: 8, of a team the run's
    device: str | None = None  # None: a GPU if there is one
    remote_code: bool = False


def measure(wanted: Measurement, tasks: Mapping[str, int | None]) -> dict[str, Entry]:
    """The scores by task, metric and filter; those of each task are kept as soon as they are there.

    tasks: names of tasks or groups, with the examples before a question; None: the task's own
    ConfigError without the harness, for a run without agents or this one, for words that do not go
    together, and for tasks that there are not.
    """
    require(
        importlib.util.find_spec("lm_eval") is not None,
        "benchmarks need the package lm_eval: pip install '.[eval]'",
    )
    from lm_eval import simple_evaluate  # noqa: PLC0415  an extra, and slow to import
    from lm_eval.tasks import TaskManager  # noqa: PLC0415

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    config, wanted = checked(wanted)
    manager = TaskManager(include_path=[str(folder) for folder in wanted.include])
    loaded = {task: questions(manager, task, shots, wanted.team) for task, shots in tasks.items()}
    lm, model = (team_of if wanted.team else agent_of)(wanted, config)
    about = {
        "suite": wanted.suite,
        "limit": wanted.limit,
        **{name: getattr(model, name) for name in ("path", "chat", "precision", "quantisation")},
        "device": device_name(str(wanted.device).partition(":")[0]),
        "harness": version("lm_eval"),
    }
    found: dict[str, Entry] = {}
    for task, shots in tasks.items():
        output: Any = simple_evaluate(
            lm,
            tasks=loaded[task],
            task_manager=manager,
            num_fewshot=shots,
            fewshot_random_seed=SEED,
            gen_kwargs={"max_gen_toks": wanted.max_tokens} if wanted.max_tokens else None,
            limit=wanted.limit,
            log_samples=False,
            apply_chat_template=model.chat and not wanted.team,  # a team writes its own prompts
        )
        found |= {name: entry | about for name, entry in scores_of(output, task).items()}
        keep(wanted, found)
    return found


def checked(wanted: Measurement) -> tuple[Config, Measurement]:
    """The settings of the run, and the measurement with agent and device."""
    run_dir = wanted.run_dir
    config = parse_config(require_agents(run_dir, str(run_dir)))
    for name in ("agent", "base", "chat", "batch_size") if wanted.team else ():
        said = f"--{name.replace('_', '-')}: with --team all agents answer, as in their run"
        require(getattr(wanted, name) in (None, False), said)
    for name in ("limit", "max_tokens"):
        value = getattr(wanted, name)
        require(value is None or value >= 1, f"--{name.replace('_', '-')}: must be at least 1")
    for folder in wanted.include:
        require(folder.is_dir(), f"--include-path={folder}: there is no such folder")
    agent = wanted.agent or config.algorithm.names()[0]
    there = sorted(path.name for path in (run_dir / AGENTS).iterdir() if path.is_dir())
    require(wanted.team or agent in there, f"--agent={agent}: {run_dir} has {', '.join(there)}")
    return config, replace(wanted, agent=agent, device=device_or_default(wanted.device))


def key_of(wanted: Measurement) -> str:
    """Whose scores these are, in the file."""
    who = "team" if wanted.team else f"base/{wanted.agent}" if wanted.base else str(wanted.agent)
    return who if wanted.limit is None else f"{who}/first_{wanted.limit}"


def keep(wanted: Measurement, found: Mapping[str, Entry]) -> None:
    """Write scores beside the agents, where those of replaced agents go with them."""
    stored = read_benchmarks(wanted.run_dir)
    stored[key_of(wanted)] = stored.get(key_of(wanted), {}) | found
    write_whole(wanted.run_dir / AGENTS / BENCHMARKS, json.dumps(stored, indent=1) + "\n")


def questions(manager: Any, task: str, shots: int | None, team: bool) -> list[Any]:
    """A group, or tasks, with their questions; ConfigError for what cannot be asked."""
    known = manager.all_tasks
    said = f"--tasks={task}: lm_eval {version('lm_eval')} has no such task{nearest(task, known)}"
    require(task in known, said)
    with readable(f"--tasks={task}: its questions cannot be read"):
        loaded = manager.load(task)
    for name, one in loaded["tasks"].items():
        kind, how = one.OUTPUT_TYPE, one.get_config("generation_kwargs") or {}
        require(
            not team or (kind == "generate_until" and not how.get("do_sample")),
            f"--team: {name} asks for more than likeliest answers (output_type={kind}, {how}); "
            f"measure it with --agent",
        )
        said = f"--few-shot={shots}: the harness asks {name} without examples"
        require(not shots or one.get_config("num_fewshot") != 0, said)
    group = loaded["groups"].get(task)
    return [*loaded["tasks"].values()] if group is None else [group]


def scores_of(output: Any, asked: str) -> dict[str, Entry]:
    """The numbers of a task, by metric and filter; of a group its own, if it has any."""
    results = output["results"]
    if any("," in key for key in results.get(asked, {})):
        results = {asked: results[asked]}
    found = {}
    for task, numbers in results.items():
        for key in (key for key in numbers if "," in key and "_stderr," not in key):
            metric, _, chosen = key.partition(",")
            stderr = numbers.get(f"{metric}_stderr,{chosen}", "N/A")
            found["/".join([task, metric, *([] if chosen == "none" else [chosen])])] = {
                "value": float(numbers[key]),
                "stderr": None if stderr == "N/A" else float(stderr),
                "questions": numbers.get("sample_count", {}).get(key, numbers["sample_len"]),
                "shots": output["n-shot"].get(task),
            }
    return found


def agent_of(wanted: Measurement, settings: Config) -> tuple[Any, ModelConfig]:
    """An agent as a model of the harness, and the settings with which it is loaded."""
    from lm_eval.models.huggingface import HFLM  # noqa: PLC0415  an extra, and slow to import

    agent, run_dir, place = str(wanted.agent), wanted.run_dir, str(wanted.device)
    folder, group = run_dir / AGENTS / agent, settings.key_of(agent)
    config = settings.model_of(agent)
    adapted = (folder / DESCRIPTION).is_file()
    precision = wanted.precision or config.compute_precision.replace("tf32", "fp32")
    config = config.replace(
        path=config.path if adapted or wanted.base else str(folder),
        precision=precision,
        compute_precision=precision,
        quantisation=config.quantisation if adapted else "none",
        chat=config.chat if wanted.chat is None else wanted.chat,
    )
    config = on_device(config, place, wanted.remote_code, f"{run_dir}: {group}")
    bundle = ModelBundle(config, torch.device(place), group)
    model = bundle.pretrained
    if adapted and not wanted.base:
        load_adapter(model, folder)
    model.generation_config.eos_token_id = sorted(bundle.stops)
    texts = bundle.texts
    begun = texts.private and opens(texts.render(texts.asked))  # its template begins the thinking

    class AgentLM(HFLM):  # type: ignore[misc]  # the harness has no types
        """Asks as the run does."""

        def apply_chat_template(
            self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
        ) -> str:
            """The messages as the model is shown them; the last may be how its answer begins."""
            if add_generation_prompt:
                return texts.render(chat_history)
            *asked, last = chat_history
            return texts.render(asked) + texts.between + last["content"]

        def _model_generate(self, *words: Any, stop: list[str], **how: Any) -> Any:
            """The ends of a task's answers end no private thinking; those are cut later."""
            return super()._model_generate(*words, stop=[] if texts.private else stop, **how)

        def tok_decode(self, *words: Any, **how: Any) -> str:
            """A text without private thinking."""
            text: str = super().tok_decode(*words, **how)
            return apart(text, begun)[1] if texts.private else text

    lm = AgentLM(
        model,
        tokenizer=bundle.tokenizer,
        batch_size=wanted.batch_size or "8",
        add_bos_token=False if config.chat else wanted.bos,  # a template writes its own
        trust_remote_code=False,
    )
    return lm, config


def team_of(wanted: Measurement, settings: Config) -> tuple[Any, ModelConfig]:
    """A team whose last answer counts, as a model of the harness; and its model's settings."""
    from lm_eval.api.model import LM  # noqa: PLC0415  an extra, and slow to import

    team = load_team(wanted.run_dir, wanted.device, wanted.remote_code)

    class TeamLM(LM):  # type: ignore[misc]  # the harness has no types
        """Answers alone: tasks that compare likelihoods were refused."""

        loglikelihood = loglikelihood_rolling = None

        def generate_until(self, requests: list[Any]) -> list[str]:
            """The last answer to each text, up to where the task ends it."""
            texts, how = zip(*(one.args for one in requests), strict=True)
            said = team.ask_all(texts, greedy=True, max_tokens=wanted.max_tokens)
            answers = [turns[-1].text if turns else "" for turns in said]
            for number, ends in enumerate(one.get("until") or [] for one in how):
                for end in [ends] if isinstance(ends, str) else ends:
                    answers[number] = answers[number].partition(end)[0]
            return answers

    return TeamLM(), team.config.model


def table(found: Mapping[str, Entry]) -> str:
    rows = [["", "questions", "shots", "score", "± standard error"]]
    for name, entry in found.items():
        error = "" if entry["stderr"] is None else f"{entry['stderr']:.4f}"
        about = [str(entry.get(key, "")) for key in ("questions", "shots")]
        rows.append([name, *about, f"{entry['value']:.4f}", error])
    return aligned(rows)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("run_dir", type=Path, metavar="RUN_DIR")
    add("--tasks", required=True, help="tasks or groups of the harness, as gsm8k,arc_easy")
    add("--agent", metavar="NAME", help="a folder of RUN_DIR/agents/; else the first agent")
    add("--team", action="store_true", help="the team's last answer; no likelihoods")
    add("--base", action="store_true", help="the model that the agent was trained from")
    add("--chat", action=argparse.BooleanOptionalAction, help="its template; else as in the run")
    add("--few-shot", type=int, metavar="N", help="examples before a question; else the task's")
    add("--max-tokens", type=int, metavar="N", help="of an answer; else the task's, a team's run's")
    add("--limit", type=int, metavar="N", help="the first N questions of each task")
    add("--include-path", type=Path, metavar="FOLDER", help="with task files of your own")
    add("--batch-size", help="texts at once, or auto; else 8, and a team's run's")
    add("--device", help="cpu, cuda or cuda:1; else a GPU if there is one")
    add("--remote-code", action="store_true", help="let the checkpoint's own Python run")
    args = vars(parser.parse_args())
    tasks = dict.fromkeys(args.pop("tasks").split(","), args.pop("few_shot"))
    include = args.pop("include_path")
    try:
        found = measure(Measurement(**args, include=(include,) if include else ()), tasks)
        print(table(found))
    except (ConfigError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
