"""Pulumi's engine events as plain results: the changes, their number by kind, the errors, and the duration of each
part.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

from pulumi.automation import EngineEvent
from pulumi.automation.events import StepEventMetadata

from stacks.common.results import Durations, PropertyChange, ResourceChange

__all__ = ["SHOWN", "Recorder", "value_at", "value_text", "with_short_names"]

SHOWN = "[secret]"
_SECRET = "4dabf18193072939515e22adb298388d"  # noqa: S105  key of Pulumi's special values
_URN = re.compile(r"urn:pulumi:[^\s\"']*::([^\s\"':]+)")
_QUIET = frozenset({"same", "read", "read-replacement", "refresh"})
_STACK = "pulumi:pulumi:Stack"
_PLUGIN = "pulumi:providers:"
_OBJECT = "kubernetes:"
_LONGEST = 2000
"""The most characters of a value; `lessor diff` shows the changes inside a longer one."""


def with_short_names(text: str) -> str:
    """The text with the plain names of resources in place of Pulumi's, which would put hundreds of characters before
    the reason.
    """
    return _URN.sub(r"\1", text)


@dataclass
class Recorder:
    """Collects the events of one operation; `on_event` is the Automation API's callback."""

    steps: dict[tuple[str, str], ResourceChange] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)
    summary: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    began_at: float = field(default_factory=time.monotonic)
    first_event_at: float = 0.0
    first_object_at: float = 0.0

    def on_event(self, event: EngineEvent) -> None:
        """Add a step when it is planned (with its diff), and remove it again when it fails."""
        self.first_event_at = self.first_event_at or time.monotonic()
        if event.resource_pre_event:
            self._step(event.resource_pre_event.metadata)
        elif event.res_outputs_event:
            self._done(event.res_outputs_event.metadata)
        elif event.res_op_failed_event:
            metadata = event.res_op_failed_event.metadata
            self.failed.add((metadata.urn, metadata.op.value))
        elif event.summary_event:
            changes = event.summary_event.resource_changes
            self.summary = {getattr(op, "value", str(op)): count for op, count in changes.items()}
            self.finished = True
        elif event.diagnostic_event and event.diagnostic_event.severity == "error":
            self._problem(event.diagnostic_event.message, event.diagnostic_event.urn or "")

    def record(self, change: ResourceChange) -> None:
        """Add a change that was made without Pulumi."""
        self.steps[change.name, change.op] = change
        self.summary = {**self.summary, change.op: self.summary.get(change.op, 0) + 1}

    def changes(self) -> tuple[ResourceChange, ...]:
        """The changes that were made or would be, in the order of the steps, without unchanged objects."""
        return tuple(change for key, change in self.steps.items() if key not in self.failed)

    def error(self) -> str:
        """All errors without repetition, each with the resource that it belongs to."""
        return with_short_names("\n".join(dict.fromkeys(self.problems)))

    def seconds(self) -> float:
        """The seconds until now."""
        return round(time.monotonic() - self.began_at, 3)

    def durations(self) -> Durations:
        """The durations until now. A part that never began took no time."""
        now = time.monotonic()
        started = self.first_event_at or now
        objects = self.first_object_at or now
        parts = (started - self.began_at, max(objects - started, 0.0), now - objects)
        return Durations(0.0, *(round(part, 3) for part in parts))

    def _done(self, metadata: StepEventMetadata) -> None:
        if metadata.type == _STACK and metadata.new is not None:
            self.outputs = dict(metadata.new.outputs or {})
        self._step(metadata)

    def _step(self, metadata: StepEventMetadata) -> None:
        op = metadata.op.value
        if metadata.type.startswith(_OBJECT):
            self.first_object_at = self.first_object_at or time.monotonic()
        if op in _QUIET or metadata.type == _STACK:
            return
        properties = _properties(metadata)
        diff = tuple(sorted(metadata.detailed_diff or metadata.diffs or ()))
        key = (metadata.urn, op)
        if key in self.steps and not diff:
            return
        self.steps[key] = ResourceChange(op, metadata.type, _name(metadata.urn), metadata.urn, diff, properties)

    def _problem(self, message: str, urn: str) -> None:
        text = message.strip()
        kind = urn.rpartition("::")[0].rpartition("$")[2].rpartition(":")[2] if urn else ""
        self.problems.append(f"{kind} {_name(urn)}: {text}" if kind and kind != "Stack" else text)


def _properties(metadata: StepEventMetadata) -> tuple[PropertyChange, ...]:
    """Old and new value of each changed path. The values are inputs, since the diff is of inputs."""
    old = (metadata.old.inputs if metadata.old else None) or {}
    new = (metadata.new.inputs if metadata.new else None) or {}
    found = sorted((metadata.detailed_diff or {}).items())
    return tuple(
        PropertyChange(path, _kind(change), value_text(value_at(old, path)), value_text(value_at(new, path)))
        for path, change in found
    )


def _kind(change: Any) -> str:
    kind = getattr(change, "diff_kind", None)
    return str(getattr(kind, "value", kind or "update"))


def value_at(document: Any, path: str) -> Any:
    """The value at a path such as `spec.containers[0].image` or `data["a.b"]`; None where there is none."""
    for key in _keys(path):
        if _hidden(document):
            return SHOWN
        try:
            document = document[key]
        except (LookupError, TypeError):
            return None
    return document


def _keys(path: str) -> list[str | int]:
    keys: list[str | int] = []
    while path:
        if path.startswith('["'):
            name, _, path = path[2:].partition('"]')
            keys.append(name)
        elif path.startswith("["):
            index, _, path = path[1:].partition("]")
            keys.append(int(index) if index.isdigit() else index)
        else:
            end = min((at for at in (path.find("."), path.find("[")) if at > 0), default=len(path))
            keys.append(path[:end])
            path = path[end:]
        path = path.removeprefix(".")
    return keys


def _hidden(value: Any) -> bool:
    return value == SHOWN or (isinstance(value, dict) and _SECRET in value)


def value_text(value: Any) -> str | None:
    """The value as the history shows it: texts as they are, anything else as JSON, very long ones cut."""
    if value is None:
        return None
    text = SHOWN if _hidden(value) else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]
