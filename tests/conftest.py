"""Fixtures that every test may use: the tools, and one control plane a test session."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from devnet.controlplane import ControlPlane
from devnet.errors import DevnetError
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, Toolbox, ensure_tools
from tests.world.patience import PATIENCE_S
from tests.world.processes import ending_processes
from tests.world.virtual import VirtualLoop

hypothesis.settings.register_profile("lessor", deadline=None)  # a noisy machine is no finding
hypothesis.settings.load_profile("lessor")

# Hundreds of children (daemons, workers, commands) would each compile the whole checkout again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# `nohup make test &` ignores these signals, also in each child; tests send them to themselves and to children.
for _number, _handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# No control plane outlives the test run, however a test or its worker ends (xdist starts its workers as children).
os.environ["LESSOR_DEVNET_OWNER"] = str(os.getppid() if os.environ.get("PYTEST_XDIST_WORKER") else os.getpid())


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A virtual loop for a test marked `virtual_time`; `real_time` at the test outweighs the mark of its module."""
    times = (mark.name for mark in item.iter_markers() if mark.name in ("virtual_time", "real_time"))
    return {"virtual": VirtualLoop} if next(times, "") == "virtual_time" else {"real": asyncio.new_event_loop}


@dataclass(frozen=True)
class DevnetCluster:
    """The control plane of this session; other tests use it at the same time, so keep to names of your own."""

    plane: ControlPlane
    toolbox: Toolbox

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    @property
    def api_server(self) -> str:
        return self.plane.api_server

    def env(self) -> dict[str, str]:
        """For child processes: PATH, PULUMI_HOME (if the engine is built), KUBECONFIG."""
        return self.plane.env()

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """stdout of `kubectl args`; fails the test with its stderr unless `check` is false."""
        argv = [str(self.toolbox.program("kubectl")), *args]
        done = subprocess.run(
            argv, env=self.env(), input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if check and done.returncode:
            pytest.fail(f"kubectl {' '.join(args)}: {done.stderr}")
        return done.stdout

    async def kubectl_async(self, *args: str, stdin: str | None = None) -> str:
        """The same from a coroutine."""
        return await asyncio.to_thread(self.kubectl, *args, stdin=stdin)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long value is named by its length and digest, since every worker sends every name to the controller."""
    if isinstance(val, str | bytes) and len(val) > 80:
        raw = val.encode(errors="surrogatepass") if isinstance(val, str) else val
        return f"{argname}-{len(val)}-{hashlib.sha256(raw).hexdigest()[:8]}"
    return None


def pytest_collection_finish() -> None:
    """Take what the session keeps out of the collections of garbage, which cost a tenth of the processor time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _processes_end_with_their_test() -> Iterator[None]:
    with ending_processes():
        yield


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    """All tools, Pulumi with its plugin and the resident engine included; a test that needs them fails with the remedy
    when they are missing.
    """
    return _tools()


_ALL = (*CONTROL_PLANE, *ENGINE, *NODE)
"""What `make tools` builds."""


def _tools(names: tuple[str, ...] = _ALL) -> Toolbox:
    try:
        return ensure_tools(names, build=False)
    except DevnetError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def devnet_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevnetCluster]:
    """One control plane for all workers of the session; the last to finish stops it, and so does the death of all."""
    base = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent  # what the workers of one session have in common
    try:
        tools = _tools()
    except pytest.fail.Exception:
        tools = _tools(CONTROL_PLANE)  # enough for tests that start no Pulumi
    with ControlPlane.share(base / "controlplane", tools) as plane:
        yield DevnetCluster(plane, tools)


@pytest.fixture
def unique_name() -> str:
    """A fresh DNS label, for namespaces and for whatever else has one cluster-wide name."""
    return f"t-{secrets.token_hex(5)}"


@pytest.fixture
def unique_address() -> str:
    """An address for a leased IP that no other test has, from the range for benchmarks (RFC 2544). Never dial it."""
    return f"198.18.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"


@pytest.fixture
def namespace(devnet_cluster: DevnetCluster, unique_name: str) -> Iterator[str]:
    """A fresh namespace; its removal is asked for at the end, not awaited (it takes at least five seconds)."""
    devnet_cluster.kubectl("create", "namespace", unique_name)
    yield unique_name
    devnet_cluster.kubectl("delete", "namespace", unique_name, "--wait=false", "--ignore-not-found", check=False)
