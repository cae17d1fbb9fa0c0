"""The account certificate on the chain: published once, again after a lost home, replaced when it was revoked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from akash.cert.v1 import msg_pb2 as cert_msg
from structlog.testing import capture_logs

from devnet.chain import SimulatedChain
from provider.chain.comet import CometChain
from provider.chain.messages import create_certificate
from provider.daemon.account_certificate import (
    CertificateOnChain,
    publish_certificate,
    set_revoked_aside,
    watch_certificate,
)
from provider.errors import ChainError
from provider.gateway.tls import AccountCertificate, ensure_certificate
from provider.protocols.chain import CertificateState, Message, TxResult
from provider.protocols.clock import SystemClock
from tests.provider.chain.world import PROVIDER, client, signing_key
from tests.world.chain import FakeChain
from tests.world.virtual import VirtualClock

US = signing_key(PROVIDER)


class Backends:
    """What `set_revoked_aside` reads of the backends."""

    def __init__(self, chain: object, home: Path) -> None:
        self.chain, self.address, self.settings = chain, US.address, self
        self.home, self.certificate_passwords = home, US.certificate_passwords


def made(home: Path) -> AccountCertificate:
    return ensure_certificate(US.address, home, now=time.time(), passwords=US.certificate_passwords)


@pytest.fixture
async def chain(node: SimulatedChain) -> AsyncIterator[CometChain]:
    async with client(node.rpc_address, index=PROVIDER) as found:
        yield found


async def publish(chain: CometChain, account: AccountCertificate) -> None:
    await publish_certificate(chain, account, owner=US.address, clock=SystemClock())


async def state(chain: CometChain, account: AccountCertificate) -> CertificateState:
    return await chain.certificate_state(US.address, account.certificate.serial_number)


async def test_the_certificate_is_published_once_and_a_lost_home_publishes_another(
    chain: CometChain, node: SimulatedChain, tmp_path: Path
) -> None:
    account = made(tmp_path / "home")
    assert await state(chain, account) is CertificateState.ABSENT
    await publish(chain, account)
    assert await state(chain, account) is CertificateState.VALID
    count = len(list(node.node.blocks.txs()))
    await publish(chain, made(tmp_path / "home"))
    assert len(list(node.node.blocks.txs())) == count, "a restart sends nothing"
    other = made(tmp_path / "new home")
    await publish(chain, other)
    assert await state(chain, other) is CertificateState.VALID and await state(chain, account) is CertificateState.VALID


async def test_a_revoked_certificate_is_set_aside_and_replaced(chain: CometChain, tmp_path: Path) -> None:
    account = made(tmp_path)
    await publish(chain, account)
    backends = cast(Any, Backends(chain, tmp_path))
    await set_revoked_aside(backends)
    assert account.path.exists(), "a valid one stays"
    serial = account.certificate.serial_number
    revoke = cert_msg.MsgRevokeCertificate()
    revoke.id.owner, revoke.id.serial = US.address, str(serial)
    await chain.broadcast([revoke])
    await set_revoked_aside(backends)
    assert not account.path.exists() and (tmp_path / f"{US.address}.pem.revoked-{serial}").exists()
    renewed = made(tmp_path)
    await publish(chain, renewed)
    assert renewed.pem != account.pem and await state(chain, renewed) is CertificateState.VALID


async def test_without_a_file_or_without_an_answer_nothing_is_changed(tmp_path: Path) -> None:
    fake = FakeChain()
    await set_revoked_aside(cast(Any, Backends(fake, tmp_path)))
    assert fake.calls == []

    def away(name: str) -> None:
        raise ChainError("node", "no answer")

    account, fake.before = made(tmp_path), away
    await set_revoked_aside(cast(Any, Backends(fake, tmp_path)))
    assert account.path.exists()


@pytest.mark.virtual_time
async def test_a_chain_that_takes_nothing_is_asked_again(tmp_path: Path) -> None:
    class Short(FakeChain):
        tries = 0

        async def broadcast(self, messages: Any) -> TxResult:
            self.tries += 1
            if self.tries < 4:
                raise ChainError("node", "account has no funds")
            assert [message.DESCRIPTOR.name for message in messages] == ["MsgCreateCertificate"]
            return TxResult("00", 1, 1, "1uakt")

    fake = Short()
    await publish_certificate(cast(Any, fake), made(tmp_path), owner=US.address, clock=VirtualClock())
    assert fake.tries == 4


def test_the_message_has_the_labels_that_the_chain_demands(tmp_path: Path) -> None:
    account = made(tmp_path)
    sent: Message = create_certificate(US.address, certificate=account.pem, public_key=account.public_key_pem)
    assert cast(Any, sent).cert.startswith(b"-----BEGIN CERTIFICATE-----")
    assert cast(Any, sent).pubkey.startswith(b"-----BEGIN EC PUBLIC KEY-----")


@pytest.mark.virtual_time
async def test_a_certificate_that_is_revoked_or_lost_while_the_provider_runs_is_noticed(tmp_path: Path) -> None:
    fake, account, seen, clock = FakeChain(), made(tmp_path), CertificateOnChain(), VirtualClock()
    key = (US.address, account.certificate.serial_number)
    fake.certificates[key] = CertificateState.VALID
    watch = watch_certificate(cast(Any, fake), account, owner=US.address, clock=clock, seen=seen)
    task = asyncio.create_task(watch)
    await clock.advance(10)
    assert not seen.revoked
    fake.certificates[key] = CertificateState.REVOKED
    with capture_logs() as logs:
        await clock.advance(3 * 3600)
    assert seen.revoked
    assert [log["event"] for log in logs] == ["certificate.revoked"]
    del fake.certificates[key]
    fake.executes = False
    await clock.advance(3600)
    assert fake.sent_kinds() == ["MsgCreateCertificate"] and not seen.revoked
    task.cancel()
    await asyncio.wait({task})
