"""Exported keys: both derivations, and files that are not exported keys."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hypothesis import given
from hypothesis import strategies as st

from provider.chain.armor import unarmored_key
from provider.chain.keys import load_key
from provider.errors import SettingsError
from provider.settings import Settings

BCRYPT = """-----BEGIN TENDERMINT PRIVATE KEY-----
salt: A790BB721D1C094260EA84F5E5B72289
kdf: bcrypt

HbP+c6JmeJy9JXe2rbbF1QtCX1gLqGcDQPBXiCtFvP7/8wTZtVOPj8vREzhZ9ElO
3P7YnrzPQThG0Q+ZnRSbl9MAS8uFAM4mqm5r/Ys=
=f3l4
-----END TENDERMINT PRIVATE KEY-----
"""
"""The key that the Cosmos SDK's own tests import with the passphrase 123456789."""
INSIDE = "2485e33678db4175dc0ecef2d6e1fc493d4a0d7f7ce83324b6ed70afe77f3485"
SALT = bytes(range(16))


def argon2(inside: bytes, passphrase: str, *, kind: str = "type: secp256k1\n") -> str:
    derived = Argon2id(salt=SALT, length=32, iterations=1, lanes=4, memory_cost=65536).derive(passphrase.encode())
    body = base64.b64encode(ChaCha20Poly1305(derived).encrypt(bytes(12), inside, None)).decode()
    head = f"kdf: argon2\nsalt: {SALT.hex().upper()}\n{kind}"
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    begin, end = (f"-----{word} TENDERMINT PRIVATE KEY-----" for word in ("BEGIN", "END"))
    return "\n".join([begin, head, *lines, "=abcd", end, ""])


AMINO = bytes.fromhex("e1b0f79b20" + INSIDE)


def test_keys_of_older_and_newer_clients_are_opened() -> None:
    assert unarmored_key(BCRYPT, "123456789").hex() == INSIDE
    assert unarmored_key(argon2(AMINO, "a pass phrase"), "a pass phrase").hex() == INSIDE
    assert unarmored_key("\n\n" + argon2(AMINO, "x", kind="").replace("\n", "\r\n"), "x").hex() == INSIDE


GOOD = argon2(AMINO, "x")


@pytest.mark.parametrize(
    ("text", "passphrase", "why"),
    [
        (BCRYPT, "wrong", "does not open"),
        (GOOD, "wrong", "does not open"),
        (GOOD, "", "does not open"),
        (GOOD.replace("argon2", "scrypt"), "x", "'scrypt'; argon2 and bcrypt"),
        (GOOD.replace("secp256k1", "sr25519"), "x", "sr25519"),
        (GOOD.replace("salt:", "pepper:"), "x", "no salt"),
        (GOOD.replace(SALT.hex().upper(), "zz"), "x", "no salt"),
        (GOOD.replace("=abcd\n", "").replace("-----END", "!\n-----END"), "x", "not base64"),
        (argon2(b"\0" * 37, "x"), "x", "does not hold a secp256k1 key"),
        (argon2(AMINO[:-1], "x"), "x", "does not hold a secp256k1 key"),
        (GOOD[:200], "x", "must start with"),
        ("", "x", "must start with"),
        ("-----BEGIN TENDERMINT PRIVATE KEY-----\na: b\nc: d\n-----END TENDERMINT PRIVATE KEY-----", "x", "no salt"),
        ("x" * 10**6, "x", "must start with"),
    ],
)
def test_the_error_for_an_unreadable_key_contains_no_secret(text: str, passphrase: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        unarmored_key(text, passphrase)
    assert INSIDE not in str(error.value)
    assert error.value.__cause__ is None


@given(st.text(max_size=200))
def test_any_text_is_a_key_or_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unarmored_key(f"-----BEGIN TENDERMINT PRIVATE KEY-----\n{text}\n-----END TENDERMINT PRIVATE KEY-----", "x")


def secret(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_an_exported_key_needs_its_passphrase_from_a_private_file(tmp_path: Path) -> None:
    armored, phrase = secret(tmp_path / "key", GOOD), secret(tmp_path / "phrase", "x\n")
    key = load_key(Settings(armored_key_file=armored, passphrase_file=phrase))
    assert key.private_bytes.hex() == INSIDE
    with pytest.raises(SettingsError, match="LESSOR_ARMORED_KEY_FILE: LESSOR_PASSPHRASE_FILE is not set"):
        load_key(Settings(armored_key_file=armored))
    with pytest.raises(SettingsError, match="chmod 600"):
        load_key(Settings(armored_key_file=armored, passphrase_file=secret(tmp_path / "open", "x", 0o644)))
    with pytest.raises(SettingsError, match=r"exactly one of .*LESSOR_ARMORED_KEY_FILE.* are set"):
        load_key(Settings(armored_key_file=armored, private_key_file=armored))
