"""Frames between the daemon and a worker: four bytes of length (big endian), then JSON.

Specs hold tenants' secrets, so they travel here and nowhere else: not in arguments, environment or files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.results import Operation, StackResult

__all__ = [
    "MAX_FRAME",
    "Begun",
    "Configure",
    "FromWorker",
    "Interrupt",
    "Ready",
    "Result",
    "Task",
    "ToWorker",
    "decode",
    "encode",
]

MAX_FRAME = 64 << 20
"""The most bytes of a frame. A manifest has at most a few MiB (gateway), so a longer frame is a broken stream."""


class _Frame(BaseModel):
    # an error must not print its input, which may hold secrets
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class Configure(_Frame):
    """The first frame to a worker."""

    kind: Literal["configure"] = "configure"
    config: EngineConfig


class Task(_Frame):
    """One operation. `spec` for preview and up, None for refresh and destroy."""

    kind: Literal["task"] = "task"
    operation: Operation
    stack: str
    spec: LeaseSpec | None = None
    resident: Path | None = None
    """Socket of the resident engine that runs this operation; None: a command line runs it."""
    sound: bool = False
    """Whether the last operation on the stack ended in order on another machine; the state is not doubted then."""


class Interrupt(_Frame):
    """End the running operation as Ctrl-C would; its result still comes."""

    kind: Literal["interrupt"] = "interrupt"


class Ready(_Frame):
    """The worker has imported what it needs and waits for tasks."""

    kind: Literal["ready"] = "ready"
    pid: int


class Begun(_Frame):
    """The worker has taken the task: from now on its death may leave processes or objects."""

    kind: Literal["begun"] = "begun"


class Result(_Frame):
    """The answer to a task."""

    kind: Literal["result"] = "result"
    result: StackResult


ToWorker = Annotated[Configure | Task | Interrupt, Field(discriminator="kind")]
FromWorker = Annotated[Ready | Begun | Result, Field(discriminator="kind")]
_LATER = ConfigDict(defer_build=True)
"""Each side of a pipe reads one direction only, and the daemon no frame before it is ready."""
_TO: TypeAdapter[Configure | Task | Interrupt] = TypeAdapter(ToWorker, config=_LATER)
_FROM: TypeAdapter[Ready | Begun | Result] = TypeAdapter(FromWorker, config=_LATER)


def encode(frame: BaseModel) -> bytes:
    """A frame with its length in front."""
    body = frame.model_dump_json().encode()
    return len(body).to_bytes(4, "big") + body


def decode(body: bytes, *, to_worker: bool) -> Configure | Task | Interrupt | Ready | Begun | Result:
    """The frame in `body`. Raises pydantic's ValidationError, which does not repeat the body."""
    return _TO.validate_json(body) if to_worker else _FROM.validate_json(body)
