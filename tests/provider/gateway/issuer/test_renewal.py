"""When the CA's certificate is ordered: weeks pass in virtual time, over an order that is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued
from provider.gateway.issuer.renewal import CertificateIssuer
from provider.protocols import Clock
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
NAME, DAY_S, HOUR_S = "provider.example.com", 86400.0, 3600.0


def certificate(begins: float, days: float, names: Sequence[str]) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    start, subject = datetime.fromtimestamp(begins, UTC), x509.Name([])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True)
        .sign(key, SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (made.public_bytes(Encoding.PEM) + secret).decode()


class ScriptedCa:
    """`refusals`: how the next orders end; then certificates of `days` are issued. `times`: of all orders."""

    def __init__(self, *refusals: Exception, days: float = 90.0) -> None:
        self.refusals = list(refusals)
        self.days = days
        self.times: list[float] = []

    async def order(self, config: IssuerConfig, clock: Clock) -> str:
        self.times.append(clock.now())
        if self.refusals:
            raise self.refusals.pop(0)
        return certificate(clock.now(), self.days, config.names)


def config(folder: Path, *names: str, directory: str = "https://ca.example.com/dir") -> IssuerConfig:
    return IssuerConfig(
        directory, names or (NAME,), "127.0.0.1:0", folder / "issuer", folder / "issuer" / "account.pem"
    )


async def passes(issuer: CertificateIssuer, seconds: float) -> None:
    """Run `issuer` for so long."""
    running = asyncio.create_task(issuer.run())
    await asyncio.sleep(seconds)
    assert not running.done()
    running.cancel()


async def test_the_first_is_ordered_at_the_start_and_the_next_with_a_third_of_its_life_left(tmp_path: Path) -> None:
    clock, ca = VirtualClock(), ScriptedCa()
    began = clock.now()
    await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), 125 * DAY_S)
    assert [round((each - began) / DAY_S) for each in ca.times] == [0, 60, 120]


async def test_a_certificate_of_hours_is_renewed_in_time_and_never_twice_in_an_hour(tmp_path: Path) -> None:
    clock, ca = VirtualClock(), ScriptedCa(days=0.25)
    await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), DAY_S)
    pauses = [after - before for before, after in zip(ca.times, ca.times[1:], strict=False)]
    assert pauses and all(HOUR_S <= pause <= 4.1 * HOUR_S for pause in pauses)
    useless = ScriptedCa(days=0.001)
    await passes(CertificateIssuer(config(tmp_path / "useless"), clock, order=useless.order), 10.5 * HOUR_S)
    assert len(useless.times) <= 12


async def test_a_restart_orders_nothing_new_and_another_name_does(tmp_path: Path) -> None:
    clock, ca = VirtualClock(), ScriptedCa()
    for _ in range(3):
        await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), 60.0)
    assert len(ca.times) == 1
    await passes(CertificateIssuer(config(tmp_path, NAME, "new.example.com"), clock, order=ca.order), 60.0)
    assert len(ca.times) == 2
    (tmp_path / "issuer" / "certificate.pem").write_text("damaged")
    await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), 60.0)
    assert len(ca.times) == 3


async def test_pauses_grow_and_what_is_served_meanwhile_stays(tmp_path: Path) -> None:
    clock, ca = VirtualClock(), ScriptedCa()
    issuer = CertificateIssuer(config(tmp_path), clock, order=ca.order)
    await passes(issuer, 60.0)
    kept = (tmp_path / "issuer" / "certificate.pem").read_text()
    ca.refusals = [NotIssued("the CA is away", "wait")] * 1000
    await passes(issuer, 60 * DAY_S + HOUR_S)
    assert issuer.status()["problem"] == "the CA is away" and not issuer.status()["urgent"]
    assert 4 <= len(ca.times) <= 9, "a minute, two minutes, four: half of it at least"
    await passes(issuer, 27 * DAY_S)
    assert len(ca.times) <= 30 + 27 * 8, "every three to six hours in the end"
    assert issuer.status()["urgent"], "a sixth of its life is left"
    assert (tmp_path / "issuer" / "certificate.pem").read_text() == kept
    ca.refusals.clear()
    await passes(issuer, 6 * HOUR_S)
    assert issuer.status()["problem"] == "" and not issuer.status()["failures"]


async def test_what_the_ca_demands_is_kept_to_by_the_next_process_too(tmp_path: Path) -> None:
    clock = VirtualClock()
    ca = ScriptedCa(NotIssued("too many orders", "none", retry_after_s=5 * HOUR_S))
    began = clock.now()
    for _ in range(5):
        await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), HOUR_S)
    assert ca.times == [began]
    another = config(tmp_path, directory="https://another.example.com/dir")
    other = ScriptedCa(NotIssued("no", "none"))
    await passes(CertificateIssuer(another, clock, order=other.order), 1.0)
    assert len(other.times) == 1, "it was the demand of the CA before"
    await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), 60.0)
    assert [round((each - began) / 60) for each in ca.times] == [0, 5 * 60]


async def test_a_demand_of_years_and_a_damaged_note_of_it_stop_nothing(tmp_path: Path) -> None:
    clock, ca = VirtualClock(), ScriptedCa(NotIssued("never", "none", retry_after_s=1e12))
    await passes(CertificateIssuer(config(tmp_path), clock, order=ca.order), 7 * DAY_S + HOUR_S)
    assert len(ca.times) == 2
    note = tmp_path / "issuer" / "next-try.json"
    for text in ("", "[]", "[" * 100_000, '{"at": "soon"}', '{"at": NaN}', "\xff"):
        note.write_text(text)
        (tmp_path / "issuer" / "certificate.pem").unlink()
        again = ScriptedCa()
        await passes(CertificateIssuer(config(tmp_path), clock, order=again.order), 60.0)
        assert len(again.times) == 1, text[:20]


@pytest.mark.parametrize("defect", [RuntimeError("a defect"), OSError(28, "No space left on device")])
async def test_neither_a_defect_nor_a_full_disk_ends_the_provider(tmp_path: Path, defect: Exception) -> None:
    clock, ca = VirtualClock(), ScriptedCa(defect)
    issuer = CertificateIssuer(config(tmp_path), clock, order=ca.order)
    await passes(issuer, 10.0)
    assert str(defect.args[-1]) in issuer.status()["problem"] and issuer.status()["remedy"]
    await passes(issuer, 120.0)
    assert len(ca.times) == 2 and not issuer.status()["problem"]
