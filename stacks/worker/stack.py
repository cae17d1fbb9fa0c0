"""The Automation API's stack without the command lines that only read.

It has the class, methods and result types of `pulumi.automation.Stack`. The stock class runs `stack select`, `stack
output` (twice) and `stack history` around every operation; this one uses the operation's own events, or reads the files
of the file backend. So an operation is one process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi.automation import (
    DestroyResult,
    EngineEvent,
    LocalWorkspace,
    OutputMap,
    OutputValue,
    ProjectSettings,
    RefreshResult,
    Stack,
    UpdateSummary,
    UpResult,
)
from pulumi.automation._stack import StackInitMode

from stacks.worker.events import SHOWN, Recorder

__all__ = ["ThinStack", "ThinWorkspace"]

_NOBODY = "--client=127.0.0.1:1"
"""A language host that is never called: without one the command line would start its own (toolchain.md §3)."""
_WITHOUT_PROGRAM = frozenset({"refresh", "destroy"})


class ThinWorkspace(LocalWorkspace):
    """A workspace whose operations all name their stack, so that none has to be selected first."""

    def save_project_settings(self, settings: ProjectSettings) -> None:
        """As the stock method, as JSON, which is YAML too and costs a tenth of the time."""
        Path(self.work_dir, "Pulumi.yaml").write_text(json.dumps(settings.to_dict()))

    def select_stack(self, stack_name: str) -> None:
        """Do nothing: the caller knows that the stack exists."""


class ThinStack(Stack):
    """A stack in `project`; `exists` says whether it must be created first. `secrets` of outputs are never shown."""

    def __init__(self, name: str, workspace: LocalWorkspace, *, project: str, exists: bool) -> None:
        self._state = Path(workspace.work_dir, ".pulumi", "stacks", project, f"{name}.json")
        self._history = Path(workspace.work_dir, ".pulumi", "history", project, name)
        self._seen: Recorder | None = None
        super().__init__(name, workspace, StackInitMode.SELECT if exists else StackInitMode.CREATE)

    def up(self, *args: Any, **kwargs: Any) -> UpResult:
        with self._listening(kwargs) as listening:
            return super().up(*args, **listening)

    def refresh(self, *args: Any, **kwargs: Any) -> RefreshResult:
        with self._listening(kwargs) as listening:
            return super().refresh(*args, **listening)

    def destroy(self, *args: Any, **kwargs: Any) -> DestroyResult:
        with self._listening(kwargs) as listening:
            return super().destroy(*args, **listening)

    def outputs(self) -> OutputMap:
        """As the stock method, except that a secret's value is not decrypted but shown as `[secret]`."""
        if self._seen is not None:
            return {name: _output(value) for name, value in self._seen.outputs.items()}
        if not self._state.exists():
            return super().outputs()
        latest = json.loads(self._state.read_bytes())["checkpoint"].get("latest") or {}
        roots = [item for item in latest.get("resources", ()) if item["type"] == "pulumi:pulumi:Stack"]
        return {name: _output(value) for root in roots for name, value in root.get("outputs", {}).items()}

    def info(self, show_secrets: bool = True) -> UpdateSummary | None:
        """The newest update's record, without configuration, which lease stacks do not have."""
        records = sorted(self._history.glob("*.history.json"))
        if records:
            return _summary(json.loads(records[-1].read_bytes()))
        if self._seen is not None:
            now = datetime.now(UTC)
            return UpdateSummary("update", now, "", {}, {}, "succeeded", now, None, None, self._seen.summary)  # type: ignore[arg-type]
        return super().info(show_secrets)

    @contextmanager
    def _listening(self, kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """While an operation runs, its own events answer `outputs` and `info`; the caller hears them too."""
        seen, on_event = Recorder(), kwargs.get("on_event")
        self._seen = seen

        def listen(event: EngineEvent) -> None:
            seen.on_event(event)
            if on_event is not None:
                on_event(event)

        try:
            yield {**kwargs, "on_event": listen}
        finally:
            self._seen = None

    def _run_pulumi_cmd_sync(self, args: list[str], *rest: Any) -> Any:
        if args[0] in _WITHOUT_PROGRAM and not any(arg.startswith("--client") for arg in args):
            args = [*args, _NOBODY]
        return super()._run_pulumi_cmd_sync(args, *rest)


def _summary(record: dict[str, Any]) -> UpdateSummary:
    return UpdateSummary(
        kind=record["kind"],
        start_time=datetime.fromtimestamp(record["startTime"], UTC),
        message=record["message"],
        environment=record["environment"],
        config={},
        result=record["result"],
        end_time=datetime.fromtimestamp(record["endTime"], UTC),
        version=record["version"],
        resource_changes=record.get("resourceChanges"),
    )


def _output(value: Any) -> OutputValue:
    secret = value == SHOWN or (isinstance(value, dict) and _SECRET in value)
    return OutputValue(value=SHOWN if secret else value, secret=secret)


_SECRET = "4dabf18193072939515e22adb298388d"  # noqa: S105  key of Pulumi's special values in a state
