"""The context in which the handler of a message runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from devnet.chain.events import Event, typed
from devnet.chain.genesis import Genesis
from devnet.chain.store import Branch
from devnet.chain.wire import Message

__all__ = ["Context"]


@dataclass(slots=True)
class Context:
    """The state to read and write, the block, and the events so far."""

    state: Branch
    genesis: Genesis
    height: int
    time_ns: int
    events: list[Event] = field(default_factory=list)

    def emit(self, message: Message) -> None:
        """Add a typed event."""
        self.events.append(typed(message))

    def branch(self) -> Context:
        """The same block on a branch of the state, without events."""
        return Context(Branch(self.state), self.genesis, self.height, self.time_ns)

    def get(self, table: str, *key: Any) -> Any:
        return self.state.get(table, key)

    def put(self, table: str, *key: Any, value: Any) -> None:
        self.state.set(table, key, value)
