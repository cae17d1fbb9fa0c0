"""The versions of programs, read from the programs themselves with a time limit and a lenient parser."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

from devnet.tools.recipes import Tool

__all__ = ["Version", "new_enough", "parse", "probe", "shown"]

Version = tuple[int, int, int]

_PATTERN = re.compile(r"(?<![\d.])v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
_TIMEOUT_S = 20


def parse(text: str) -> Version | None:
    """The first dotted number in a program's output: `etcd Version: 3.6.16` → (3, 6, 16); None if there is none."""
    match = _PATTERN.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def shown(version: Version | None) -> str:
    """`1.36.3`; empty for None."""
    return ".".join(map(str, version)) if version else ""


def _answer(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout or done.stderr


def probe(tool: Tool, program: Path) -> Version | None:
    """The version of the program; None if it does not run, hangs, or prints no version."""
    if tool.module:
        lines = _answer(["go", "version", "-m", str(program)]).splitlines()
        return next((parse(line.split()[2]) for line in lines if _names(line, tool.module)), None)
    if tool.plugin:
        return parse(_plugin_answer(program))
    return parse(_answer([str(program), *tool.version_args]))


def _plugin_answer(program: Path) -> str:
    """The version text of a Pulumi plugin, which is started and prints its port as its first line."""
    argv = [str(program), "127.0.0.1:1"]  # the engine's address, which is not called
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    with process:
        limit = threading.Timer(_TIMEOUT_S, process.kill)
        limit.start()
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            return _plugin_info(int(port)) if port.isdecimal() else ""
        finally:
            limit.cancel()
            process.kill()


def _plugin_info(port: int) -> str:
    """The answer of `GetPluginInfo`. The version is its only field and can be read without the message class."""
    import grpc  # noqa: PLC0415  takes 0.1 s, needed only here

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = channel.unary_unary("/pulumirpc.ResourceProvider/GetPluginInfo", bytes, bytes)
        try:
            answer: bytes = ask(b"", timeout=_TIMEOUT_S)
        except grpc.RpcError:
            return ""
    return answer.decode(errors="replace")


def _names(line: str, module: str) -> bool:
    """Whether a line of `go version -m` is about `module`: `dep go.universe.tf/metallb v0.15.2 h1:…`."""
    fields = line.split()
    return len(fields) > 2 and fields[0] in ("dep", "mod") and fields[1] == module


def new_enough(tool: Tool, version: Version | None) -> bool:
    """Whether a program on PATH may be used in place of the devnet's own build."""
    if tool.minimum is None:
        return True
    if version is None:
        return False
    return version == tool.minimum if tool.exact else version >= tool.minimum
