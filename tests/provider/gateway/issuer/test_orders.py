"""Orders of the CA's certificate at a real ACME server, and what an operator reads when one fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from provider.gateway.config import CaFiles
from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued
from provider.gateway.issuer.order import order_certificate
from provider.gateway.issuer.renewal import CertificateIssuer
from provider.protocols.clock import SystemClock
from tests.provider.gateway.issuer.pebble import (
    BLOCKED,
    EXTERNAL,
    NAME,
    Pebble,
    occupied,
    running_pebble,
    served,
    verified,
)
from tests.provider.gateway.world import new_world
from tests.world.patience import eventually


@pytest.fixture
async def ca(tmp_path: Path) -> AsyncIterator[Pebble]:
    async with running_pebble(tmp_path / "ca") as found:
        yield found


async def refusal(config: IssuerConfig) -> NotIssued:
    with pytest.raises(NotIssued) as raised:
        await order_certificate(config, SystemClock())
    return raised.value


class ShiftedClock(SystemClock):
    """The system's clock, `ahead` by so many seconds."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


async def test_a_gateway_serves_the_ordered_certificate_and_the_renewed_one_without_a_restart(
    ca: Pebble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config, clock = ca.config(tmp_path / "issuer", email="operator@example.com"), ShiftedClock()
    files = CaFiles(config.certificate, config.certificate)
    world = new_world(tmp_path, ca_files=files, public_hostname=NAME)
    with capture_logs() as events:
        issuer = CertificateIssuer(config, clock, order=order_certificate)
        async with world.running():
            port = world.gateway.address[1]
            before = await served(port, NAME)
            assert before == world.gateway.served.account.certificate, "until then the account certificate is served"
            running = asyncio.create_task(issuer.run())
            await eventually(config.certificate.exists)
            first = await served(port, NAME)
            assert first.issuer != first.subject
            assert await served(port, "") == before
            await verified(port, await ca.root())
            clock.ahead = 61 * 86400.0
            running.cancel()
            again = asyncio.create_task(CertificateIssuer(config, clock, order=order_certificate).run())
            await eventually(lambda: x509.load_pem_x509_certificate(config.certificate.read_bytes()) != first)
            assert await served(port, NAME) not in (first, before)
            again.cancel()
    for kept in (config.certificate, config.account_key):
        assert kept.stat().st_mode & 0o777 == 0o600
    assert config.folder.stat().st_mode & 0o777 == 0o700
    secret = config.account_key.read_text().split()[5]
    assert secret not in f"{events}{caplog.text}" and "PRIVATE" not in f"{events}{caplog.text}"
    assert not issuer.status()["problem"]


async def test_several_names_are_in_one_certificate_and_the_account_is_used_again(ca: Pebble, tmp_path: Path) -> None:
    config = ca.config(tmp_path / "issuer", names=(NAME, "other.example.com"))
    for _ in range(2):
        chain = x509.load_pem_x509_certificates((await order_certificate(config, SystemClock())).encode())
        found = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert sorted(found.get_values_for_type(x509.DNSName)) == ["other.example.com", NAME]
        assert len(chain) > 1, "the chain above it is served too"


async def test_nonces_that_the_ca_refuses_are_tried_again(tmp_path: Path) -> None:
    names = tuple(f"{number}.example.com" for number in range(3))
    async with running_pebble(tmp_path / "ca", nonces_refused=50) as ca:
        assert "PRIVATE KEY" in await order_certificate(ca.config(tmp_path / "issuer", names=names), SystemClock())
    asked = (tmp_path / "ca" / "log").read_text().count("HEAD /nonce-plz")
    assert asked > 1, "each refusal costs a nonce"


async def test_a_ca_that_demands_an_external_account_gets_it_or_is_named_with_the_settings(tmp_path: Path) -> None:
    async with running_pebble(tmp_path / "ca", external=True) as ca:
        refused = await refusal(ca.config(tmp_path / "issuer"))
        assert "AP_CERT_ISSUER_KID" in refused.remedy, refused
        assert await order_certificate(ca.config(tmp_path / "issuer", external_account=EXTERNAL), SystemClock())
        wrong = await refusal(ca.config(tmp_path / "another", external_account=("kid-1", "a")))
        assert "AP_CERT_ISSUER_HMAC" in wrong.problem


async def test_a_name_that_leads_elsewhere_is_named_with_the_route_that_is_missing(ca: Pebble, tmp_path: Path) -> None:
    async with await asyncio.start_server(_other_program, "127.0.0.1", ca.challenges):
        refused = await refusal(ca.config(tmp_path / "issuer", listen="127.0.0.1:0"))
    assert f"could not validate {NAME}" in refused.problem
    assert f"http://{NAME}/.well-known/acme-challenge/ (port 80)" in refused.remedy
    assert "AP_CERT_ISSUER_HTTP_CHALLENGE_PORT" in refused.remedy


async def _other_program(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()


async def test_a_name_that_nothing_answers_for_or_nobody_knows_is_named(ca: Pebble, tmp_path: Path) -> None:
    away = await refusal(ca.config(tmp_path / "issuer", listen="127.0.0.1:0"))
    assert "could not validate" in away.problem and NAME in away.remedy
    ca.missing.add("unknown.example.com")
    unknown = await refusal(ca.config(tmp_path / "issuer", names=("unknown.example.com",)))
    assert "unknown.example.com" in unknown.problem and unknown.remedy


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        ({"names": (BLOCKED,)}, "the CA refuses", "name a CA that issues"),
        ({"roots": None}, "cannot be trusted", "LESSOR_CERT_ISSUER_CA_FILE"),
    ],
)
async def test_what_the_ca_refuses_is_said_with_its_own_words_and_a_remedy(
    ca: Pebble, tmp_path: Path, changes: dict[str, Any], problem: str, remedy: str
) -> None:
    refused = await refusal(ca.config(tmp_path / "issuer", **changes))
    assert problem in refused.problem and remedy in refused.remedy, (refused.problem, refused.remedy)


async def test_a_port_that_is_taken_and_a_key_that_is_none_are_said_with_the_setting(
    ca: Pebble, tmp_path: Path
) -> None:
    with occupied(ca.challenges):
        taken = await refusal(ca.config(tmp_path / "issuer"))
    assert f"AP_CERT_ISSUER_HTTP_CHALLENGE_PORT=127.0.0.1:{ca.challenges}" in taken.problem
    damaged = tmp_path / "key.pem"
    damaged.write_text("no key")
    refused = await refusal(ca.config(tmp_path / "issuer", account_key=damaged))
    assert str(damaged) in refused.problem and "LESSOR_CERT_ISSUER_ACCOUNT_KEY" in refused.remedy
    assert damaged.read_text() == "no key"


async def test_the_listener_of_challenges_is_open_during_an_order_only(ca: Pebble, tmp_path: Path) -> None:
    await order_certificate(ca.config(tmp_path / "issuer"), SystemClock())
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", ca.challenges)


async def test_a_ca_that_goes_away_and_comes_back_is_only_waited_for(tmp_path: Path) -> None:
    gone = IssuerConfig("https://127.0.0.1:9/dir", (NAME,), "127.0.0.1:0", tmp_path, tmp_path / "account.pem")
    refused = await refusal(gone)
    assert "does not answer: " in refused.problem and "refused" in refused.problem.lower()
    assert refused.remedy
