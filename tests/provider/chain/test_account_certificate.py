"""The account certificate on the chain: published once, again after a lost home, replaced when it was revoked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from akash.cert.v1 import msg_pb2 as cert_msg
from structlog.testing import capture_logs

from devnet.chain import SimulatedChain
from provider.chain.comet import CometChain
from provider.chain.messages import create_certificate, revoke_certificate
from provider.daemon.account_certificate import (
    CertificateOnChain,
    publish_certificate,
    set_revoked_aside,
    watch_certificate,
)
from provider.errors import ChainError
from provider.gateway.config import GatewayConfig
from provider.gateway.served_certificates import ServedCertificates
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
    async with watched(tmp_path) as (fake, served, clock):
        old = served.account
        fake.certificates[US.address, old.certificate.serial_number] = CertificateState.REVOKED
        with capture_logs() as logs:
            await clock.advance(3600)
        assert [log["event"] for log in logs] == ["certificate.revoked", "certificate.published", "certificate.renewed"]
        assert served.account.pem != old.pem and fake.sent_kinds() == ["MsgCreateCertificate"]
        fake.certificates[US.address, served.account.certificate.serial_number] = CertificateState.VALID
        await clock.advance(3600)
        del fake.certificates[US.address, served.account.certificate.serial_number]
        await clock.advance(3600)
        assert fake.sent_kinds() == ["MsgCreateCertificate"] * 2, "one that the chain has lost is published again"


@pytest.mark.virtual_time
async def test_the_next_certificate_is_published_before_it_is_served_and_the_old_one_is_revoked_after_three_days(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as (fake, served, clock):
        old, day = served.account, 86400.0
        serial = old.certificate.serial_number
        await clock.advance((365 - 22) * day)
        assert served.account.pem == old.pem and fake.sent_kinds() == []

        def away(name: str) -> None:
            if name == "broadcast":
                raise ChainError("node", "no answer")

        fake.before = away
        await clock.advance(2 * day)
        assert served.account.pem == old.pem, "what the chain does not have is not served"
        fake.before = lambda name: None
        await clock.advance(3600)
        new = served.account
        assert new.pem != old.pem and fake.sent_kinds() == ["MsgCreateCertificate"]
        fake.certificates[US.address, new.certificate.serial_number] = CertificateState.VALID
        await clock.advance(day)
        assert fake.sent_kinds() == ["MsgCreateCertificate"]
        await clock.advance(2 * day + 3600)
        assert fake.sent_kinds() == ["MsgCreateCertificate", "MsgRevokeCertificate"]
        assert cast(Any, fake.sent[-1]).id.serial == str(serial)
        assert [path.name for path in tmp_path.iterdir()] == [new.path.name]
        fake.certificates[US.address, serial] = CertificateState.REVOKED
        await clock.advance(30 * day)
        assert len(fake.sent) == 2


@asynccontextmanager
async def watched(home: Path) -> AsyncIterator[tuple[FakeChain, ServedCertificates, VirtualClock]]:
    """A provider whose certificate is on the chain, and its watch; messages change nothing there."""
    fake, clock = FakeChain(), VirtualClock(time.time())
    fake.executes = False
    served = ServedCertificates(made(home))
    fake.certificates[US.address, served.account.certificate.serial_number] = CertificateState.VALID
    config = GatewayConfig(US.address, home, certificate_passwords=US.certificate_passwords)
    watch = watch_certificate(cast(Any, fake), served, config, clock=clock, seen=CertificateOnChain())
    task = asyncio.create_task(watch)
    await clock.advance(10)
    yield fake, served, clock
    task.cancel()
    await asyncio.wait({task})


async def test_a_simulated_chain_takes_the_revocation_of_a_replaced_certificate(
    chain: CometChain, tmp_path: Path
) -> None:
    account = made(tmp_path)
    await publish(chain, account)
    await chain.broadcast([revoke_certificate(US.address, account.certificate.serial_number)])
    assert await state(chain, account) is CertificateState.REVOKED
    found = await chain.certificate(US.address, account.certificate.serial_number)
    assert found is not None and found.certificate.decode() == account.pem
    assert found.public_key.decode() == account.public_key_pem
