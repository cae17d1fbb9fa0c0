"""The signed end of a lease: what its owner or its provider signed counts, and nothing that a node makes up."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from akash.deployment.v1beta4 import msg_pb2 as deployment_msg
from cosmos.tx.v1beta1.tx_pb2 import AuthInfo, TxBody, TxRaw

from devnet.chain import SimulatedChain
from devnet.chain.rpc_methods import METHODS_BY_NAME
from devnet.chain.rpc_params import from_json
from devnet.tenant import messages as tenant_messages
from lease.ids import LeaseId
from provider.chain import codec, messages, queries
from provider.chain.comet import CometChain
from provider.chain.keys import SigningKey
from provider.chain.tx.signing import Terms, signed
from provider.protocols.chain import Lease, LeaseState, Message
from provider.units import Coin
from tests.provider.chain.direct import bid_id, bid_on
from tests.provider.chain.world import ATTRIBUTES, PROVIDER, TENANT, client, scripted_node, signing_key, spec

OWNER, US, STRANGER = signing_key(TENANT), signing_key(PROVIDER), signing_key(6)
NODE_CHAIN = "lessor-devnet"
PRICE = spec().units[0].price


@asynccontextmanager
async def leased(node: SimulatedChain, *dseqs: int) -> AsyncIterator[tuple[CometChain, CometChain]]:
    """The provider's and the tenant's client; a lease for each deployment."""
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        uri = "https://p.example.com:8443"
        await us.broadcast([messages.create_provider(US.address, host_uri=uri, attributes=ATTRIBUTES)])
        made = [
            tenant_messages.create_deployment(
                bid_id(dseq).deployment, groups=(spec(),), version=bytes(32), deposit=(5_000_000, "uact")
            )
            for dseq in dseqs
        ]
        await tenant.broadcast(made)
        await asyncio.gather(*(us.broadcast([bid_on(dseq)]) for dseq in dseqs))
        await tenant.broadcast([tenant_messages.create_lease(bid_id(dseq)) for dseq in dseqs])
        yield us, tenant


async def ended(us: CometChain, lease: LeaseId) -> Lease:
    found = (await us.lease(lease)).lease
    assert found is not None and found.state.ended
    return found


async def test_what_the_owner_or_the_provider_signed_is_found_in_the_block_of_the_end(node: SimulatedChain) -> None:
    async with leased(node, 1, 2, 3, 4) as (us, tenant):
        group = deployment_msg.MsgCloseGroup(id=codec.group_id_to_pb(bid_id(4).group))
        await tenant.broadcast([tenant_messages.close_deployment(bid_id(1).deployment)])
        await tenant.broadcast([tenant_messages.close_lease(bid_id(2))])
        await us.broadcast([messages.close_bid(bid_id(3))])
        await tenant.broadcast([group])
        found = [await us.end_signer(await ended(us, bid_id(dseq))) for dseq in (1, 2, 3, 4)]
        assert found == [OWNER.address, OWNER.address, US.address, OWNER.address]


async def test_a_notice_is_read_from_the_chain_and_found_signed_in_the_block_of_its_beginning(
    node: SimulatedChain,
) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        uri = "https://p.example.com:8443"
        await us.broadcast([messages.create_provider(US.address, host_uri=uri, attributes=ATTRIBUTES)])
        made = tenant_messages.create_deployment(
            bid_id(1).deployment, groups=(spec(),), version=bytes(32), deposit=(5_000_000, "uact")
        )
        await tenant.broadcast([made])
        deposit = Coin("uakt", Decimal(500_000))
        bid = messages.create_bid(bid_id(1), price=PRICE, deposit=deposit, offer=(), reclamation_s=86_400)
        await us.broadcast([bid])
        await tenant.broadcast([tenant_messages.create_lease(bid_id(1))])
        sent = await us.broadcast([messages.start_reclaim(bid_id(1), reason=messages.CloseReason.DECOMMISSION)])
        lease = (await us.lease(bid_id(1))).lease
        assert lease is not None and lease.state is LeaseState.RECLAIMING
        assert (lease.reclaim_started, lease.reclaim_reason) == (sent.height, messages.CloseReason.DECOMMISSION)
        assert lease.reclaim_deadline >= await us.block_time(sent.height) + 86_399
        assert await us.notice_signed(lease)
        assert not await us.notice_signed(replace(lease, reclaim_started=sent.height - 1))


async def test_forty_ends_in_one_block_read_it_once(node: SimulatedChain) -> None:
    dseqs = range(1, 41)
    async with leased(node, *dseqs) as (us, tenant):
        await tenant.broadcast([tenant_messages.close_deployment(bid_id(dseq).deployment) for dseq in dseqs])
        leases = [await ended(us, bid_id(dseq)) for dseq in dseqs]
        blocks = 0

        async def count(_: Any, params: Any) -> Any:
            nonlocal blocks
            blocks += 1
            return await METHODS_BY_NAME["block"].handle(node.node, from_json(METHODS_BY_NAME["block"].params, params))

        async with lying(node, count) as chain:
            found = await asyncio.gather(*(chain.end_signer(lease) for lease in leases))
        assert set(found) == {OWNER.address} and blocks == 1


Lie = Callable[[str, dict[str, Any]], Any]


@asynccontextmanager
async def lying(node: SimulatedChain, block: Lie) -> AsyncIterator[CometChain]:
    """A client of a node that says about blocks what `block` says, and else the truth."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        known = METHODS_BY_NAME[method]
        return block(method, params) if method == "block" else known.handle(node.node, from_json(known.params, params))

    async with scripted_node(answer) as address, client(address) as chain:
        yield chain


