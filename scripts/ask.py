"""Ask the agents of a finished run: all of them in their roles, or one alone.

    python scripts/ask.py RUN_DIR "What is 3 + 4 * 5?"
    python scripts/ask.py RUN_DIR                               asks for questions on the terminal
    python scripts/ask.py RUN_DIR --agent agent_1 --greedy "The movie was"

RUN_DIR is a run, or its agents at another time (RUN_DIR/best, RUN_DIR/iterations/2). What no option
says is as in the run. For many questions, and for what is said as values: docs/agents.md.
"""

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Any

import transformers

from cory.config import ConfigError
from cory.inference import TrainedTeam, load_team


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("question", nargs="?")
    parser.add_argument("--agent", metavar="NAME", help="this one alone; base: as before training")
    parser.add_argument("--greedy", action="store_true", help="the likeliest token, not a sample")
    parser.add_argument("--seed", type=int, help="of the random numbers; else the run's")
    parser.add_argument("--max-tokens", type=int, help="of one answer; else as in the run")
    parser.add_argument("--device", help="cpu, cuda or cuda:1; else a GPU if there is one")
    parser.add_argument(
        "--remote-code", action="store_true", help="let the checkpoint's own Python run"
    )
    return parser.parse_intermixed_args()


def conversation(team: TrainedTeam, question: str, agent: str | None, how: dict[str, Any]) -> str:
    """What is said about a question, to read; after several answers in a round, their vote."""
    said = team.ask(question, agent, **how)
    lines = []
    for one in said:
        lines.append(f"{one.agent} ({one.role}, round {one.round + 1}):")
        lines.append(textwrap.indent(one.text.strip() or "(nothing)", "    "))
    debated = team.config.algorithm.name != "team"
    if debated and sum(one.round == said[-1].round for one in said) > 1:
        lines.append(f"Vote: {team.vote(said) or 'no answer could be read'}")
    return "\n".join(lines)


def asked() -> str:
    """A question from the terminal; empty at the end."""
    try:
        return input("? ").strip()
    except EOFError:
        print()
        return ""


def main() -> None:
    args = arguments()
    transformers.logging.set_verbosity_error()
    how = {"greedy": args.greedy, "seed": args.seed, "max_tokens": args.max_tokens}
    try:
        team = load_team(args.run, args.device, args.remote_code)
        if args.question is not None:
            print(conversation(team, args.question, args.agent, how))
            return
        print("A question; an empty line ends.")
        while text := asked():
            try:
                print(conversation(team, text, args.agent, how), flush=True)
            except ConfigError as error:
                print(f"error: {error}", file=sys.stderr)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
