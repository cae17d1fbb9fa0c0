"""Pulumi's engine events as plain results: what changed, how many of each, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulumi.automation import EngineEvent
from pulumi.automation.events import StepEventMetadata

from stacks.results import ResourceChange

__all__ = ["Recorder"]

_QUIET = frozenset({"same", "read", "read-replacement", "refresh"})
_STACK = "pulumi:pulumi:Stack"


@dataclass
class Recorder:
    """Collects the events of one operation; `on_event` is given to the Automation API."""

    steps: dict[tuple[str, str], ResourceChange] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)
    summary: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def on_event(self, event: EngineEvent) -> None:
        """Steps are taken when planned (with their diff); a step that fails is taken out of the changes again."""
        if event.resource_pre_event:
            self._step(event.resource_pre_event.metadata)
        elif event.res_outputs_event:
            self._step(event.res_outputs_event.metadata)
        elif event.res_op_failed_event:
            metadata = event.res_op_failed_event.metadata
            self.failed.add((metadata.urn, metadata.op.value))
        elif event.summary_event:
            changes = event.summary_event.resource_changes
            self.summary = {getattr(op, "value", str(op)): count for op, count in changes.items()}
        elif event.diagnostic_event and event.diagnostic_event.severity == "error":
            self._problem(event.diagnostic_event.message, event.diagnostic_event.urn or "")

    def record(self, change: ResourceChange) -> None:
        """A change that was made beside Pulumi."""
        self.steps[change.name, change.op] = change
        self.summary = {**self.summary, change.op: self.summary.get(change.op, 0) + 1}

    def changes(self) -> tuple[ResourceChange, ...]:
        """What was done or would be, in the order of the steps; without what stayed the same."""
        return tuple(change for key, change in self.steps.items() if key not in self.failed)

    def error(self) -> str:
        """All errors, each once, with the resource it belongs to."""
        return "\n".join(dict.fromkeys(self.problems))

    def _step(self, metadata: StepEventMetadata) -> None:
        op = metadata.op.value
        if op in _QUIET or metadata.type == _STACK:
            return
        diff = tuple(sorted(metadata.detailed_diff or metadata.diffs or ()))
        key = (metadata.urn, op)
        if key in self.steps and not diff:
            return
        self.steps[key] = ResourceChange(op, metadata.type, _name(metadata.urn), metadata.urn, diff)

    def _problem(self, message: str, urn: str) -> None:
        text = message.strip()
        kind = urn.rpartition("::")[0].rpartition("$")[2].rpartition(":")[2] if urn else ""
        self.problems.append(f"{kind} {_name(urn)}: {text}" if kind and kind != "Stack" else text)


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]
