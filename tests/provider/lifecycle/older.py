"""A Lessor of before: this checkout's builder with older ways, in a process of its own with its own engine.

What it leaves behind is a golden cluster: real objects, the state of a real stack, made by code that is not here.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from lease.spec import BUILDER_VERSION, LeaseSpec
from stacks.engine import EngineConfig

__all__ = ["OLDER", "older_builder", "run_older"]

OLDER = BUILDER_VERSION - 1
_CHECKOUT = Path(__file__).parents[3]

_WAYS = {
    "components/workload.py": """
_todays_workload = workload_object


def workload_object(spec, service):
    made = _todays_workload(spec, service)
    pod = made["spec"]["template"]
    pod["metadata"]["annotations"] = {"lessor.example/made-by": "an older one"}
    pod["metadata"]["labels"]["lessor.example/tier"] = "tenant"
    pod["spec"]["terminationGracePeriodSeconds"] = 5
    pod["spec"]["securityContext"] = {"runAsNonRoot": False, "fsGroup": 2000}
    pod["spec"]["containers"][0].setdefault("env", []).append({"name": "OLD", "value": "hunter22"})
    made["metadata"]["labels"]["lessor.example/old"] = "true"
    if made["kind"] == "StatefulSet":
        made["spec"] |= {"serviceName": "old-headless", "revisionHistoryLimit": 3, "podManagementPolicy": "Parallel"}
        claims = made["spec"]["volumeClaimTemplates"]
        for claim in claims:
            claim["metadata"]["labels"] = {"lessor.example/old": "true"}
        claims.reverse()
    return made
""",
    "components/service.py": """
_todays_services = service_objects


def service_objects(spec, service):
    made = _todays_services(spec, service)
    for each in made:
        each["metadata"]["labels"]["lessor.example/old"] = "true"
        each["spec"]["sessionAffinity"] = "ClientIP"
    return made
""",
    "components/isolation.py": """
_todays_policies = isolation_objects


def isolation_objects(spec):
    first, *others = _todays_policies(spec)
    first["spec"]["egress"] = [{}]
    made = [dict(first, metadata=first["metadata"] | {"name": "an-old-name"}), first]
    return (*made, *others)
""",
    "policies/judge.py": """

def judge(*anything, **more):
    return ()
""",
    "components/hostname.py": """
_todays_route = hostname_object


def hostname_object(spec, hostname):
    made = _todays_route(spec, hostname)
    made["metadata"].setdefault("annotations", {})["lessor.example/old"] = "true"
    return made
""",
}

_UP = """
import asyncio, pathlib, sys
import components.workload
from lease.spec import BUILDER_VERSION, LeaseSpec
from stacks.engine import EngineConfig, PulumiEngine

async def main():
    spec = LeaseSpec.from_json(sys.stdin.read())
    assert spec.builder_version == BUILDER_VERSION, components.workload.__file__
    engine = PulumiEngine(EngineConfig.model_validate_json(sys.argv[1]))
    try:
        result = await engine.up(spec)
    finally:
        await engine.close()
    sys.exit(0 if result.ok else result.error)

if __name__ == "__main__":
    asyncio.run(main())
"""


def older_builder(folder: Path) -> Path:
    """A copy of what builds and applies, with older ways and their number."""
    code = folder / "older"
    for package in ("lease", "components", "policies", "stacks"):
        shutil.copytree(_CHECKOUT / package, code / package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, ways in _WAYS.items():
        with (code / module).open("a") as stream:
            stream.write(ways)
    spec = code / "lease/spec.py"
    text = spec.read_text()
    assert f"BUILDER_VERSION = {BUILDER_VERSION}\n" in text
    spec.write_text(text.replace(f"BUILDER_VERSION = {BUILDER_VERSION}\n", f"BUILDER_VERSION = {OLDER}\n"))
    (code / "up.py").write_text(_UP)
    return code


async def run_older(code: Path, config: EngineConfig, spec: LeaseSpec) -> None:
    """Apply `spec` (with the older number) as that Lessor does, and end it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "up.py", config.model_dump_json(),
        cwd=code, env={"PATH": "/usr/bin:/bin", "HOME": str(code), "PYTHONPATH": str(code)},
        stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, problem = await asyncio.wait_for(process.communicate(spec.canonical_json().encode()), 120)
    assert process.returncode == 0, problem.decode()
