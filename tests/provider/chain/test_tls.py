"""Nodes behind a proxy that demands a client certificate: the operator's CA and certificate, renewed
without a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from devnet.chain import SimulatedChain
from provider.errors import ChainError, SettingsError
from provider.settings import load_settings
from provider.tls import ClientTls, TlsFiles
from tests.provider.chain.proxy import proxy_before
from tests.provider.chain.world import client
from tests.world.identities import Identity, identity

AUTHORITY, STRANGER = identity("authority"), identity("stranger")
SERVER, OURS = identity("node", by=AUTHORITY), identity("provider", by=AUTHORITY)


@pytest.fixture
async def behind_mtls(tmp_path: Path) -> AsyncIterator[str]:
    """A node behind a proxy that accepts only certificates of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*SERVER.write(tmp_path, "server"))
    context.load_verify_locations(AUTHORITY.write(tmp_path, "authority")[0])
    context.verify_mode = ssl.CERT_REQUIRED
    async with (
        SimulatedChain.start(block_seconds=0.1) as chain,
        proxy_before(chain.rpc_address, tls=context) as (address, _),
    ):
        yield address


def files(folder: Path, ours: Identity = OURS, ca: Identity = AUTHORITY) -> dict[str, Path]:
    certificate, key = ours.write(folder, "ours")
    return {"node_ca_file": ca.write(folder, "ca")[0], "node_cert_file": certificate, "node_key_file": key}


async def test_queries_and_blocks_come_through_a_proxy_that_demands_a_client_certificate(
    behind_mtls: str, tmp_path: Path
) -> None:
    async with client(behind_mtls, poll_interval=30, **files(tmp_path)) as chain:  # type: ignore[arg-type]
        head = await chain.head()
        assert await chain.open_orders() == []
        async with aclosing(chain.follow(after=head.height)) as blocks:  # type: ignore[type-var]
            heights = [(await anext(blocks)).height for _ in range(3)]
    assert heights == [head.height + step for step in (1, 2, 3)]  # with the websocket: the poll would take 30 s


@pytest.mark.parametrize(
    ("ours", "ca"), [(STRANGER, AUTHORITY), (OURS, STRANGER)], ids=["not let in", "not who we trust"]
)
async def test_an_unknown_client_gets_nothing_and_the_error_names_the_address(
    behind_mtls: str, tmp_path: Path, ours: Identity, ca: Identity
) -> None:
    async with client(behind_mtls, rpc_timeout=2, **files(tmp_path, ours, ca)) as chain:  # type: ignore[arg-type]
        with pytest.raises(ChainError, match=behind_mtls):
            await chain.head()


async def test_a_renewed_certificate_is_used_without_a_restart_and_a_broken_one_is_not(
    behind_mtls: str, tmp_path: Path
) -> None:
    async with client(behind_mtls, rpc_timeout=2, **files(tmp_path, STRANGER)) as chain:  # type: ignore[arg-type]
        with pytest.raises(ChainError):
            await chain.head()
        OURS.write(tmp_path, "ours")
        assert (await chain.head()).height
        (tmp_path / "ours.pem").write_text("half a certif")
        assert await chain.open_orders() == []


def test_the_context_is_rebuilt_only_when_a_file_changed(tmp_path: Path) -> None:
    certificate, key = OURS.write(tmp_path, "ours")
    tls = ClientTls(TlsFiles(certificate=certificate, key=key))
    first = tls.context()
    assert tls.context() is first
    SERVER.write(tmp_path, "ours")
    second = tls.context()
    assert second is not first
    key.unlink()
    assert tls.context() is second


def _encrypted(folder: Path) -> TlsFiles:
    certificate, key = OURS.write(folder, "ours", password=b"x")
    return TlsFiles(certificate=certificate, key=key)


def _mismatched(folder: Path) -> TlsFiles:
    return TlsFiles(certificate=OURS.write(folder, "a")[0], key=SERVER.write(folder, "b")[1])


def _empty(folder: Path) -> TlsFiles:
    (folder / "ca.pem").write_text("")
    return TlsFiles(ca=folder / "ca.pem")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_encrypted, "LESSOR_NODE_KEY_FILE"),
        (_mismatched, "LESSOR_NODE_CERT_FILE"),
        (_empty, "LESSOR_NODE_CA_FILE"),
        (lambda folder: TlsFiles(ca=folder), "LESSOR_NODE_CA_FILE"),
        (lambda folder: TlsFiles(ca=folder / "none"), "No such file"),
        (lambda folder: TlsFiles(certificate=folder / "none"), "No such file"),
        (lambda folder: TlsFiles(key=folder / "none"), "a key needs its certificate; set LESSOR_NODE_CERT_FILE"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start_with_their_name(tmp_path: Path, make, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ClientTls(make(tmp_path))


def test_files_for_nodes_without_tls_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="none of the addresses in AP_NODE is https"):
        load_settings(node="http://a:1,http://b:2", node_ca_file=tmp_path)


@pytest.mark.parametrize(
    ("node", "more", "expected"),
    [
        ("http://a:1", None, ("http://a:1",)),
        ("tcp://a:1/, https://b/rpc ,", "http://c,http://a:1", ("http://a:1", "https://b/rpc", "http://c")),
    ],
)
def test_nodes_are_a_list_without_repetition(node: str, more: str | None, expected: tuple[str, ...]) -> None:
    assert load_settings(node=node, more_nodes=more).nodes == expected


@pytest.mark.parametrize("node", ["http://a,b", "http://u:secret@a", "http://a,http://u:secret@b", "ftp://a", ""])
def test_an_invalid_address_is_refused_and_a_password_in_it_is_not_repeated(node: str) -> None:
    with pytest.raises(SettingsError, match="AP_NODE") as error:
        load_settings(node=node)
    assert "secret" not in str(error.value)
