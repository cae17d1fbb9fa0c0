"""Runs stock command lines for tests and measurements: one process an operation, with the SDK's own language server.

`python -m tests.stacks.broker.driver` reads tasks from stdin, a line of JSON each, and answers a line each:
    {"operation": "up", "stack": NAME, "spec": LeaseSpec as JSON or null, "folder": PATH, "kubeconfig": PATH,
     "environment": {...}}  ->  {"code": 0, "seconds": 0.4, "cpu": 0.3, "text": "...", "steps": {"create": 5}}
One task at a time; several drivers run side by side.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2_grpc

from components.resources.lease import LeaseComponent
from components.resources.manifest import ClusterProvider
from lease.spec import LeaseSpec

PROJECT = "lease"


def program(task: dict[str, Any]) -> Callable[[], None]:
    def register() -> None:
        spec = LeaseSpec.from_json(task["spec"])
        cluster = ClusterProvider("cluster", kubeconfig=task["kubeconfig"])
        options = pulumi.ResourceOptions(provider=cluster)
        LeaseComponent(spec.namespace, spec, options)
        for extra in task.get("extra") or ():
            kind = f"kubernetes:{extra['apiVersion']}:{extra['kind']}"
            pulumi.CustomResource(kind, extra["metadata"]["name"], extra, options)

    return register


def prepare(folder: Path, stack: str) -> None:
    """A stack without `stack init`: the command line fills in the rest."""
    state = folder / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"
    if state.exists():
        return
    state.parent.mkdir(parents=True)
    (folder / ".pulumi" / "meta.yaml").write_text("version: 1\n")
    (folder / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\n")
    checkpoint = {"version": 3, "checkpoint": {"stack": f"organization/{PROJECT}/{stack}"}}
    state.write_text(json.dumps(checkpoint))


def run(task: dict[str, Any]) -> dict[str, Any]:
    folder, stack = Path(task["folder"]), task["stack"]
    prepare(folder, stack)
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageServer(program(task)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    log = folder / "events"
    log.unlink(missing_ok=True)
    argv = ["pulumi", "--non-interactive", task["operation"], "-s", stack]
    argv += ["--yes", "--skip-preview"] if task["operation"] != "preview" else []
    argv += [f"--client=127.0.0.1:{port}", "--exec-kind", "auto.inline", "--event-log", str(log)]
    argv += ["--suppress-outputs", "--color", "never", "--suppress-progress"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, **task["environment"], "PULUMI_BACKEND_URL": f"file://{folder}?metadata=skip"},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    server.stop(0)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = done.stdout + done.stderr
    return {"code": done.returncode, "seconds": seconds, "cpu": cpu, "text": text, "steps": steps(log)}


def steps(log: Path) -> dict[str, int]:
    """How many resources of Kubernetes had which step."""
    counted: Counter[str] = Counter()
    for line in log.read_text().splitlines() if log.exists() else ():
        metadata = (json.loads(line).get("resOutputsEvent") or {}).get("metadata") or {}
        if str(metadata.get("type", "")).startswith("kubernetes:"):
            counted[metadata["op"]] += 1
    return dict(counted)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
