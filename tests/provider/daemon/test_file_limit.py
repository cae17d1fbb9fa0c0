"""Open files: the limit that the provider gives itself, and what it keeps from the connections of strangers."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from provider.daemon.file_limit import within_file_limit
from provider.settings import Settings


@pytest.mark.parametrize(
    ("limit", "rest", "grpc"), [(65_536, 4096, 128), (4_992, 4096, 128), (1_024, 468, 14), (256, 8, 8)]
)
def test_connections_leave_a_reserve_of_descriptors_to_the_provider(limit: int, rest: int, grpc: int) -> None:
    found = within_file_limit(Settings(), limit)
    assert (found.gateway_connections, found.gateway_grpc_connections) == (rest, grpc)
    assert limit < 600 or found.gateway_connections + 3 * found.gateway_grpc_connections <= limit - 512


@pytest.mark.parametrize(("soft", "hard", "raised"), [(256, 4096, 4096), (256, 256, 256)])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, raised: int) -> None:
    program = "from provider.daemon.file_limit import raise_file_limit; print(raise_file_limit())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == raised
