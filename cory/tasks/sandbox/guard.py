"""The program inside the sandbox: runs one untrusted program and prints the result.

Not imported: process.py starts it as `python -I -S guard.py FUNCTION SECONDS MEMORY`, the untrusted
program on standard input. It prints the number that the program returned, as Python writes it, or
one of `no_number`, `no_function`, `raised`, `refused`.

Imports are few, because this starts once for each program.
"""

import posix
import resource
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
# Modules of which nothing is left when the program starts, as other modules refer to them: most
# calls of the system are in `posix`, many without an audit event (mkfifo, setpriority, stat), and
# `_imp` can make a new `posix`. Neither a module that is loaded nor the interpreter needs them.
EMPTIED = ("posix", "os", "_imp", "_signal", "signal", "resource")
NOBODY = 65534  # the user and the group that a superuser's program becomes
LONGEST = 200  # bytes of a result
TYPE, NUMBERS = type, (int, float)  # as they are now: a program may put others into their places


def run_guarded(function: str, seconds: int, memory: int) -> None:
    """Runs the program and prints the result; never returns.

    function: name of the function to call
    seconds: of processor time
    memory: bytes of address space
    """
    source = sys.stdin.buffer.read().decode()
    for name in MODULES:
        if name in source:
            __import__(name)
    say = cut_off()
    confine(seconds, memory)
    # the hook is called for an import only if the module is not loaded
    _kept = sys.modules.pop("__main__", None)
    for name in EMPTIED:
        if name in sys.modules:
            vars(sys.modules.pop(name)).clear()

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event not in HARMLESS:
            say("refused")

    names: dict[str, object] = {"__name__": "program"}
    try:
        code = compile(source, "program", "exec")
        sys.addaudithook(watch)
        exec(code, names)
        solve = names.get(function)
        value = solve() if callable(solve) else None
        number = repr(value) if TYPE(value) in NUMBERS else "no_number"
        say(number if callable(solve) else "no_function")
    except BaseException:
        say("raised")


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


def confine(seconds: int, memory: int) -> None:
    """Sets the limits that the kernel enforces; a program cannot raise them again.

    A superuser becomes nobody, whom the limit of processes binds and who may change no other's. In
    a user namespace that knows no other user it stays what it is, which is little there.
    """
    if posix.geteuid() == 0:
        try:
            posix.setgroups([])
            posix.setresgid(NOBODY, NOBODY, NOBODY)
            posix.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError:
            pass
    limits = {
        resource.RLIMIT_CPU: seconds,  # ends the process with SIGXCPU
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: LONGEST,  # the result is written to a file
        resource.RLIMIT_NOFILE: 0,  # no file, pipe or socket more
        resource.RLIMIT_NPROC: 0,  # no process, no thread
        resource.RLIMIT_CORE: 0,
    }
    for name, most in limits.items():
        # a second more for the hard limit of time, which kills by SIGKILL instead of SIGXCPU
        resource.setrlimit(name, (most, most + (name == resource.RLIMIT_CPU)))


if __name__ == "__main__":
    run_guarded(sys.argv[1], *map(int, sys.argv[2:]))
