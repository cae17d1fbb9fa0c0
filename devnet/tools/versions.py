"""What version is this program? Asked of the program itself, with a limit, and read leniently."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

from devnet.tools.recipes import Tool

__all__ = ["Version", "new_enough", "parse", "probe", "shown"]

Version = tuple[int, int, int]

_PATTERN = re.compile(r"(?<![\d.])v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
_LIMIT_SECONDS = 20


def parse(text: str) -> Version | None:
    """The first dotted number in a program's answer: `etcd Version: 3.6.16` → (3, 6, 16); None if there is none."""
    match = _PATTERN.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def shown(version: Version | None) -> str:
    """`1.36.3`, or an empty text."""
    return ".".join(map(str, version)) if version else ""


def _answer(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=_LIMIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout or done.stderr


def probe(tool: Tool, program: Path) -> Version | None:
    """Ask the program; None when it does not run, hangs, or says nothing that looks like a version."""
    if tool.module:
        lines = _answer(["go", "version", "-m", str(program)]).splitlines()
        return next((parse(line.split()[2]) for line in lines if _names(line, tool.module)), None)
    if tool.plugin:
        return parse(_ask_plugin(program))
    return parse(_answer([str(program), *tool.version_args]))


def _ask_plugin(program: Path) -> str:
    """Start a Pulumi plugin, which tells its port on its first line, and ask it what it is."""
    argv = [str(program), "127.0.0.1:1"]  # the engine's address; nothing calls it
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    with process:
        limit = threading.Timer(_LIMIT_SECONDS, process.kill)
        limit.start()
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            return _plugin_info(int(port)) if port.isdecimal() else ""
        finally:
            limit.cancel()
            process.kill()


def _plugin_info(port: int) -> str:
    """`GetPluginInfo`; the version is the answer's only field, readable without its message class."""
    import grpc  # noqa: PLC0415  0.1 s that nobody else here needs

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = channel.unary_unary("/pulumirpc.ResourceProvider/GetPluginInfo", bytes, bytes)
        try:
            answer: bytes = ask(b"", timeout=_LIMIT_SECONDS)
        except grpc.RpcError:
            return ""
    return answer.decode(errors="replace")


def _names(line: str, module: str) -> bool:
    """A line of `go version -m` such as `dep go.universe.tf/metallb v0.15.2 h1:…`."""
    fields = line.split()
    return len(fields) > 2 and fields[0] in ("dep", "mod") and fields[1] == module


def new_enough(tool: Tool, version: Version | None) -> bool:
    """Whether a program found on PATH may be used in place of our own build."""
    if tool.minimum is None:
        return True
    if version is None:
        return False
    return version == tool.minimum if tool.exact else version >= tool.minimum