def a_block(*txs: bytes) -> Lie:
    encoded = [base64.b64encode(tx).decode() for tx in txs]
    return lambda method, params: {"block": {"data": {"txs": encoded}}}


def a_tx(
    message: Message,
    *,
    by: SigningKey = OWNER,
    chain_id: str = NODE_CHAIN,
    number: int | None = None,
    sequence: int = 3,
) -> bytes:
    terms = Terms(sequence=sequence, timeout_height=0, gas=200_000, fee=5000, denom="uakt")
    return signed(by, [message], terms, chain_id=chain_id, number=_NUMBERS[by.address] if number is None else number)


_NUMBERS: dict[str, int] = {}


@pytest.fixture
async def numbered(node: SimulatedChain) -> SimulatedChain:
    for key in (OWNER, US, STRANGER):
        found = node.node.query().state.get("account", (key.address,))
        _NUMBERS[key.address] = found.number  # type: ignore[union-attr]
    return node


LEASE = bid_id(7)
CLOSED = Lease(LEASE, LeaseState.CLOSED, PRICE, created_at=1, closed_on=5)
CLOSE = tenant_messages.close_lease(LEASE)


def broken(raw: bytes) -> bytes:
    tx = TxRaw.FromString(raw)
    return bytes(
        TxRaw(body_bytes=tx.body_bytes, auth_info_bytes=tx.auth_info_bytes, signatures=[bytes(64)]).SerializeToString()
    )


def other_body(raw: bytes) -> bytes:
    """The owner's signature of something else."""
    tx, body = TxRaw.FromString(raw), TxBody()
    packed = body.messages.add()
    packed.Pack(CLOSE, type_url_prefix="/")
    return bytes(
        TxRaw(
            body_bytes=body.SerializeToString(), auth_info_bytes=tx.auth_info_bytes, signatures=tx.signatures
        ).SerializeToString()
    )


def claimed_key(raw: bytes) -> bytes:
    """A stranger's signature under the owner's public key."""
    tx = TxRaw.FromString(raw)
    auth = AuthInfo.FromString(tx.auth_info_bytes)
    auth.signer_infos[0].public_key.value = (
        AuthInfo.FromString(TxRaw.FromString(a_tx(CLOSE)).auth_info_bytes).signer_infos[0].public_key.value
    )
    return bytes(
        TxRaw(
            body_bytes=tx.body_bytes, auth_info_bytes=auth.SerializeToString(), signatures=tx.signatures
        ).SerializeToString()
    )


def _pause(oseq: int) -> tuple[Message, Lease]:
    lease = replace(CLOSED, id=replace(LEASE, oseq=oseq))
    return deployment_msg.MsgPauseGroup(id=codec.group_id_to_pb(LEASE.group)), lease


