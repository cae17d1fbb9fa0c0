"""The account certificate: what is in it, when it is made, and how it is served."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provider.chain.signatures import verify_signature
from provider.errors import SettingsError
from provider.gateway.served_certificates import ServedCertificates
from provider.gateway.tls import ensure_certificate, next_certificate, old_certificates, take_next
from tests.provider.chain.world import signing_key
from tests.provider.gateway.world import PROVIDER, new_world

NOW = 1_795_820_000.25


def test_the_certificate_has_the_account_profile_and_digital_signature_too(tmp_path: Path) -> None:
    certificate = ensure_certificate(PROVIDER, tmp_path, now=NOW, hostname="provider.example.com").certificate
    for name in (certificate.subject, certificate.issuer):
        assert name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == PROVIDER
        assert name.get_attributes_for_oid(x509.ObjectIdentifier("2.23.133.2.6"))[0].value == "v0.0.1"
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert usage.key_encipherment
    assert usage.data_encipherment
    assert not usage.key_cert_sign
    purposes = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert purposes == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.not_valid_before_utc.timestamp() == 1_795_820_000
    assert certificate.not_valid_after_utc.timestamp() == 1_795_820_000 + 365 * 86400
    certificate.verify_directly_issued_by(certificate)


def test_the_file_is_private_and_survives_a_restart(tmp_path: Path) -> None:
    first = ensure_certificate(PROVIDER, tmp_path / "new", now=NOW)
    assert first.path.stat().st_mode & 0o777 == 0o600
    assert first.path.read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE KEY" not in first.pem
    assert ensure_certificate(PROVIDER, tmp_path / "new", now=NOW + 1).pem == first.pem
    assert [item.name for item in first.path.parent.iterdir()] == [first.path.name]


def test_an_expired_certificate_is_replaced(tmp_path: Path) -> None:
    first = ensure_certificate(PROVIDER, tmp_path, now=NOW)
    second = ensure_certificate(PROVIDER, tmp_path, now=NOW + 366 * 86400)
    assert second.certificate.serial_number > first.certificate.serial_number


@pytest.mark.parametrize("content", ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_damaged_file_is_named_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / f"{PROVIDER}.pem"
    path.write_text(content)
    with pytest.raises(SettingsError, match=r"pem is damaged .*move it away"):
        ensure_certificate(PROVIDER, tmp_path, now=NOW)
    assert path.read_text() == content


def test_the_certificate_of_another_provider_is_not_served(tmp_path: Path) -> None:
    other = ensure_certificate("akash1other", tmp_path, now=NOW)
    other.path.rename(tmp_path / f"{PROVIDER}.pem")
    with pytest.raises(SettingsError, match="is not for akash1pdsv"):
        ensure_certificate(PROVIDER, tmp_path, now=NOW)


def test_a_certificate_with_the_key_of_another_is_not_served(tmp_path: Path) -> None:
    first = ensure_certificate(PROVIDER, tmp_path / "a", now=NOW)
    second = ensure_certificate(PROVIDER, tmp_path / "b", now=NOW)
    key = second.path.read_text().removeprefix(second.pem)
    first.path.write_text(first.pem + key)
    with pytest.raises(SettingsError, match="its key does not match"):
        ensure_certificate(PROVIDER, tmp_path / "a", now=NOW)


@pytest.mark.parametrize(
    ("highest", "works"), [(ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)], ids=["1.2", "1.3"]
)
async def test_only_tls_1_3_is_accepted(tmp_path: Path, highest: ssl.TLSVersion, works: bool) -> None:
    async with new_world(tmp_path).running() as world:
        context = world.pinned
        context.maximum_version = highest
        host, port = world.gateway.address
        if works:
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            writer.close()
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(host, port, ssl=context)


@pytest.mark.parametrize("offered", [["h2", "http/1.1"], ["h2"], ["http/1.1"], ["foo"]], ids=str)
async def test_a_client_may_offer_any_protocol_and_none_is_chosen(tmp_path: Path, offered: list[str]) -> None:
    async with new_world(tmp_path).running() as world:
        context = world.pinned
        context.set_alpn_protocols(offered)
        _, writer = await asyncio.open_connection(*world.gateway.address, ssl=context, server_hostname="localhost")
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
        writer.close()


PASSWORDS = signing_key(2).certificate_passwords
OURS = signing_key(2).address


def test_the_key_is_encrypted_as_the_go_provider_does_it(tmp_path: Path) -> None:
    """PKCS#8 with PBES2 (PBKDF2 with HMAC-SHA-256, AES-256-CBC); the password is the account's signature of its
    address.
    """
    made = ensure_certificate(OURS, tmp_path, now=NOW, passwords=PASSWORDS)
    blocks = [line for line in made.path.read_text().splitlines() if line.startswith("-----BEGIN")]
    assert blocks == ["-----BEGIN CERTIFICATE-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"]
    der = base64.b64decode(
        "".join(made.path.read_text().split("-----BEGIN ENCRYPTED PRIVATE KEY-----")[1].split()[:-4])
    )
    for name in ("2a864886f70d01050d", "2a864886f70d01050c", "2a864886f70d0209", "60864801650304012a"):
        assert bytes.fromhex(name) in der, "PBES2, PBKDF2, hmacWithSHA256, aes256-CBC"
    assert len(PASSWORDS[0]) == 64 and verify_signature(OURS.encode(), signing_key(2).public_bytes, PASSWORDS[0])
    assert signing_key(2).certificate_passwords == PASSWORDS, "the signature is deterministic, else no key opens again"
    assert ensure_certificate(OURS, tmp_path, now=NOW + 1, passwords=PASSWORDS).pem == made.pem
    assert str(PASSWORDS[0]) not in repr(made)


@pytest.mark.parametrize("form", ["pkcs8", "legacy", "legacy over bytes", "plain"])
def test_a_file_of_a_go_provider_and_an_older_one_of_ours_are_taken_over(tmp_path: Path, form: str) -> None:
    made = ensure_certificate(OURS, tmp_path, now=NOW)
    pem = made.path.read_bytes()
    key = load_pem_private_key(pem[pem.index(b"-----BEGIN PRIVATE") :], password=None)
    written = {
        "pkcs8": (PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORDS[0])),
        "legacy": (PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(PASSWORDS[0])),
        "legacy over bytes": (PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(PASSWORDS[1])),
        "plain": (PrivateFormat.PKCS8, NoEncryption()),
    }[form]
    made.path.write_bytes(made.pem.encode() + key.private_bytes(Encoding.PEM, *written))
    taken = ensure_certificate(OURS, tmp_path, now=NOW, passwords=PASSWORDS)
    assert taken.pem == made.pem, "tenants pin it"
    assert "PRIVATE KEY-----" in taken.path.read_text() and "BEGIN PRIVATE" not in taken.path.read_text()
    again = ensure_certificate(OURS, tmp_path, now=NOW, passwords=PASSWORDS[:1])
    assert again.pem == made.pem and taken.path.stat().st_mode & 0o777 == 0o600
    ServedCertificates(again)


def test_a_file_of_another_account_is_kept_and_named(tmp_path: Path) -> None:
    made = ensure_certificate(OURS, tmp_path, now=NOW, passwords=PASSWORDS)
    before = made.path.read_bytes()
    with pytest.raises(SettingsError, match="encrypted with the password of another account"):
        ensure_certificate(OURS, tmp_path, now=NOW, passwords=signing_key(1).certificate_passwords)
    assert made.path.read_bytes() == before


def test_a_certificate_is_due_three_weeks_before_its_end_and_served_until_another_is_published(tmp_path: Path) -> None:
    first = ensure_certificate(PROVIDER, tmp_path, now=NOW)
    assert not first.is_due(NOW + (365 - 22) * 86400)
    late = NOW + (365 - 20) * 86400
    assert first.is_due(late) and ensure_certificate(PROVIDER, tmp_path, now=late).pem == first.pem


def test_the_next_certificate_takes_the_place_and_the_old_one_is_remembered_without_its_key(tmp_path: Path) -> None:
    first = ensure_certificate(OURS, tmp_path, now=NOW, passwords=PASSWORDS)
    following = next_certificate(OURS, tmp_path, now=NOW + 1, passwords=PASSWORDS)
    again = next_certificate(OURS, tmp_path, now=NOW + 2, passwords=PASSWORDS)
    assert again.pem == following.pem != first.pem, "a restart goes on with the one that was published"
    taken = take_next(first, following)
    assert ensure_certificate(OURS, tmp_path, now=NOW + 3, passwords=PASSWORDS).pem == taken.pem == following.pem
    ((serial, path),) = old_certificates(taken)
    assert serial == first.certificate.serial_number and path.read_text() == first.pem
    assert len(list(tmp_path.iterdir())) == 2
