"""The socket between the provider and a gateway process: calls, facts, and what happens when one side is gone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lease.ids import namespace_name
from lease.resources import Price
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError
from provider.claims.leased_ips import AddressClaim
from provider.errors import ChainError, ClusterError, MarketError, SettingsError
from provider.gateway.errors import AuthError, GatewayError, RequestError
from provider.gateway.link.calls import (
    LinkedIntake,
    LinkedMigrations,
    gateway_calls,
    linked_metrics,
    linked_screen,
    linked_status,
)
from provider.gateway.link.client import ProviderLink
from provider.gateway.link.server import Call, LinkServer
from provider.gateway.link.wire import LONGEST, Facts, error_document, is_own_user, raised_error
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.gateway.verdict import Verdict
from provider.inventory.capacity import Card
from provider.lifecycle.lease_claims import NotTransferredError
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import MANIFEST
from tests.provider.gateway.manifests import DSEQ, TENANT, body, lease, rent
from tests.provider.gateway.world import PROVIDER, World, new_world
from tests.provider.market.world import make_spec
from tests.world.patience import PATIENCE_S, eventually

FACTS = Facts(provider=PROVIDER, chain_id="local", certificate="a certificate", key="a private key")
AMOUNTS = Amounts(8000, 1, 32 << 30, 500 << 30, {"beta2": 7})
STATUS = ProviderStatus(
    20,
    3,
    20,
    active=(AMOUNTS,),
    nodes=(NodeAmounts("node", AMOUNTS, AMOUNTS, (Card("nvidia", "a100", "80Gi", "sxm"),), ("beta2",)),),
    storage_bytes={"beta2": 1 << 40},
    braked=2,
)


class Ends:
    """Both ends of a socket; `restart` ends the provider's and starts it again."""

    def __init__(self, path: Path, calls: Mapping[str, Call]) -> None:
        self.path = path
        self.facts = FACTS
        self.calls = dict(calls)
        self.link = ProviderLink(path, SystemClock())
        self.server = self._server()

    def _server(self) -> LinkServer:
        return LinkServer(self.calls, lambda: self.facts)

    async def restart(self) -> None:
        await self.server.stop()
        self.server = self._server()
        await self.server.start(self.path)

    def show(self, **changes: Any) -> None:
        self.facts = self.facts.model_copy(update=changes)
        self.server.changed()


@asynccontextmanager
async def linked(folder: Path, calls: Mapping[str, Call]) -> AsyncIterator[Ends]:
    ends = Ends(folder / "gateway.sock", calls)
    await ends.server.start(ends.path)
    running = asyncio.create_task(ends.link.run())
    try:
        await ends.link.first_facts()
        yield ends
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await ends.server.stop()


async def _none(*_: Any) -> Any:
    raise AssertionError("nobody asks for this")


def calls_of(**given: Any) -> Mapping[str, Call]:
    parts: dict[str, Any] = {"intake": None, "migrations": None, "status": _none, "screen": _none, "metrics": _none}
    return gateway_calls(**parts | given)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = new_world(tmp_path)
    rent(made, body(), lease())
    async with made.running():
        yield made


async def test_a_manifest_that_is_accepted_over_the_socket_is_in_the_cluster(world: World, tmp_path: Path) -> None:
    async with linked(tmp_path, calls_of(intake=world.intake)) as ends:
        intake = LinkedIntake(ends.link)
        await intake.require_lease(TENANT.address, DSEQ)
        await intake.accept_manifest(TENANT.address, DSEQ, body())
        assert await world.cluster.get(MANIFEST, namespace_name(lease()), namespace="lease")


async def test_a_refusal_arrives_with_its_status_and_text(world: World, tmp_path: Path) -> None:
    async with linked(tmp_path, calls_of(intake=world.intake)) as ends:
        with pytest.raises(RequestError) as refused:
            await LinkedIntake(ends.link).accept_manifest(TENANT.address, DSEQ, b"[]")
        direct = pytest.raises(RequestError)
        with direct as expected:
            await world.intake.accept_manifest(TENANT.address, DSEQ, b"[]")
    assert (refused.value.status, refused.value.text) == (expected.value.status, expected.value.text)


