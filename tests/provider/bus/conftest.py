"""One Redis for the tests of the bus; those that harm it start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.world.redis_server import RedisServer, a_redis


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with a_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server
