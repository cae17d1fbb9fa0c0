"""One operation on one stack through the Automation API: open, recover, run, report. Lives in a worker."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulumi.automation import CommandError, ProjectSettings, PulumiCommand
from semver import VersionInfo

from components.errors import BuildError
from stacks.engine.cluster import refuse_terminating, sweep_namespace
from stacks.engine.config import PROJECT, EngineConfig
from stacks.engine.errors import EngineError, OperationRefused
from stacks.engine.events import Recorder
from stacks.engine.files import place_kubeconfig
from stacks.engine.masking import mask
from stacks.engine.processes import DATA_MARK, STACK_MARK
from stacks.engine.program import check, lease_program
from stacks.engine.stack import FileStack, FileWorkspace
from stacks.engine.state import doubted, prune_history, recover, trust
from stacks.engine.wire import Task
from stacks.results import Operation, ResourceChange, StackResult

__all__ = ["Runner"]

QUIET: Mapping[str, Any] = {"color": "never", "suppress_outputs": True, "suppress_progress": True}


class _Command(PulumiCommand):
    """The command line at a path of any shape; the stock class wants it in a folder called `bin`, or on PATH."""

    def __init__(self, executable: Path) -> None:
        self.command = str(executable)
        shown = subprocess.check_output([self.command, "version"], text=True, timeout=30)
        self.version = VersionInfo.parse(shown.strip().removeprefix("v"))


class Runner:
    """Runs tasks, one after another. An error of an operation is part of its result; nothing is raised for it."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._command = _Command(config.pulumi)

    def run(self, task: Task) -> StackResult:
        """Never raises for what the operation meets, the cluster's state or the spec."""
        started, recorder = time.monotonic(), Recorder()
        outputs: dict[str, str] = {}
        error = ""
        try:
            place_kubeconfig(self.config.kubeconfig, self.config.kubeconfig_copy)
            notes = recover(self.config, task.stack)
            with _scratch(self.config.scratch(task.stack)):
                outputs = self._perform(task, recorder)
            outputs |= {"recovered": "; ".join(notes)} if notes else {}
        except (EngineError, BuildError, OSError, subprocess.SubprocessError) as problem:
            error = str(problem)
        except CommandError as problem:
            error = recorder.error() or _last_words(problem)
        return StackResult(
            operation=task.operation,
            stack=task.stack,
            ok=not error,
            seconds=round(time.monotonic() - started, 3),
            changes=recorder.changes(),
            summary=recorder.summary,
            error=mask(error, task.spec),
            outputs=outputs,
        )

    def _perform(self, task: Task, recorder: Recorder) -> dict[str, str]:
        match task.operation:
            case Operation.UP:
                return self._up(task, recorder)
            case Operation.PREVIEW:
                return self._preview(task, recorder)
            case Operation.REFRESH:
                return self._refresh(task.stack, recorder)
            case Operation.DESTROY:
                return self._destroy(task.stack, recorder)

    def _up(self, task: Task, recorder: Recorder) -> dict[str, str]:
        program = self._program(task)
        refuse_terminating(self.config, task.stack)
        if doubted(self.config, task.stack):
            self._refresh(task.stack, Recorder())
        try:
            result = self._open(task.stack, program).up(on_event=recorder.on_event, show_secrets=False, **QUIET)
        finally:
            prune_history(self.config, task.stack)
        return {name: str(output.value) for name, output in result.outputs.items() if not output.secret}

    def _preview(self, task: Task, recorder: Recorder) -> dict[str, str]:
        program = self._program(task)
        existed = self.config.state_file(task.stack).exists()
        try:
            self._open(task.stack, program).preview(on_event=recorder.on_event, **QUIET)
        finally:
            if not existed:
                shutil.rmtree(self.config.folder(task.stack), ignore_errors=True)
        return {}

    def _refresh(self, stack: str, recorder: Recorder) -> dict[str, str]:
        if not self.config.state_file(stack).exists():
            raise OperationRefused(f"there is no stack {stack}")
        try:
            self._open(stack, _nothing).refresh(on_event=recorder.on_event, show_secrets=False, **QUIET)
            trust(self.config, stack)
        finally:
            prune_history(self.config, stack)
        return {}

    def _destroy(self, stack: str, recorder: Recorder) -> dict[str, str]:
        """Everything the stack holds, then what its state has forgotten, then the stack itself with its folder."""
        if doubted(self.config, stack):
            self._refresh(stack, recorder)
        if self.config.state_file(stack).exists():
            self._open(stack, _nothing).destroy(on_event=recorder.on_event, show_secrets=False, **QUIET)
        if sweep_namespace(self.config, stack):
            recorder.record(ResourceChange("delete", "kubernetes:core/v1:Namespace", stack))
        shutil.rmtree(self.config.folder(stack), ignore_errors=True)
        return {}

    def _program(self, task: Task) -> Callable[[], None]:
        if task.spec is None or task.spec.namespace != task.stack:
            raise OperationRefused(f"{task.operation} of {task.stack} needs the LeaseSpec of that very lease")
        spec = task.spec
        if self.config.policies:
            check(spec)
        return lambda: lease_program(self.config, spec)

    def _open(self, stack: str, program: Callable[[], None]) -> FileStack:
        """The stack, made if need be."""
        folder = self.config.folder(stack)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        workspace = FileWorkspace(
            work_dir=str(folder),
            pulumi_home=str(self.config.pulumi_home) if self.config.pulumi_home else None,
            program=program,
            env_vars=self._environment(stack),
            secrets_provider="passphrase",
            project_settings=ProjectSettings(name=PROJECT, runtime="python", main=str(folder)),
            pulumi_command=self._command,
        )
        return FileStack(stack, workspace, project=PROJECT)

    def _environment(self, stack: str) -> dict[str, str]:
        """Variables of the command line and its plugin (toolchain.md §3)."""
        return {
            # without metadata: a kill can leave an empty .attrs file, which makes the state beside it unreadable
            "PULUMI_BACKEND_URL": f"file://{self.config.folder(stack)}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.config.key_file),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            "PULUMI_LOG_ROTATION_MAX_TOTAL_MB": "5",
            "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS": "true",
            "KUBECONFIG": str(self.config.kubeconfig_copy),
            "TMPDIR": str(self.config.scratch(stack)),
            DATA_MARK: str(self.config.data),
            STACK_MARK: stack,
        }


@contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """An empty private folder that is gone afterwards, with whatever a killed run before has left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _nothing() -> None:
    """Refresh and destroy need no program, but the command line would start a language host without one."""


def _last_words(error: CommandError) -> str:
    """What the command line said on stderr (`create_command_error` keeps it as text), else all it said."""
    text = str(error)
    said = text.partition("stderr:")[2].strip() or text.strip()
    code = text.partition("code:")[2].split("\n", 1)[0].strip()
    if code.startswith("-"):
        return f"the Pulumi command line was ended by signal {code[1:]}"
    return said[-4000:]