@pytest.mark.parametrize(
    ("make", "signer"),
    [
        (lambda: a_tx(CLOSE), OWNER.address),
        (lambda: a_tx(tenant_messages.close_deployment(LEASE.deployment)), OWNER.address),
        (lambda: a_tx(messages.close_bid(LEASE), by=US), US.address),
        (lambda: a_tx(CLOSE, by=STRANGER), ""),
        (lambda: a_tx(messages.close_bid(LEASE), by=OWNER), ""),
        (lambda: a_tx(CLOSE, by=US), ""),
        (lambda: a_tx(CLOSE, chain_id="othernet-1"), ""),
        (lambda: a_tx(CLOSE, number=999), ""),
        (lambda: a_tx(tenant_messages.close_lease(bid_id(8))), ""),
        (lambda: a_tx(tenant_messages.create_lease(LEASE)), ""),
        (lambda: a_tx(messages.withdraw_lease(LEASE), by=US), ""),
        (lambda: broken(a_tx(CLOSE)), ""),
        (lambda: other_body(a_tx(tenant_messages.close_lease(bid_id(8)))), ""),
        (lambda: claimed_key(a_tx(CLOSE, by=STRANGER)), ""),
        (lambda: a_tx(CLOSE)[:-10], ""),
        (lambda: LEASE.owner.encode() + b"\xff\xff", ""),
        (lambda: b"", ""),
    ],
)  # fmt: skip
async def test_only_the_signature_of_the_owner_or_the_provider_counts(
    numbered: SimulatedChain, make: Callable[[], bytes], signer: str
) -> None:
    async with lying(numbered, a_block(b"\x00", make())) as chain:
        assert await chain.end_signer(CLOSED) == signer


@pytest.mark.parametrize(
    ("make", "signed_by_us"),
    [
        (lambda: a_tx(messages.start_reclaim(LEASE), by=US), True),
        (lambda: a_tx(messages.start_reclaim(LEASE), by=STRANGER), False),
        (lambda: a_tx(messages.start_reclaim(bid_id(8)), by=US), False),
        (lambda: a_tx(messages.close_bid(LEASE), by=US), False),
        (lambda: broken(a_tx(messages.start_reclaim(LEASE), by=US)), False),
    ],
)  # fmt: skip
async def test_a_notice_counts_when_the_provider_signed_it(
    numbered: SimulatedChain, make: Callable[[], bytes], signed_by_us: bool
) -> None:
    announced = replace(CLOSED, state=LeaseState.RECLAIMING, closed_on=0, reclaim_started=5)
    async with lying(numbered, a_block(b"\x00", make())) as chain:
        assert await chain.notice_signed(announced) is signed_by_us
        assert not await chain.notice_signed(replace(announced, reclaim_started=0))


async def test_a_wrong_account_number_of_one_node_hides_no_end_from_the_answers_after_it(
    numbered: SimulatedChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = queries.account

    async def account(rpc: Any, address: str) -> Any:
        asked.append(address)
        found = await ask(rpc, address)
        return replace(found, number=999) if found is not None and len(asked) == 1 else found

    monkeypatch.setattr(queries, "account", account)
    async with lying(numbered, a_block(a_tx(CLOSE))) as chain:
        assert [await chain.end_signer(CLOSED) for _ in range(3)] == ["", OWNER.address, OWNER.address]
    assert asked == [OWNER.address] * 2


@pytest.mark.parametrize(("oseq", "signer"), [(1, OWNER.address), (2, "")])
async def test_a_paused_group_ended_its_first_lease_only(numbered: SimulatedChain, oseq: int, signer: str) -> None:
    """A group that was paused starts again with the next oseq: an old pause proves nothing about the later lease."""
    message, lease = _pause(oseq)
    async with lying(numbered, a_block(a_tx(message))) as chain:
        assert await chain.end_signer(lease) == signer


@pytest.mark.parametrize("txs", [None, "text", [1], ["!!"], {}])
async def test_a_block_that_cannot_be_read_is_no_evidence(numbered: SimulatedChain, txs: Any) -> None:
    async with lying(numbered, lambda method, params: {"block": {"data": {"txs": txs}}}) as chain:
        try:
            assert await chain.end_signer(CLOSED) == ""
        except Exception as error:
            assert "block 5" in str(error)


async def test_each_named_node_is_asked_and_one_that_is_away_is_left_out(node: SimulatedChain) -> None:
    dead = "http://127.0.0.1:9"
    async with leased(node, 1) as (us, _):
        assert await us.lease_on_each_node(bid_id(1)) == ()
        named = f"{node.rpc_address},{dead},{node.rpc_address.replace('127.0.0.1', 'localhost')}"
        async with client(named) as chain:
            found: Sequence[Any] = await chain.lease_on_each_node(bid_id(1))
            leases = await chain.leases_on_each_node(
                provider=US.address, states=[LeaseState.ACTIVE], deployment=bid_id(1).deployment
            )
    assert [answer.node for answer in found] == [named.split(",", maxsplit=1)[0], named.split(",")[2]]
    assert {answer.lease.state for answer in found} == {LeaseState.ACTIVE}
    assert [lease.id for lease in leases] == [bid_id(1)] * 2
