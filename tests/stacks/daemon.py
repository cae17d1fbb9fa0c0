"""A daemon to be killed: reads an engine's configuration and a spec from stdin, one a line, and applies the spec."""

from __future__ import annotations

import asyncio
import sys

from lease.spec import LeaseSpec
from stacks.engine import EngineConfig, PulumiEngine


async def main() -> None:
    config = EngineConfig.model_validate_json(sys.stdin.readline())
    spec = LeaseSpec.from_json(sys.stdin.readline())
    result = await PulumiEngine(config).up(spec)
    print(result.ok, result.error, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
