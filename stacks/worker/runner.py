"""The tasks of a worker: each is one operation on one stack through the Automation API."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi.automation import CommandError, Stack

from components.errors import BuildError
from stacks.common.begun_objects import begin, begun, finish, left_over
from stacks.common.causes import cause_of
from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError, OperationRefused
from stacks.common.files import place_kubeconfig
from stacks.common.masking import mask, mask_result
from stacks.common.results import FailureCause, Operation, ResourceChange, StackResult
from stacks.common.term import refuse_after_term
from stacks.common.transit import TransitKey, TransitService
from stacks.common.wire import Task
from stacks.worker.change_values import explain, keep_shown
from stacks.worker.cluster import delete_objects, refuse_terminating, sweep_namespace
from stacks.worker.events import Recorder, with_short_names
from stacks.worker.locks import is_abandoned, is_stale
from stacks.worker.own_servers import fence_sdk_servers
from stacks.worker.program import check, lease_program
from stacks.worker.remote_stack import learn
from stacks.worker.resident import Resident
from stacks.worker.sdk import quiet_sdk
from stacks.worker.state import compact, doubt, doubted, prune_history, recover, trust
from stacks.worker.workspace import Command, Program, Secrets, open_stack

__all__ = ["Runner"]

_CORRECTIONS = 2
_OUTDATED = re.compile("no stack named.*found|stack.*already exists")
"""Pulumi's refusals when the backend has no such stack, or has it already."""
QUIET: Mapping[str, Any] = {"color": "never", "suppress_outputs": True, "suppress_progress": True}


class Runner:
    """Runs tasks, one after another. An error of an operation is part of its result and never raised."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._command = Command(config.pulumi)
        self._transit: TransitService | None = None
        self._resident = Resident()
        fence_sdk_servers()
        if config.engine != "sdk":
            quiet_sdk()

    def run(self, task: Task) -> StackResult:
        """The result of the task. Errors of the operation, the cluster's state or the spec are never raised."""
        recorder = Recorder()
        end = self._end(task, recorder)
        result = StackResult(
            operation=task.operation,
            stack=task.stack,
            ok=not end.error,
            seconds=recorder.seconds(),
            changes=self._changes(task, recorder, ok=not end.error),
            summary=recorder.summary,
            error=mask(end.error, task.spec),
            outputs=end.outputs,
            cause=end.cause or cause_of(end.error),
            durations=recorder.durations(),
            spec_hash=task.spec.content_hash() if task.spec else "",
        )
        return mask_result(result, [task.spec]) if task.spec and result.changes else result

    def cancel(self) -> None:
        """Cancel the operation if the resident engine runs it; called from another thread."""
        self._resident.cancel()

    def _end(self, task: Task, recorder: Recorder) -> _End:
        """Run the task and say how it ended."""
        try:
            return _End(self._outputs(task, recorder))
        except BuildError as problem:
            return _End(error=str(problem), cause=FailureCause.BUILD)
        except (EngineError, OSError, subprocess.SubprocessError) as problem:
            return _End(error=str(problem))
        except CommandError as problem:
            return _End(error=recorder.error() or _command_error(problem))

    def _outputs(self, task: Task, recorder: Recorder) -> dict[str, str]:
        """The outputs of the stack after the operation, and under `recovered` what a killed run had left."""
        config = self.config
        refuse_after_term(config.data)
        place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
        notes = recover(config, task.stack)
        resident = (self._resident, task.resident) if task.resident is not None else None
        with _scratch(config.scratch(task.stack)), self._secrets(task) as secrets:
            outputs = _TaskRun(
                config, task, recorder, command=self._command, secrets=secrets, resident=resident
            ).perform()
        return outputs | ({"recovered": "; ".join(notes)} if notes else {})

    def _changes(self, task: Task, recorder: Recorder, *, ok: bool) -> tuple[ResourceChange, ...]:
        if task.spec is None:
            return recorder.changes()
        changes = explain(self.config, task.spec, recorder.changes())
        if task.operation is Operation.UP and ok:
            with suppress(OSError):  # without it the next change is described with fewer values
                keep_shown(self.config, task.spec)
        return changes

    @contextmanager
    def _secrets(self, task: Task) -> Iterator[Secrets]:
        """The secrets service of the task's stack. The engine's own one starts with the first task that needs it, and
        gives each task a token. The resident engine has the key itself.
        """
        if self.config.secrets == "vault" or (task.resident is not None and not self.config.backend):
            yield Secrets(self.config)
            return
        if self._transit is None:
            self._transit = TransitService(TransitKey.load(self.config.key_file)).__enter__()
        with self._transit.grant() as token:
            yield Secrets(self.config, url=self._transit.url, token=token)


@dataclass(frozen=True, slots=True)
class _End:
    """How a task ended. `error` is empty after success. `cause`: where the class of the error says it."""

    outputs: dict[str, str] = field(default_factory=dict)
    error: str = ""
    cause: FailureCause | None = None