CLUSTER = ClusterError("https://api:6443", "no luck", status=500)
ERRORS = [
    RequestError(422, "no", retry_after_s=3),
    AuthError(401, "no"),
    ChainError("http://node", "no"),
    CLUSTER,
    HostnameRefusedError("held"),
    NotTransferredError("a.example.com", CLUSTER),
    MarketError("later"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_at_the_other_end(error: Exception) -> None:
    found = raised_error(json.loads(json.dumps(error_document(error))))
    assert (type(found), str(found)) == (type(error), str(error))
    if isinstance(error, GatewayError):
        assert isinstance(found, GatewayError)
        assert (found.status, found.retry_after_s) == (error.status, error.retry_after_s)


async def test_a_defect_of_the_provider_shows_nothing_of_itself(tmp_path: Path) -> None:
    async def fails(_: Any) -> None:
        raise KeyError("secret")

    with capture_logs() as logs:
        async with linked(tmp_path, {"status": fails}) as ends:
            with pytest.raises(RuntimeError, match="internal error"):
                await ends.link.call("status", {}, seconds=60)
    assert "secret" not in repr(logs)
    assert {"event": "gateway.call_failed", "call": "status", "error": "KeyError", "log_level": "error"} in logs


async def test_a_call_whose_write_fails_is_answered_over_the_next_connection(tmp_path: Path) -> None:
    """The provider goes in the turn of the loop in which the call is written, before the reader hears of the end."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.setblocking(False)
        listening.bind(str(tmp_path / "gateway.sock"))
        listening.listen()
        link = ProviderLink(tmp_path / "gateway.sock", SystemClock())
        running = asyncio.create_task(link.run())
        try:
            first = await accepted(listening)
            await link.first_facts()
            answering = asyncio.create_task(answer_one(listening))
            first.close()
            assert await link.call("status", {}, seconds=PATIENCE_S) == "fine"
            await answering
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_facts_of_thousands_of_leases_in_trouble_arrive(tmp_path: Path) -> None:
    """What is wrong with the API server is wrong with every lease at once."""
    troubles = {f"akash1tenant/{number}/1/1/akash1provider": "x" * 4000 for number in range(2000)}
    async with linked(tmp_path, {}) as ends:
        ends.show(troubles=troubles)
        await eventually(lambda: ends.link.facts is not None and len(ends.link.facts.troubles) == 2000)


async def accepted(listening: socket.socket) -> socket.socket:
    """The next connection, which has got the facts."""
    loop = asyncio.get_running_loop()
    connection, _ = await loop.sock_accept(listening)
    await loop.sock_sendall(connection, json.dumps({"facts": FACTS.model_dump(mode="json")}).encode() + b"\n")
    return connection


async def answer_one(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with await accepted(listening) as connection:
        asked = json.loads(await loop.sock_recv(connection, LONGEST))
        await loop.sock_sendall(connection, json.dumps({"id": asked["id"], "result": "fine"}).encode() + b"\n")


async def test_status_screening_and_metrics_are_the_providers(tmp_path: Path) -> None:
    offered = Verdict(price=Price("uact", Decimal("1.25")), offer=make_spec(count=2).units)
    screened = []

    async def status() -> ProviderStatus:
        return STATUS

    async def screen(spec: Any) -> Verdict:
        screened.append(spec)
        return offered

    async def metrics(accept: str) -> tuple[bytes, str]:
        return b"lessor_x 1\n", accept

    async with linked(tmp_path, calls_of(status=status, screen=screen, metrics=metrics)) as ends:
        assert await linked_status(ends.link, now=lambda: 0.0)() == STATUS
        assert await linked_screen(ends.link)(make_spec(count=2)) == offered
        assert await linked_metrics(ends.link)("text/plain") == (b"lessor_x 1\n", "text/plain")
    assert screened == [make_spec(count=2)]


async def test_claims_that_a_tenant_moves_reach_the_provider_as_they_are(tmp_path: Path) -> None:
    moved: list[Any] = []

    class Migrations:
        async def migrate_hosts(self, *given: Any) -> None:
            moved.append(given)

        async def migrate_ports(self, *given: Any) -> None:
            moved.append(given)
            raise NotTransferredError("x", CLUSTER)

    host, port = HostnameClaim("a.example.com", lease(), "web", 80), AddressClaim(lease(), "web", 80, 80, "TCP", "key")
    async with linked(tmp_path, calls_of(migrations=Migrations())) as ends:
        await LinkedMigrations(ends.link).migrate_hosts(lease(), [host])
        with pytest.raises(NotTransferredError, match="no luck"):
            await LinkedMigrations(ends.link).migrate_ports(lease(), [port])
    assert moved == [(lease(), [host]), (lease(), [port])]


def _held() -> tuple[Callable[..., Awaitable[str]], asyncio.Event, list[str]]:
    """A call that waits for the event when it is called for the first time."""
    go, seen = asyncio.Event(), []

    async def call(_: Any) -> str:
        seen.append("called")
        if len(seen) == 1:
            await go.wait()
        return f"answer {len(seen)}"

    return call, go, seen


async def test_a_call_during_a_restart_of_the_provider_is_sent_again_and_answered(tmp_path: Path) -> None:
    call, _, seen = _held()
    async with linked(tmp_path, {"manifest": call}) as ends:
        asked = asyncio.create_task(ends.link.call("manifest", {}, seconds=240))
        await eventually(lambda: bool(seen))
        await ends.restart()
        assert await asked == "answer 2"


async def test_a_call_without_a_provider_ends_with_503_and_a_time_to_come_back(tmp_path: Path) -> None:
    async with linked(tmp_path, {}) as ends:
        await ends.server.stop()
        with pytest.raises(RequestError) as refused:
            await ends.link.call("status", {}, seconds=0.05)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 5)


async def test_the_status_stays_for_a_minute_while_the_provider_restarts(tmp_path: Path) -> None:
    now, answers = [0.0], [STATUS]

    async def status() -> ProviderStatus:
        if not answers:
            raise RequestError(503, "this provider restarts")
        return answers.pop()

    async with linked(tmp_path, calls_of(status=status)) as ends:
        read = linked_status(ends.link, now=lambda: now[0])
        assert await read() == STATUS
        now[0] = 60.0
        assert await read() == STATUS
        now[0] = 60.1
        with pytest.raises(ClusterError):
            await read()


async def test_facts_are_sent_at_once_and_stay_while_the_provider_is_away(tmp_path: Path) -> None:
    async with linked(tmp_path, {}) as ends:
        seen: list[Facts] = []
        ends.link.on_facts = seen.append
        ends.show(tenants=frozenset((TENANT.address,)), troubles={str(lease()): "no image"})
        await eventually(lambda: bool(seen))
        await ends.server.stop()
        await eventually(lambda: not ends.server.connected)
        assert ends.link.facts == ends.facts
        assert ends.link.facts.troubles == {str(lease()): "no image"}


async def test_a_provider_of_another_account_ends_the_gateway(tmp_path: Path) -> None:
    ends = Ends(tmp_path / "gateway.sock", {})
    await ends.server.start(ends.path)
    running = asyncio.create_task(ends.link.run())
    await ends.link.first_facts()
    ends.show(provider=TENANT.address)
    with pytest.raises(SettingsError, match="restart the gateway"):
        await running
    await ends.server.stop()


async def test_facts_of_another_form_are_not_taken_and_said_without_the_key(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with linked(tmp_path, {}) as ends:
            ends.show(form=2, key="another private key")
            await eventually(lambda: any("another version" in str(each.get("problem")) for each in logs))
            assert ends.link.facts == FACTS
    assert "private key" not in repr(logs) + repr(FACTS)


@pytest.mark.parametrize("sent", [b"no json\n", b"[]\n", b'{"call": "status"}\n', b"x" * (LONGEST + 2)])
async def test_what_is_no_request_ends_its_connection_and_no_other(tmp_path: Path, sent: bytes) -> None:
    async def status(_: Any) -> str:
        return "fine"

    async with linked(tmp_path, {"status": status}) as ends:
        reader, writer = await asyncio.open_unix_connection(ends.path)
        writer.write(sent)
        while await reader.read(1 << 16):
            pass
        writer.close()
        assert await ends.link.call("status", {}, seconds=240) == "fine"


async def test_more_calls_at_once_than_256_are_refused_before_any_work(tmp_path: Path) -> None:
    call, go, seen = _held()

    async def waits(given: Any) -> str:
        await call(given)
        await go.wait()
        return ""

    async with linked(tmp_path, {"status": waits}) as ends:
        asked = [asyncio.create_task(ends.link.call("status", {}, seconds=240)) for _ in range(300)]
        await eventually(lambda: sum(each.done() for each in asked) == 44)
        assert len(seen) == 256
        go.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, RequestError) and each.status == 503 for each in found) == 44


def test_only_a_process_of_this_user_is_at_the_other_end() -> None:
    class Socket:
        def __init__(self, user: int) -> None:
            self._user = user

        def getsockopt(self, *_: Any) -> bytes:
            return struct.pack("3i", 1, self._user, 1)

    assert is_own_user(Socket(os.geteuid()))  # type: ignore[arg-type]
    assert not is_own_user(Socket(os.geteuid() + 1))  # type: ignore[arg-type]


async def test_the_socket_is_for_this_user_alone(tmp_path: Path) -> None:
    async with linked(tmp_path, {}) as ends:
        assert ends.path.stat().st_mode & 0o777 == 0o600
