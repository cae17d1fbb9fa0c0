"""Where bytes of strangers enter the REST gateway: a connection, the credentials of a request, and a manifest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from lease.errors import ManifestRefused
from lease.manifest_decode import MAX_MANIFEST_VALUES, manifest_from_json
from provider.gateway.auth.keys import AccountKeys
from provider.gateway.auth.tokens import Tokens, read_credentials
from provider.gateway.errors import AuthError
from tests.hostile.corpus import EntryPoint
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import DSEQ, TENANT
from tests.provider.gateway.world import World, new_world
from tests.world.chain import FakeChain
from tests.world.patience import eventually
from tests.world.virtual import VirtualClock
from tests.world.work import calls_of

__all__ = ["ENTRY_POINTS"]

_TIMES = 20


def _counted(folder: Path) -> tuple[World, list[str]]:
    """A gateway that knows no tenant, and the calls of the chain and of the API server that it causes."""
    world, calls = new_world(folder), list[str]()
    world.clock.set(NOW)
    world.is_tenant = lambda _: False
    world.chain.before = calls.append
    world.cluster.before = lambda operation, kind, name: calls.append(operation)
    return world, calls


async def _connection(data: bytes, folder: Path) -> Mapping[str, int]:
    """A client that sends the bytes, reads what fits into one answer, and stays while another client is served."""
    world, calls = _counted(folder)
    async with world.running():
        reader, writer = await world.connect()
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await reader.read(1)
        assert (await world.get("/address")).status == 200
        kept = world.gateway.admission.connections
        writer.transport.abort()
        await eventually(lambda: world.gateway.admission.connections == 0)
    return {"connections": kept, "queries": len(calls), "calls of /version": world.kube_calls}


async def _credentials(data: bytes, _: Path) -> Mapping[str, int]:
    chain, clock = FakeChain(), VirtualClock(NOW)
    tokens = Tokens(AccountKeys(chain, clock), clock)
    refused = 0
    for _number in range(_TIMES):
        try:
            await read_credentials(data.decode(), tokens, peer="192.0.2.1")
        except AuthError:
            refused += 1
    return {"accepted": _TIMES - refused, "queries": len(chain.calls)}


async def _stranger_with_manifest(data: bytes, folder: Path) -> Mapping[str, int]:
    """An account on the chain that has no lease here."""
    world, calls = _counted(folder)
    world.chain.public_keys[TENANT.address] = TENANT.public
    async with world.running():
        with contextlib.suppress(ConnectionError):
            answer = await world.put_manifest(DSEQ, data, TENANT.token())
            assert answer.status in (404, 413)
    return {"queries": len(calls)}


async def _decoding(data: bytes, _: Path) -> Mapping[str, int]:
    def decode() -> int:
        try:
            return sum(1 + len(group.services or ()) for group in manifest_from_json(data))
        except ManifestRefused:
            return 0

    calls, items = await asyncio.to_thread(calls_of, decode)
    return {"calls": calls, "items": items}


ENTRY_POINTS = (
    EntryPoint("a REST connection", "http", _connection, {"connections": 2, "queries": 0, "calls of /version": 1}),
    EntryPoint("the credentials of a request", "token", _credentials, {"accepted": 0, "queries": 1}),
    EntryPoint("a manifest of an account without a lease", "manifest", _stranger_with_manifest, {"queries": 3}),
    EntryPoint("the reading of a manifest", "manifest", _decoding, {"calls": 3_000_000, "items": MAX_MANIFEST_VALUES}),
)
