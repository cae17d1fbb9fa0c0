"""One operation on one stack through the Automation API: open, recover, run, report. Runs in a worker."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pulumi.automation import CommandError, Stack

from components.errors import BuildError
from stacks.common.causes import cause_of
from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError, OperationRefused
from stacks.common.files import place_kubeconfig
from stacks.common.masking import mask, mask_result
from stacks.common.results import FailureCause, Operation, ResourceChange, StackResult
from stacks.common.term import refuse_after_term
from stacks.common.transit import TransitKey, TransitService
from stacks.common.wire import Task
from stacks.worker.begun_objects import begin, begun, finish, left_over
from stacks.worker.change_values import explain, keep_shown
from stacks.worker.cluster import delete_objects, refuse_terminating, sweep_namespace
from stacks.worker.events import Recorder, with_short_names
from stacks.worker.locks import is_stale
from stacks.worker.own_servers import fence_sdk_servers
from stacks.worker.program import check, lease_program
from stacks.worker.resident import Resident
from stacks.worker.sdk import quiet_sdk
from stacks.worker.state import compact, doubt, doubted, prune_history, recover, trust
from stacks.worker.workspace import Command, Program, Secrets, open_stack

__all__ = ["Runner"]

QUIET: Mapping[str, Any] = {"color": "never", "suppress_outputs": True, "suppress_progress": True}


class Runner:
    """Runs tasks, one after another. An error of an operation is part of its result and never raised."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._command = Command(config.pulumi)
        self._transit: TransitService | None = None
        self._secrets = Secrets(config)
        self._resident = Resident()
        self._socket: Path | None = None
        fence_sdk_servers()
        if config.engine != "sdk":
            quiet_sdk()

    def run(self, task: Task) -> StackResult:
        """The result of the task. Errors of the operation, the cluster's state or the spec are never raised."""
        recorder = Recorder()
        outputs: dict[str, str] = {}
        error, cause = "", None
        self._socket = task.resident
        try:
            refuse_after_term(self.config.data)
            place_kubeconfig(self.config.kubeconfig, self.config.kubeconfig_copy)
            notes = recover(self.config, task.stack)
            with _scratch(self.config.scratch(task.stack)), self._service():
                outputs = self._unlocked(task, recorder)
            outputs |= {"recovered": "; ".join(notes)} if notes else {}
        except BuildError as problem:
            error, cause = str(problem), FailureCause.BUILD
        except (EngineError, OSError, subprocess.SubprocessError) as problem:
            error = str(problem)
        except CommandError as problem:
            error = recorder.error() or _last_words(problem)
        result = StackResult(
            operation=task.operation,
            stack=task.stack,
            ok=not error,
            seconds=recorder.seconds(),
            changes=self._changes(task, recorder, ok=not error),
            summary=recorder.summary,
            error=mask(error, task.spec),
            outputs=outputs,
            cause=cause or cause_of(error),
            durations=recorder.durations(),
            spec_hash=task.spec.content_hash() if task.spec else "",
        )
        return mask_result(result, [task.spec]) if task.spec and result.changes else result

    def cancel(self) -> None:
        """Cancel the operation if the resident engine runs it; called from another thread."""
        self._resident.cancel()

    def _unlocked(self, task: Task, recorder: Recorder) -> dict[str, str]:
        """As `_perform`; in another backend than a folder, the lock of a dead run is found when the operation
        meets it.
        """
        try:
            return self._perform(task, recorder)
        except CommandError as problem:
            if not self.config.backend or not is_stale(f"{recorder.error()}\n{problem}"):
                raise
            self._open(task.stack).cancel()
            doubt(self.config, task.stack)
            recorder.problems.clear()
            return self._perform(task, recorder)

    def _changes(self, task: Task, recorder: Recorder, *, ok: bool) -> tuple[ResourceChange, ...]:
        if task.spec is None:
            return recorder.changes()
        changes = explain(self.config, task.spec, recorder.changes())
        if task.operation is Operation.UP and ok:
            with suppress(OSError):  # without it the next change is described with fewer values
                keep_shown(self.config, task.spec)
        return changes

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
            case Operation.STATE:
                raise OperationRefused(f"{task.stack}: only an operator changes the state alone, the engine does not")

    def _up(self, task: Task, recorder: Recorder) -> dict[str, str]:
        program = self._program(task)
        refuse_terminating(self.config, task.stack)
        if doubted(self.config, task.stack):
            self._refresh(task.stack, Recorder())
        abandoned = left_over(begun(self.config, task.stack), task.spec) if task.spec else []
        stack = self._open(task.stack, program)
        with self._noted(task, recorder):
            result = stack.up(on_event=recorder.on_event, show_secrets=False, **QUIET)
            delete_objects(self.config, task.stack, abandoned)
        return {name: str(output.value) for name, output in result.outputs.items() if not output.secret}

    @contextmanager
    def _noted(self, task: Task, recorder: Recorder) -> Iterator[None]:
        """Note the begun objects around the run. The note stays when the run's end was not seen, since the state may
        then be incomplete.
        """
        if task.spec is not None and self.config.skip_checkpoints:
            begin(self.config, task.spec)
        before = _written(self.config.state_file(task.stack))
        try:
            yield
            finish(self.config, task.stack)
            compact(self.config, task.stack)
        except (CommandError, OperationRefused, BuildError):
            # a refusal in the middle is an orderly end: the state was written after it
            if recorder.finished and _written(self.config.state_file(task.stack)) != before:
                finish(self.config, task.stack)
            raise
        finally:
            prune_history(self.config, task.stack)

    def _preview(self, task: Task, recorder: Recorder) -> dict[str, str]:
        program = self._program(task)
        existed = self.config.exists(task.stack)
        try:
            self._open(task.stack, program).preview(on_event=recorder.on_event, **QUIET)
        finally:
            if not existed:
                self._forget(task.stack)
        return {}

    def _refresh(self, stack: str, recorder: Recorder) -> dict[str, str]:
        if not self.config.exists(stack):
            raise OperationRefused(f"there is no stack {stack}")
        try:
            self._open(stack).refresh(on_event=recorder.on_event, show_secrets=False, **QUIET)
            trust(self.config, stack)
            compact(self.config, stack)
        finally:
            prune_history(self.config, stack)
        return {}

    def _destroy(self, stack: str, recorder: Recorder) -> dict[str, str]:
        """Delete everything that the stack holds, then what its state has lost, then the stack itself with its
        folder.
        """
        if doubted(self.config, stack):
            self._refresh(stack, recorder)
        refuse_after_term(self.config.data)  # a refresh may have taken long
        if self.config.exists(stack):
            try:
                self._open(stack).destroy(on_event=recorder.on_event, show_secrets=False, **QUIET)
            except CommandError:
                doubt(self.config, stack)  # with skipped checkpoints the deleted objects are unknown
                raise
        refuse_after_term(self.config.data)
        if sweep_namespace(self.config, stack):
            recorder.record(ResourceChange("delete", "kubernetes:core/v1:Namespace", stack))
        self._forget(stack)
        return {}

    def _program(self, task: Task) -> Program:
        if task.spec is None or task.spec.namespace != task.stack:
            raise OperationRefused(f"{task.operation} of {task.stack} needs the LeaseSpec of the same lease")
        spec = task.spec
        if self.config.policies:
            check(spec, self.config.choices)
        return lambda: lease_program(self.config, spec)

    def _open(self, stack: str, program: Program | None = None) -> Stack:
        return open_stack(
            self.config,
            stack,
            command=self._command,
            secrets=self._secrets,
            program=program,
            resident=(self._resident, self._socket) if self._socket is not None else None,
        )

    def _forget(self, stack: str) -> None:
        if self.config.backend and self.config.exists(stack):
            opened = self._open(stack)
            opened.workspace.remove_stack(stack)
        shutil.rmtree(self.config.folder(stack), ignore_errors=True)

    @contextmanager
    def _service(self) -> Iterator[None]:
        """The engine's secrets service with a token for this operation; the first operation that needs it starts it.
        The resident engine has the key itself.
        """
        if self.config.secrets == "vault" or (self._socket is not None and not self.config.backend):
            yield
            return
        if self._transit is None:
            self._transit = TransitService(TransitKey.load(self.config.key_file)).__enter__()
        with self._transit.grant() as token:
            self._secrets = Secrets(self.config, url=self._transit.url, token=token)
            yield


@contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """An empty private folder that is removed afterwards, with anything that a killed run left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(state: Path) -> int:
    """The time of the last write in nanoseconds; 0 for no file."""
    try:
        return state.stat().st_mtime_ns
    except OSError:
        return 0


def _last_words(error: CommandError) -> str:
    """The command line's stderr (`create_command_error` keeps it as text), else all its output."""
    text = str(error)
    said = text.partition("stderr:")[2].strip() or text.strip()
    code = text.partition("code:")[2].split("\n", 1)[0].strip()
    if code.startswith("-"):
        return f"the Pulumi command line was ended by signal {code[1:]}"
    return with_short_names(said)[-4000:]
