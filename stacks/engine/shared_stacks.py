"""Stacks that several machines may work on, one at a time: the list of them, and notes around each operation."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from threading import Lock

from stacks.common.begun_objects import names_of, note_of
from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import EngineError
from stacks.common.files import write_private
from stacks.common.notes import StackNote, StackNotes
from stacks.common.results import Operation
from stacks.common.wire import Task

__all__ = ["NotedStacks", "backend_variables", "listed_stacks"]

_LIST_S = 120.0


async def listed_stacks(config: EngineConfig, inherited: Mapping[str, str]) -> frozenset[str]:
    """The names of the lease stacks in `config.backend`, as Pulumi lists them. Raises `EngineError`."""
    argv = [str(config.pulumi), "stack", "ls", "--all", "--json", "--project", PROJECT, "--non-interactive"]
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env={**inherited, **backend_variables(config)}, cwd="/"
        )
    except OSError as error:
        raise EngineError(f"the stacks cannot be listed: {config.pulumi} cannot be run: {error.strerror}") from None
    try:
        async with asyncio.timeout(_LIST_S):
            said, errors = await process.communicate()
    except BaseException as error:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise EngineError(f"the stacks cannot be listed: no answer within {_LIST_S:g} s") from None
        raise
    if process.returncode:
        raise EngineError(f"the stacks cannot be listed: {errors.decode(errors='replace').strip()[-500:]}")
    return _names(said)


def backend_variables(config: EngineConfig) -> dict[str, str]:
    """What a command line needs to read the states in `config.backend`."""
    return {
        "PULUMI_BACKEND_URL": config.backend,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(config.key_file),
        **({"PULUMI_HOME": str(config.pulumi_home)} if config.pulumi_home else {}),
    }


def _names(said: bytes) -> frozenset[str]:
    """Names of stacks in the list; a qualified one is `organization/project/name`. Raises `EngineError`."""
    try:
        return frozenset(str(item["name"]).rpartition("/")[2] for item in json.loads(said))
    except (ValueError, LookupError, TypeError):
        raise EngineError("the stacks cannot be listed: Pulumi's list has an unknown form") from None


class NotedStacks:
    """The notes as the engine on this machine keeps them."""

    def __init__(self, config: EngineConfig, notes: StackNotes) -> None:
        self._config, self._notes = config, notes
        self._naming = Lock()

    async def begin(self, task: Task) -> Task:
        """Give the stack's folder what other machines know, note that the operation begins here, and return the task
        with what the worker has to know. Raises `EngineError`.
        """
        config, stack = self._config, task.stack
        note = await self._notes.read(stack)
        machine = await asyncio.to_thread(self._machine)
        if note is None or note.machine != machine:
            await asyncio.to_thread(self._take_over, stack, note.begun if note else "")
        begun = note.begun if note else ""
        if task.spec is not None and task.operation is Operation.UP and config.skip_checkpoints:
            begun = note_of(names_of(begun), task.spec)
        sound = note is not None and note.sound
        unchanged = task.operation is Operation.PREVIEW and sound
        await self._notes.write(stack, StackNote(machine, unchanged, begun))
        return task.model_copy(update={"sound": sound})

    async def end(self, stack: str) -> None:
        """Note how the operation ended, by what its folder says. Raises `EngineError`."""
        machine, begun, exists, doubted = await asyncio.to_thread(self._ended, stack)
        if exists or begun:
            await self._notes.write(stack, StackNote(machine, not begun and not doubted, begun))
        else:
            await self._notes.forget(stack)

    def _take_over(self, stack: str, begun: str) -> None:
        """Forget what this folder knows of the stack, and write what another machine had begun."""
        config = self._config
        for file in (config.settings_file(stack), config.doubt_file(stack), config.begun_file(stack)):
            file.unlink(missing_ok=True)
        if begun:
            config.folder(stack).mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(config.begun_file(stack), begun)

    def _ended(self, stack: str) -> tuple[str, str, bool, bool]:
        config, begun = self._config, ""
        with suppress(OSError, ValueError):
            begun = config.begun_file(stack).read_text()
        return self._machine(), begun, config.exists(stack), config.doubt_file(stack).exists()

    def _machine(self) -> str:
        """The name of this data folder, made once. Several first operations ask at the same time, in threads."""
        file = self._config.machine_file
        with self._naming:
            with suppress(OSError):
                if name := file.read_text("ascii").strip():
                    return name
            name = f"{os.uname().nodename[:40]}-{token_hex(8)}"
            write_private(file, name)
            return name
