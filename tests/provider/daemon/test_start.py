"""The start of the provider: its listeners are open before the API server and the chain have answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from provider.daemon import startup
from provider.daemon.app import run_provider
from provider.errors import WrongChain
from provider.settings import GatewayForm, Settings
from provider.store import open_database
from provider.store.cursors import save_cursor
from tests.provider.chain.test_nodes import good, unused_address
from tests.provider.chain.world import scripted_node
from tests.provider.daemon.test_backends import WORDS, a_pulumi, place, with_plugin
from tests.world.patience import eventually

__all__ = ["place"]


@pytest.fixture
async def known_chain(place: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a provider that has run on the chain `local`; neither its API server nor its node is there."""
    a_pulumi(place / "bin")
    kubeconfig = place / "kubeconfig"
    kubeconfig.write_text(json.dumps(_KUBECONFIG))
    monkeypatch.setattr(startup, "_NODE_S", 3600.0)
    found = Settings(
        home=place / "lessor",
        kubeconfig=kubeconfig,
        mnemonic=WORDS,
        pulumi_home=with_plugin(place / "pulumi"),
        gateway_listen=unused_address().removeprefix("http://"),
        gateway_grpc_listen="",
        cpu_scale=Decimal(1),
        node=unused_address(),
    )
    database = await open_database(found.database_url)
    await save_cursor(database, "local", height=7, now=2.0)
    await database.close()
    return found


_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": "t"}}],
}


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(run_provider(settings))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def answer(settings: Settings, path: str) -> int:
    """The status of the answer; 0 while nothing listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://{settings.gateway_listen}{path}", ssl=context) as found,
        ):
            return found.status
    except aiohttp.ClientConnectionError:
        return 0


async def test_tenants_are_answered_while_neither_the_api_server_nor_the_node_is_there(known_chain: Settings) -> None:
    with capture_logs() as logs:
        async with running(known_chain) as provider:
            while (found := await answer(known_chain, "/address")) == 0:
                assert not provider.done(), provider
                await asyncio.sleep(0.02)
            assert found == 200
            assert await answer(known_chain, "/status") == 503, "an inventory of nothing would say that nothing is free"
            await eventually(lambda: any(log["event"] == "cluster.unreachable" for log in logs))
    assert "provider.ready" not in {log["event"] for log in logs}


async def test_a_damaged_database_delays_no_start_and_one_that_is_lost_later_ends_nothing(
    known_chain: Settings,
) -> None:
    settings = known_chain.model_copy(update={"chain_id": "local"})
    path = settings.home / "lessor.db"
    with path.open("r+b") as file:
        file.write(b"This is no database")
    with capture_logs() as logs:
        async with running(settings) as provider:
            while await answer(settings, "/address") != 200:
                assert not provider.done(), provider
                await asyncio.sleep(0.02)
            assert _problems(logs) == ["file is not a database"]
            assert [kept.read_bytes()[:19] for kept in path.parent.glob("lessor.db.damaged-*Z")] == [
                b"This is no database"
            ]
            path.unlink()
            await eventually(lambda: len(_problems(logs)) == 2)
            await eventually(path.exists)
            assert await answer(settings, "/address") == 200 and not provider.done()
    assert _problems(logs)[1] == "the file is gone"


def _problems(logs: Sequence[Mapping[str, object]]) -> list[object]:
    """Why the store was begun anew, each time."""
    return [log["problem"] for log in logs if log["event"] == "store.began_anew"]


async def test_a_gateway_in_a_child_answers_tenants_while_neither_the_api_server_nor_the_node_is_there(
    known_chain: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = known_chain.model_copy(update={"gateway_form": GatewayForm.CHILD})
    variables = {
        "AP_HOME": str(settings.home),
        "KUBECONFIG": str(settings.kubeconfig),
        "AP_NODE": settings.node,
        "AP_GATEWAY_LISTEN_ADDRESS": settings.gateway_listen,
        "LESSOR_MNEMONIC": WORDS,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with capture_logs() as logs:
        async with running(settings) as provider:
            while (found := await answer(settings, "/address")) == 0:
                assert not provider.done(), provider
                await asyncio.sleep(0.02)
            assert found == 200
            assert await answer(settings, "/status") == 503
            assert {"gateway.process_started", "gateway.process_listening"} <= {log["event"] for log in logs}
        assert await answer(settings, "/address") == 0, "the child ends with the provider"


async def test_a_node_of_another_chain_ends_a_provider_that_has_started(known_chain: Settings) -> None:
    async with (
        scripted_node(good(network="other")) as address,
        running(known_chain.model_copy(update={"node": address})) as provider,
    ):
        with pytest.raises(ExceptionGroup) as ended:
            await provider
    assert ended.group_contains(WrongChain)


def test_a_start_loads_no_library_that_only_some_providers_or_later_parts_use() -> None:
    """Each costs every start time and megabytes: DNS brings an HTTP client."""
    unused = (
        "dns", "httpx2", "httpcore2", "h2", "lightkube", "grpc", "jinja2", "redis", "asyncpg", "pulumi", "celery",
        "sqlalchemy.orm",
    )  # fmt: skip
    code = f"import sys, provider.daemon.app; print([name for name in {unused!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
