"""The Automation API's stack over a local file backend, without the command lines that only read files.

Same class, same methods, same result types as `pulumi.automation.Stack`; where the stock one runs `stack select`,
`stack output` (twice) and `stack history` around every operation, this one reads what the backend has written.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi.automation import LocalWorkspace, OutputMap, OutputValue, Stack, UpdateSummary
from pulumi.automation._stack import StackInitMode

__all__ = ["FileStack", "FileWorkspace"]

_STACK = "pulumi:pulumi:Stack"
_SECRET = "4dabf18193072939515e22adb298388d"  # noqa: S105  key of Pulumi's special values in a state
_SHOWN = "[secret]"


class FileWorkspace(LocalWorkspace):
    """A workspace whose operations all name their stack, so that none has to be selected first."""

    def select_stack(self, stack_name: str) -> None:
        """Nothing to do: the caller has seen the state file."""


class FileStack(Stack):
    """A stack in the file backend of its own workspace folder. `project` is the project's name."""

    def __init__(self, name: str, workspace: FileWorkspace, *, project: str) -> None:
        self._state = Path(workspace.work_dir, ".pulumi", "stacks", project, f"{name}.json")
        self._history = Path(workspace.work_dir, ".pulumi", "history", project, name)
        super().__init__(name, workspace, StackInitMode.SELECT if self._state.exists() else StackInitMode.CREATE)

    def outputs(self) -> OutputMap:
        """As the stock method, except that a secret's value is not decrypted but shown as `[secret]`."""
        latest = json.loads(self._state.read_bytes())["checkpoint"].get("latest") or {}
        roots = [item for item in latest.get("resources", ()) if item["type"] == _STACK]
        return {name: _output(value) for root in roots for name, value in root.get("outputs", {}).items()}

    def info(self, show_secrets: bool = True) -> UpdateSummary | None:
        """The newest update's record; configuration is left out, lease stacks have none."""
        records = sorted(self._history.glob("*.history.json"))
        if not records:
            return None
        record: dict[str, Any] = json.loads(records[-1].read_bytes())
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
    secret = isinstance(value, dict) and _SECRET in value
    return OutputValue(value=_SHOWN if secret else value, secret=secret)
