"""The cluster stack: `pulumi up` on the checkout's `Pulumi.yaml` with the stock CLI, as an operator runs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devnet.errors import DevnetError

__all__ = ["ClusterStack"]

Line = Callable[[str], None]
_STOP_S = 15.0


@dataclass(frozen=True)
class ClusterStack:
    """`env` has PATH, PULUMI_HOME and KUBECONFIG. State, key and configuration are in `data`, not in the checkout."""

    checkout: Path
    data: Path
    env: Mapping[str, str]
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    """The settings of `Pulumi.yaml`'s program that differ from their defaults."""

    async def up(self, line: Line) -> Mapping[str, Any]:
        """Create or update the stack, and pass each line of Pulumi's output to `line`; returns the stack's outputs."""
        self.data.mkdir(parents=True, exist_ok=True)
        key = self.data / "passphrase"
        if not key.exists():
            key.write_text("devnet")
        config = ("--config-file", str(self.data / f"Pulumi.{self.name}.yaml"))
        await self._create()
        await self._pulumi("up", "--yes", "--skip-preview", "--stack", self.name, *config, line=line)
        printed: list[str] = []
        await self._pulumi("stack", "output", "--json", "--stack", self.name, line=printed.append)
        outputs: Mapping[str, Any] = json.loads("\n".join(printed))
        return outputs

    async def destroy(self, line: Line) -> None:
        """Remove what the stack has made, except what it leaves on purpose."""
        config = ("--config-file", str(self.data / f"Pulumi.{self.name}.yaml"))
        await self._pulumi("destroy", "--yes", "--skip-preview", "--stack", self.name, *config, line=line)

    async def _create(self) -> None:
        """Create the stack. Pulumi writes the configuration into the checkout, from where it is moved to `data`."""
        await self._pulumi("stack", "select", "--create", self.name, line=lambda _: None)
        written = self.checkout / f"Pulumi.{self.name}.yaml"
        if written.exists():
            shutil.move(written, self.data / written.name)
        if self.config:
            self._configure(self.data / written.name)

    def _configure(self, file: Path) -> None:
        """Add the settings to the file that Pulumi wrote."""
        found = (yaml.safe_load(file.read_text()) if file.exists() else None) or {}
        file.write_text(yaml.safe_dump({**found, "config": {**(found.get("config") or {}), **self.config}}))

    def _backend(self) -> dict[str, str]:
        key = str(self.data / "passphrase")
        own = {"PULUMI_BACKEND_URL": f"file://{self.data}", "PULUMI_CONFIG_PASSPHRASE_FILE": key}
        return own | {"TMPDIR": str(self.data)}  # the Kubernetes plugin leaves a kubeconfig there at every start

    async def _pulumi(self, *arguments: str, line: Line) -> None:
        process = await asyncio.create_subprocess_exec(
            "pulumi", "--non-interactive", "--color", "never", *arguments,
            cwd=self.checkout,
            env={**self.env, **self._backend()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None  # noqa: S101  (PIPE was asked for)
        lines: list[str] = []
        try:
            async for raw in process.stdout:
                lines.append(raw.decode(errors="replace").rstrip())
                line(lines[-1])
        except BaseException:
            await _stop(process)
            raise
        if await process.wait():
            raise DevnetError(f"pulumi {' '.join(arguments[:2])} failed:\n" + "\n".join(lines[-20:]))


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Interrupt Pulumi, and kill it if it does not end in time."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.communicate(), _STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()
