"""Let the agents of a finished MAFT run debate about any question; the last vote is their answer.

    python scripts/debate.py RUN_DIR                              asks for questions on the terminal
    python scripts/debate.py RUN_DIR --question "What is 3 + 4 * 5?"
    python scripts/debate.py RUN_DIR --questions FILE --out DEBATES.jsonl
    python scripts/debate.py RUN_DIR/iterations/2 ...             the agents after two iterations

FILE is .jsonl, .json, .csv, .parquet, or .txt with a question per line; where it has answers, the
share that is right is printed. The same command goes on with one that was interrupted. What no
option says is as in the run's own evaluation.
"""

import argparse
import os
import sys
from pathlib import Path

import datasets
import torch
import transformers
from tqdm import tqdm

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

from cory.config import ConfigError, require
from cory.inference.debaters import DebateOptions, Debaters, settings_of
from cory.inference.question_files import DebateFile, Question, read_questions
from cory.inference.transcript import accuracy_lines, readable
from cory.runs.run_dir import WriteError


def asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--question", metavar="TEXT")
    what.add_argument("--questions", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="FILE", help="gets the debates, a line each")
    parser.add_argument(
        "--question-column",
        default="question",
        metavar="NAMES",
        help="columns of FILE, one below the other, as question,choices; a list: a line per entry",
    )
    parser.add_argument("--answer-column", metavar="NAME", help="of FILE; else `answer`, if any")
    parser.add_argument("--base", action="store_true", help="the model as it was before training")
    parser.add_argument("--agents", type=int, help="who debate; beyond the run's they speak again")
    parser.add_argument("--turns", type=int, help="of a debate; the first is without the others")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--max-tokens", type=int, help="of one answer")
    parser.add_argument("--batch-size", type=int, help="debates held and written at a time")
    parser.add_argument(
        "--remote-code", action="store_true", help="let the checkpoint's own Python run"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def debaters_of(args: argparse.Namespace) -> Debaters:
    """The debaters that the command line asks for."""
    require(
        (args.questions is None) == (args.out is None),
        "--questions and --out go together: the debates about a file are kept in a file",
    )
    options = DebateOptions(
        args.agents,
        args.turns,
        args.seed,
        args.temperature,
        args.top_p,
        args.max_tokens,
        args.batch_size,
        args.remote_code,
    )
    config = settings_of(args.run, options, args.device)
    return Debaters(args.run, config, args.device, args.base)


def about_file(debaters: Debaters, questions: list[Question], out: Path) -> None:
    """Debate the questions of a file, and write the debates to another."""
    debaters.check(questions)
    file = DebateFile(out, debaters.settings, questions)
    done, size = len(file.lines), debaters.config.hardware.responses_at_once
    debaters.skip(done)
    with tqdm(total=len(questions), initial=done, desc="debates", file=sys.stderr) as bar:
        for start in range(done, len(questions), size):
            file.add(debaters.debate(questions[start : start + size]))
            bar.update(len(file.lines) - bar.n)
    file.close()
    print("\n".join([*accuracy_lines(file.lines), str(out)]))


def about_one(debaters: Debaters, text: str) -> None:
    """Print a debate about one question."""
    question = Question(text, None)
    debaters.check([question])
    (line,) = debaters.debate([question])
    print(readable(line), flush=True)


def in_turn(debaters: Debaters) -> None:
    """Questions from the terminal, until there is none."""
    print(
        "A question; one of several lines with \\ at the end of all but the last. Empty: the end."
    )
    while text := question_typed():
        try:
            about_one(debaters, text)
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
        print()


def question_typed() -> str:
    """The typed question; empty at the end."""
    lines = []
    try:
        lines.append(input("? ").strip())
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1].rstrip()
            lines.append(input("  ").strip())
    except EOFError:
        print()
    return "\n".join(lines)


def main() -> None:
    args = asked()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        questions = []
        if args.questions is not None:
            columns = args.question_column.split(",")
            questions = read_questions(args.questions, columns, args.answer_column)
        debaters = debaters_of(args)
        if args.questions is not None:
            about_file(debaters, questions, args.out)
        elif args.question is not None:
            about_one(debaters, args.question)
        else:
            in_turn(debaters)
    except (ConfigError, WriteError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        kept = "" if args.out is None else f"; the same command goes on with what is in {args.out}"
        print(f"\nstopped{kept}", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
