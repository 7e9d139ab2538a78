"""The state that a checkpoint keeps beside weights and optimisers."""

from collections.abc import Mapping
from typing import Any, Protocol


class Stateful(Protocol):
    """A component whose state must survive a restart."""

    def state_dict(self) -> dict[str, Any]:
        """Its state: tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


def states_of(components: Mapping[str, Stateful]) -> dict[str, Any]:
    """The state of each component, by name."""
    return {name: component.state_dict() for name, component in components.items()}


def load_states(components: Mapping[str, Stateful], states: Mapping[str, Any]) -> None:
    """Restore each component from `states`."""
    for name, component in components.items():
        component.load_state_dict(states[name])
