"""`pulumi up` on the checkout's own `Pulumi.yaml`, with the stock command line, as an operator would."""

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
_STOP_SECONDS = 15.0


@dataclass(frozen=True)
class ClusterStack:
    """`env` has PATH, PULUMI_HOME and KUBECONFIG; state, key and configuration stay in `data`, not in the checkout."""

    checkout: Path
    data: Path
    env: Mapping[str, str]
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `Pulumi.yaml`'s program that differ from their defaults."""

    async def up(self, line: Line) -> Mapping[str, str]:
        """Create or update it, each line of output to `line`; returns the stack's outputs."""
        self.data.mkdir(parents=True, exist_ok=True)
        key = self.data / "passphrase"
        if not key.exists():
            key.write_text("devnet")
        config = ("--config-file", str(self.data / f"Pulumi.{self.name}.yaml"))
        await self._create()
        await self._pulumi("up", "--yes", "--skip-preview", "--stack", self.name, *config, line=line)
        shown: list[str] = []
        await self._pulumi("stack", "output", "--json", "--stack", self.name, line=shown.append)
        outputs: Mapping[str, str] = json.loads("\n".join(shown))
        return outputs

    async def _create(self) -> None:
        """Make the stack. `stack init` takes no --config-file and writes into the checkout: the file is moved out."""
        await self._pulumi("stack", "select", "--create", self.name, line=lambda _: None)
        written = self.checkout / f"Pulumi.{self.name}.yaml"
        if written.exists():
            shutil.move(written, self.data / written.name)
        if self.config:
            self._configure(self.data / written.name)

    def _configure(self, file: Path) -> None:
        """Add the settings to what `stack init` wrote there."""
        found = (yaml.safe_load(file.read_text()) if file.exists() else None) or {}
        file.write_text(yaml.safe_dump({**found, "config": {**(found.get("config") or {}), **self.config}}))

    def _backend(self) -> dict[str, str]:
        key = str(self.data / "passphrase")
        own = {"PULUMI_BACKEND_URL": f"file://{self.data}", "PULUMI_CONFIG_PASSPHRASE_FILE": key}
        return own | {"TMPDIR": str(self.data)}  # the Kubernetes plugin leaves a kubeconfig at every start

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
        said = []
        try:
            async for raw in process.stdout:
                said.append(raw.decode(errors="replace").rstrip())
                line(said[-1])
        except BaseException:
            await _stopped(process)
            raise
        if await process.wait():
            raise DevnetError(f"pulumi {' '.join(arguments[:2])} failed:\n" + "\n".join(said[-20:]))


async def _stopped(process: asyncio.subprocess.Process) -> None:
    """Nothing is made after this: it is asked to stop, and killed when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.communicate(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
