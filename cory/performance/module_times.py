"""Where the time of an update step goes: seconds per part of the model, forward and backward."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

# part -> the last word of a module's name, of the architectures that are benchmarked
PARTS = {
    "attention": r"attn|self_attn",
    "MLP": r"mlp",
    "norms": r"ln_\w+|\w*norm",
    "embeddings": r"wte|wpe|embed_tokens",
    "output head": r"lm_head",
}
OPTIMISER, REST, WEIGHTS = "optimiser", "everything else", "gradients of weights, added up"
SCOPE = "part:"
BACKWARD = "autograd::engine::evaluate_function: "


def part_of(module: str) -> str | None:
    """The part that a module of this dotted name begins; None: it belongs to the one around it."""
    last = module.rpartition(".")[2]
    return next((part for part, words in PARTS.items() if re.fullmatch(words, last)), None)


@contextmanager
def named_parts(model: nn.Module) -> Iterator[None]:
    """Let the profiler see which part of the model an operation belongs to."""
    open_scopes: list[AbstractContextManager[Any]] = []

    def begin(part: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            scope: AbstractContextManager[Any] = record_function(f"{SCOPE}{part}")
            scope.__enter__()
            open_scopes.append(scope)

        return hook

    def end(*_: Any) -> None:
        open_scopes.pop().__exit__(None, None, None)

    with ExitStack() as stack:
        for name, module in model.named_modules():
            part = part_of(name)
            if part is not None:
                stack.callback(module.register_forward_pre_hook(begin(part)).remove)
                stack.callback(module.register_forward_hook(end).remove)
        yield


def in_scope(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    """The function, as a part of its own."""

    def wrapped(*args: Any, **named: Any) -> Any:
        with record_function(f"{SCOPE}{part}"):
            return function(*args, **named)

    return wrapped


def seconds_by_part(
    model: nn.Module, work: Callable[[], Any], functions: Mapping[str, tuple[Any, str]]
) -> dict[str, float]:
    """Seconds that `work` spends in each part of the model, forward and backward.

    functions: further parts -> object and its method

    An operation of the backward pass belongs to the part of the forward one it is the gradient of:
    both have the same sequence number.
    """
    with ExitStack() as stack:
        stack.enter_context(named_parts(model))
        for part, (owner, method) in functions.items():
            whole = in_scope(getattr(owner, method), part)
            stack.enter_context(patch.object(owner, method, whole))
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            work()
    events: list[Any] = sorted(profiler.events(), key=lambda event: event.time_range.start)
    forward: dict[int, str] = {}
    for event in events:  # the last operation with a number is the one that has a gradient
        if event.sequence_nr >= 0 and not in_backward(event):
            forward[event.sequence_nr] = scope_of(event)
    seconds: dict[str, float] = {}
    for event in events:
        part = part_of_event(event, forward)
        seconds[part] = seconds.get(part, 0.0) + event.self_cpu_time_total / 1e6
    return seconds


def around(event: Any) -> Iterator[Any]:
    """The event and those it happened in, from the inside out."""
    while event is not None:
        yield event
        event = event.cpu_parent


def in_backward(event: Any) -> bool:
    """Whether an event happened in a backward pass."""
    return any(one.name.startswith(BACKWARD) for one in around(event))


def scope_of(event: Any) -> str:
    """The part of the model that a forward operation happened in."""
    names = (one.name for one in around(event))
    return next((name.removeprefix(SCOPE) for name in names if name.startswith(SCOPE)), REST)


def part_of_event(event: Any, forward: dict[int, str]) -> str:
    """Where an event's own time counts.

    forward: sequence number -> part
    """
    for one in around(event):
        if one.name.startswith("Optimizer."):
            return OPTIMISER
        if one.name.startswith(BACKWARD):
            if "AccumulateGrad" in one.name:
                return WEIGHTS
            return forward.get(one.sequence_nr, REST)
    return scope_of(event)
