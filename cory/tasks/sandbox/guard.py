"""The inside of the sandbox: runs one program and says what its function returned.

Not imported: sandbox.py starts it as `python -I -S guard.py FUNCTION SECONDS WALL MEMORY`, the
program on standard input. What comes out is a word, and perhaps another that says more:

    value 12 | no_number str | too_large | no_function | raised KeyError | out_of_memory
    | refused open

Only what is needed is imported, because this starts once for each program.
"""

from __future__ import annotations

import posix
import resource
import signal
import sys
from collections.abc import Callable

# What a program may import, unless it wants chance or a clock: its answer would change. Loaded
# before it starts, because it can open no file.
MODULES = (
    *("bisect", "calendar", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
    *("heapq", "itertools", "math", "numbers", "operator", "re", "statistics", "string", "typing"),
)
# What the interpreter may tell its audit hooks of while a program runs. Everything else, from
# opening a file to looking at a stack frame, ends the program.
HARMLESS = frozenset({"compile", "exec"})
# needed here, and from then on not to be imported
HIDDEN = ("__main__", "os", "posix", "resource", "signal")
LARGEST = 10**18  # no answer to a word problem has more digits


def run_guarded(function: str, seconds: int, wall: int, memory: int) -> None:
    """Never returns: whatever happens, the interpreter ends with a word.

    seconds: of processor time
    wall: seconds of any time
    memory: bytes of address space
    """
    source = sys.stdin.buffer.read().decode()
    for name in MODULES:
        if name in source:
            __import__(name)
    say = cut_off()
    limit(seconds, wall, memory)
    # the hook hears of an import only where the module is not loaded yet
    _kept = [sys.modules.pop(name, None) for name in HIDDEN]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event not in HARMLESS:
            say(f"refused {arguments[0]!s:.40}" if event == "import" else f"refused {event}")

    names: dict[str, object] = {"__name__": "program"}
    try:
        code = compile(source, "program", "exec")
        sys.addaudithook(watch)
        exec(code, names)
        solve = names.get(function)
        say(word_for(solve()) if callable(solve) else "no_function")
    except MemoryError:
        say("out_of_memory")
    except BaseException as error:
        say(f"raised {type(error).__name__:.40}")


def cut_off() -> Callable[[str], None]:
    """Leave nothing to read and nowhere to print; returns what says a last line and ends all."""
    write, leave, channel = posix.write, posix._exit, posix.dup(1)
    nowhere = posix.open("/dev/null", posix.O_RDWR)
    for standard in (0, 1, 2):
        posix.dup2(nowhere, standard)
    posix.close(nowhere)

    def say(line: str) -> None:
        write(channel, line.encode("ascii", "replace"))
        leave(0)

    return say


def limit(seconds: int, wall: int, memory: int) -> None:
    """What the kernel watches over; none of it can be taken back."""
    limits = {
        resource.RLIMIT_CPU: seconds,  # ends the process with SIGXCPU
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 0,  # no file gets longer
        resource.RLIMIT_NOFILE: 0,  # no file, pipe or socket more
        resource.RLIMIT_NPROC: 0,  # no process, no thread; does not bind a superuser
        resource.RLIMIT_CORE: 0,
    }
    for which, most in limits.items():
        # a second more for the hard limit of time: reaching it kills without saying of what
        resource.setrlimit(which, (most, most + (which == resource.RLIMIT_CPU)))
    signal.alarm(wall)  # ends the process with SIGALRM


def word_for(value: object) -> str:
    """What came out: a number that can be an answer, or why it is none."""
    if type(value) is not int and type(value) is not float:
        return f"no_number {type(value).__name__:.40}"
    if value != value or abs(value) >= LARGEST:
        return "too_large"
    return f"value {value!r}"


if __name__ == "__main__":
    run_guarded(sys.argv[1], *map(int, sys.argv[2:]))
