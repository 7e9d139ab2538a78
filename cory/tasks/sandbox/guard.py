"""The program inside the sandbox: runs one untrusted program and prints the result.

Not imported: process.py starts it as `python -I -S guard.py FUNCTION SECONDS WALL MEMORY`, the
untrusted program on standard input. It prints one word, some of them with a detail:

    value 12 | no_number str | too_large | no_function | raised KeyError | out_of_memory
    | refused open

Imports are few, because this starts once for each program.
"""

import posix
import resource
import signal
import sys
from collections.abc import Callable

# Modules that a program may import: none with random numbers or a clock, which would change its
# answer. They are loaded before it starts, because it can open no file.
MODULES = (
    *("bisect", "calendar", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
    *("heapq", "itertools", "math", "numbers", "operator", "re", "statistics", "string", "typing"),
)
# Audit events that are allowed while a program runs. Any other, from opening a file to looking at a
# stack frame, ends the program.
HARMLESS = frozenset({"compile", "exec"})
# modules that are needed here, but must not be imported by a program
HIDDEN = ("__main__", "os", "posix", "resource", "signal")
# Modules of which nothing is left when the program starts, as other modules refer to them: most
# calls of the system are in `posix`, many without an audit event (mkfifo, setpriority, stat), and
# `_imp` can make a new `posix`. Neither a module that is loaded nor the interpreter needs them.
EMPTIED = ("posix", "os", "_imp", "_signal", "signal", "resource")
NOBODY = 65534  # the user and the group that a superuser's program becomes
# as they are now: a program may put others into their places
TYPE, INTEGER, FLOAT, SIZE = type, int, float, abs
LARGEST = 10**18  # no answer to a word problem has more digits


def run_guarded(function: str, seconds: int, wall: int, memory: int) -> None:
    """Runs the program and prints the result; never returns.

    function: name of the function to call

    seconds: of processor time
    wall: seconds of any time
    memory: bytes of address space
    """
    source = sys.stdin.buffer.read().decode()
    for name in MODULES:
        if name in source:
            __import__(name)
    say = cut_off()
    drop_root()
    limit(seconds, wall, memory)
    for name in EMPTIED:
        if name in sys.modules:
            vars(sys.modules[name]).clear()
    # the hook is called for an import only if the module is not loaded
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
        say(result_line(solve()) if callable(solve) else "no_function")
    except MemoryError:
        say("out_of_memory")
    except BaseException as error:
        say(f"raised {type(error).__name__:.40}")


def cut_off() -> Callable[[str], None]:
    """Closes the standard streams; returns a function that prints a last line and ends all."""
    write, leave, channel = posix.write, posix._exit, posix.dup(1)
    nowhere = posix.open("/dev/null", posix.O_RDWR)
    for standard in (0, 1, 2):
        posix.dup2(nowhere, standard)
    posix.close(nowhere)

    def say(line: str) -> None:
        write(channel, line.encode("ascii", "replace"))
        leave(0)

    return say


def drop_root() -> None:
    """Make a superuser nobody, whom the limit of processes binds and who may change no other's.

    In a user namespace that knows no other user it stays what it is, which is little there.
    """
    if posix.geteuid() == 0:
        try:
            posix.setgroups([])
            posix.setresgid(NOBODY, NOBODY, NOBODY)
            posix.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError:
            pass


def limit(seconds: int, wall: int, memory: int) -> None:
    """Sets the limits that the kernel enforces; a program cannot raise them again."""
    limits = {
        resource.RLIMIT_CPU: seconds,  # ends the process with SIGXCPU
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 0,  # no file gets longer
        resource.RLIMIT_NOFILE: 0,  # no file, pipe or socket more
        resource.RLIMIT_NPROC: 0,  # no process, no thread
        resource.RLIMIT_CORE: 0,
    }
    for name, most in limits.items():
        # a second more for the hard limit of time, which kills by SIGKILL instead of SIGXCPU
        resource.setrlimit(name, (most, most + (name == resource.RLIMIT_CPU)))
    signal.alarm(wall)  # ends the process with SIGALRM


def result_line(value: object) -> str:
    """The line for a returned value: a number that can be an answer, or why it is none."""
    kind = TYPE(value)
    if kind is not INTEGER and kind is not FLOAT:
        return f"no_number {kind.__name__:.40}"
    if value != value or SIZE(value) >= LARGEST:  # type: ignore[arg-type]
        return "too_large"
    return f"value {value!r}"


if __name__ == "__main__":
    run_guarded(sys.argv[1], *map(int, sys.argv[2:]))