@dataclass(frozen=True, slots=True)
class _TaskRun:
    """One task while it runs. `recorder` collects its events. `resident`: the client of the resident engine and its
    socket; None for a command line.
    """

    config: EngineConfig
    task: Task
    recorder: Recorder
    command: Command
    secrets: Secrets
    resident: tuple[Resident, Path] | None

    def perform(self) -> dict[str, str]:
        """Perform the operation and return the stack's outputs.

        In a backend other than a folder, only the operation itself meets a lock, and what the folder has wrong. That is
        put right, and the operation performed once more.
        """
        self._learn_first()
        for _ in range(_CORRECTIONS):
            try:
                return self._operate()
            except CommandError as problem:
                if not self._correct(f"{self.recorder.error()}\n{problem}"):
                    raise
                self.recorder.problems.clear()
        return self._operate()

    def _learn_first(self) -> None:
        """Ask the backend for a stack that the folder does not know; an `up` of a sound one finds out by itself."""
        config, stack = self.config, self.task.stack
        if not config.backend or config.exists(stack):
            return
        if self.task.operation is not Operation.UP or doubted(config, stack):
            self._learn()

    def _correct(self, refusal: str) -> bool:
        """Put right what `refusal` says was wrong; False for anything else."""
        config, stack = self.config, self.task.stack
        if not config.backend:
            return False
        if is_stale(refusal) or is_abandoned(config, stack, refusal):
            self._open().cancel()
            doubt(config, stack)
            return True
        if not _OUTDATED.search(refusal):
            return False
        self._learn()
        return True

    def _learn(self) -> None:
        learn(self.config, self.task.stack, command=self.command, secrets=self.secrets, sound=self.task.sound)

    def _operate(self) -> dict[str, str]:
        match self.task.operation:
            case Operation.UP:
                return self._up()
            case Operation.PREVIEW:
                self._preview()
            case Operation.REFRESH:
                self._refresh(self.recorder)
            case Operation.DESTROY:
                self._destroy()
            case Operation.STATE:
                raise OperationRefused(
                    f"{self.task.stack}: only an operator changes the state alone, the engine does not"
                )
        return {}

    def _up(self) -> dict[str, str]:
        config, task = self.config, self.task
        program = self._program()
        refuse_terminating(config, task.stack)
        if doubted(config, task.stack):
            self._refresh(Recorder())
        abandoned = left_over(begun(config, task.stack), task.spec) if task.spec else []
        stack = self._open(program)
        with self._begun_objects():
            result = stack.up(on_event=self.recorder.on_event, show_secrets=False, **QUIET)
            delete_objects(config, task.stack, abandoned)
        return {name: str(output.value) for name, output in result.outputs.items() if not output.secret}

    @contextmanager
    def _begun_objects(self) -> Iterator[None]:
        """Note the begun objects around the run. The note stays when the run's end was not seen, since the state may
        then be incomplete.
        """
        config, task = self.config, self.task
        if task.spec is not None and config.skip_checkpoints:
            begin(config, task.spec)
        before = _write_time(config.state_file(task.stack))
        try:
            yield
            finish(config, task.stack)
            compact(config, task.stack)
        except (CommandError, OperationRefused, BuildError):
            # a refusal in the middle is an orderly end: the state was written after it
            if self.recorder.finished and _write_time(config.state_file(task.stack)) != before:
                finish(config, task.stack)
            raise
        finally:
            prune_history(config, task.stack)

    def _preview(self) -> None:
        program = self._program()
        existed = self.config.exists(self.task.stack)
        try:
            self._open(program).preview(on_event=self.recorder.on_event, **QUIET)
        finally:
            if not existed:
                self._forget()

    def _refresh(self, recorder: Recorder) -> None:
        config, stack = self.config, self.task.stack
        if not config.exists(stack):
            raise OperationRefused(f"there is no stack {stack}")
        try:
            self._open().refresh(on_event=recorder.on_event, show_secrets=False, **QUIET)
            trust(config, stack)
            compact(config, stack)
        finally:
            prune_history(config, stack)

    def _destroy(self) -> None:
        """Delete everything that the stack holds, then what its state has lost, then the stack itself with its
        folder.
        """
        config, stack = self.config, self.task.stack
        if doubted(config, stack):
            self._refresh(self.recorder)
        refuse_after_term(config.data)  # a refresh may have taken long
        if config.exists(stack):
            try:
                self._open().destroy(on_event=self.recorder.on_event, show_secrets=False, **QUIET)
            except CommandError:
                doubt(config, stack)  # with skipped checkpoints the deleted objects are unknown
                raise
        refuse_after_term(config.data)
        if sweep_namespace(config, stack):
            self.recorder.record(ResourceChange("delete", "kubernetes:core/v1:Namespace", stack))
        self._forget()

    def _program(self) -> Program:
        config, spec = self.config, self.task.spec
        if spec is None or spec.namespace != self.task.stack:
            raise OperationRefused(f"{self.task.operation} of {self.task.stack} needs the LeaseSpec of the same lease")
        if config.policies:
            check(spec, config.choices)
        return lambda: lease_program(config, spec)

    def _open(self, program: Program | None = None) -> Stack:
        """The stack, created if needed. `program` None: for operations that need none."""
        return open_stack(
            self.config,
            self.task.stack,
            command=self.command,
            secrets=self.secrets,
            program=program,
            resident=self.resident,
        )

    def _forget(self) -> None:
        """Remove the stack with its folder."""
        config, stack = self.config, self.task.stack
        if config.backend and config.exists(stack):
            self._open().workspace.remove_stack(stack)
        shutil.rmtree(config.folder(stack), ignore_errors=True)


@contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """An empty private folder that is removed afterwards, with anything that a killed run left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_time(state: Path) -> int:
    """The time of the last write in nanoseconds; 0 for no file."""
    try:
        return state.stat().st_mtime_ns
    except OSError:
        return 0


def _command_error(error: CommandError) -> str:
    """The command line's stderr (`create_command_error` keeps it as text), else all its output."""
    text = str(error)
    shown = text.partition("stderr:")[2].strip() or text.strip()
    code = text.partition("code:")[2].split("\n", 1)[0].strip()
    if code.startswith("-"):
        return f"the Pulumi command line was ended by signal {code[1:]}"
    return with_short_names(shown)[-4000:]
