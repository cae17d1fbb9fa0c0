"""A daemon to be killed: the engine with the smallest lease loop. `python -m tests.laws.killmatrix.daemon`.

The first line of stdin is the engine's configuration. Each further line is what the chain would say: a lease's spec
that is to run, the name of a stack that is to be gone, or several of these at once. It is tried until the cluster
agrees; then one line of JSON goes to stdout, with what every attempt said.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from lease.spec import LeaseSpec
from stacks.common.results import StackResult
from stacks.engine import EngineConfig, PulumiEngine

__all__ = ["main"]

PAUSE_S = 0.1
ATTEMPTS = 40


async def main() -> None:
    """Until stdin ends."""
    engine = PulumiEngine(EngineConfig.model_validate_json(sys.stdin.readline()))
    await engine.start()
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await _reconcile(engine, json.loads(line))), flush=True)
    await engine.close()


async def _reconcile(engine: PulumiEngine, order: dict[str, Any]) -> dict[str, Any]:
    said: list[str] = []
    if "all" in order:
        answers = await asyncio.gather(*(_reconcile(engine, each) for each in order["all"]))
        return {
            "ok": all(answer["ok"] for answer in answers),
            "said": [one for each in answers for one in each["said"]],
        }
    for _ in range(ATTEMPTS):
        result = await _once(engine, order)
        if result.ok:
            break
        said.append(result.error)
        await asyncio.sleep(PAUSE_S)
    return {"ok": result.ok, "said": said, "workers": engine.worker_pids()}


async def _once(engine: PulumiEngine, order: dict[str, Any]) -> StackResult:
    if "spec" in order:
        return await engine.up(LeaseSpec.from_json(order["spec"]))
    return await engine.destroy(order["gone"])


if __name__ == "__main__":
    asyncio.run(main())
