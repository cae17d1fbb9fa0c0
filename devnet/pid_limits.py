"""How many processes a pod may have on each node of a cluster (the kubelet's `podPidsLimit`).

A pod has no field for it, so a lease cannot be limited from outside its node: without the kubelet's limit one tenant
can take all process ids of a node. The kubelet tells its limit through the API server's proxy of the node. The right to
use that proxy also lets its holder run commands in every pod of the node, so the provider's account does not have it,
and the operator's own kubeconfig is used here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["pid_problems"]

_ANSWER_S = 15.0
_AT_ONCE = 8
_SHOWN = 200
_LIMIT = 4096
_REMEDY = f"set podPidsLimit in the kubelet's configuration, for example to {_LIMIT}"


def pid_problems(kubeconfig: Path, *, kubectl: str = "kubectl") -> tuple[str, ...]:
    """One line for each node that takes tenants and has no limit, or whose limit cannot be read."""

    def ask(*arguments: str) -> str:
        command = [kubectl, "--kubeconfig", str(kubeconfig), "--request-timeout", f"{_ANSWER_S:.0f}s", *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True, timeout=2 * _ANSWER_S).stdout

    def problem(node: str) -> str:
        try:
            return _problem(node, ask("get", "--raw", f"/api/v1/nodes/{node}/proxy/configz"))
        except (OSError, subprocess.SubprocessError) as error:
            return f"node {node}: its podPidsLimit cannot be read: {_text(error)}"

    try:
        nodes = _names(ask("get", "nodes", "--selector", "akash.network=true", "--output", "name"))
    except (OSError, subprocess.SubprocessError) as error:
        return (f"{kubeconfig}: the nodes cannot be listed: {_text(error)}",)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(filter(None, pool.map(problem, nodes)))


def _names(listed: str) -> Sequence[str]:
    return sorted(line.removeprefix("node/") for line in listed.split())


def _problem(node: str, answer: str) -> str:
    try:
        limit = json.loads(answer)["kubeletconfig"].get("podPidsLimit", -1)
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"node {node}: its podPidsLimit cannot be read: the kubelet's answer has another form"
    if isinstance(limit, int) and limit > 0:
        return ""
    return (
        f"node {node}: a pod may have any number of processes, so that one tenant can take all of the node: {_REMEDY}"
    )


def _text(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) and error.stderr else str(error)
    return " ".join(said.split())[:_SHOWN]
