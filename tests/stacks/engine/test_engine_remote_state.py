"""States in Pulumi's own backends for PostgreSQL and S3, each on a real server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stacks.common import EngineConfig
from stacks.engine import PulumiEngine
from tests.stacks.leases import small
from tests.world.postgresql_server import a_postgresql

S3 = "LESSOR_TEST_S3_BACKEND"


@pytest.fixture(params=["postgresql", "s3"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a backend. S3 is the tester's: a local server, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""
    if request.param == "postgresql":
        with a_postgresql() as server:
            yield f"postgres://lessor@127.0.0.1:{server.port}/postgres?sslmode=disable"
    elif url := os.environ.get(S3):
        yield url
    else:
        pytest.skip(f"{S3} names no bucket of a local S3 server")


@pytest.mark.devnet
@pytest.mark.long
async def test_a_stack_is_made_updated_and_destroyed_and_its_state_is_nowhere_else(
    config: EngineConfig, client: object, backend: str
) -> None:
    spec = small()
    first = PulumiEngine(config.model_copy(update={"backend": backend}))
    made = await first.up(spec)
    assert made.ok, made.error
    await first.close()
    assert not config.state_file(spec.namespace).exists()
    second = PulumiEngine(config.model_copy(update={"backend": backend}))
    updated = await second.up(small("nginx:2", lease=spec.lease))
    assert updated.ok, updated.error
    assert updated.summary.get("create", 0) == 0 and updated.summary.get("update", 0) >= 1, updated.summary
    gone = await second.destroy(spec.namespace)
    assert gone.ok, gone.error
    await second.close()
