"""Keys are read from a keyring folder of the Cosmos SDK where they lie."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from cosmpy.protos.cosmos.crypto.keyring.v1.record_pb2 import Record
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PrivKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.keywrap import aes_key_wrap
from google.protobuf.any_pb2 import Any as AnyMessage

from provider.chain.keyring import known_password, ring_key
from provider.chain.keys import load_key
from provider.errors import SettingsError
from provider.settings import load_settings

KEY = bytes(range(1, 33))
PASSPHRASE = "correct horse"
BY_JOSE2GO = (
    "eyJhbGciOiJQQkVTMi1IUzI1NitBMTI4S1ciLCJjcmVhdGVkIjoiMjAyNi0wMS0wMSAwMDowMDowMCArMDAwMCBVVEMiLCJlbmMiOiJBMjU2R0NN"
    "IiwicDJjIjo4MTkyLCJwMnMiOiJ4WGR3OXBUd3VMaHNGZ0czIn0.6EPPf58kPMkoI35v5Xtj6amFdzYjarHTRHKeqE5wJIxyXOZ2KoTOWg.RLkMSP"
    "sM4urLAIoj.mw_vk9bFe0cqdHwO0xAyRythSokIFfVPik2nNRQpDJ8LmXGWMs7ty1JcY9psf68MF2rhwLHxUMPGbJt2QLEWZJlH6kqtoICteTEw8"
    "7PT9YPQCyTfebTNe7WwXLOtvne-sBUguuTCnt-I1j2TKnVKsKjZLHcKt3djU4H4IK1o2-lumcIYysNLrpGkuq2JtaQm6T6n8T_1eqIPhW3rTUl7wJ"
    "ppfROmCAihcxVK9K6TFL37oRngsiWsGc9FLcJX49uTe7D3S8Pc2Y_ZG10z2Az5uIfpiuhoJcKeb0BQtiX67Y8BQzV38W7y3SPDjpftkrqNO4nz.q2"
    "D69Aw9qthxcqZx2avt8Q"
)
"""What jose2go 1.6.0, the library of the SDK's keyring, made of a record with KEY."""


def plain(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def sealed(document: object, passphrase: str = PASSPHRASE, **header: object) -> str:
    """A file as the SDK writes it."""
    algorithm, salt = "PBES2-HS256+A128KW", os.urandom(12)
    fields = {"alg": algorithm, "enc": "A256GCM", "p2c": 1000, "p2s": plain(salt)} | header
    head = plain(json.dumps(fields).encode())
    wrapping = PBKDF2HMAC(SHA256(), length=16, salt=algorithm.encode() + b"\0" + salt, iterations=1000)
    key, nonce = os.urandom(32), os.urandom(12)
    text = AESGCM(key).encrypt(nonce, json.dumps(document).encode(), head.encode())
    wrapped = aes_key_wrap(wrapping.derive(passphrase.encode()), key)
    return ".".join((head, plain(wrapped), plain(nonce), plain(text[:-16]), plain(text[-16:])))


def item(record: Record) -> dict[str, str]:
    return {"Key": f"{record.name}.info", "Data": base64.b64encode(record.SerializeToString()).decode()}


def local(kind: str = "/cosmos.crypto.secp256k1.PrivKey") -> Record:
    record = Record(name="provider")
    record.local.priv_key.CopyFrom(AnyMessage(type_url=kind, value=PrivKey(key=KEY).SerializeToString()))
    return record


def test_a_file_of_the_library_that_the_sdk_uses_is_opened() -> None:
    assert ring_key(BY_JOSE2GO, PASSPHRASE) == KEY
    assert ring_key(sealed(item(local())), PASSPHRASE) == KEY


def test_a_wrong_passphrase_and_any_changed_character_are_refused_without_a_secret_in_the_text() -> None:
    for text, passphrase in (
        (BY_JOSE2GO, "wrong"),
        (BY_JOSE2GO[:-3] + "AAA", PASSPHRASE),
        (BY_JOSE2GO.replace(".RLkM", ".AAAA"), PASSPHRASE),
        (BY_JOSE2GO.replace("6EPPf", "6EPPg"), PASSPHRASE),
    ):
        with pytest.raises(ValueError, match="does not open this key") as refused:
            ring_key(text, passphrase)
        assert passphrase not in str(refused.value)


HOSTILE = {
    "nothing": ("", "five parts"),
    "no base64": ("a.b!.c.d.e", "base64"),
    "no document": (f"{plain(b'[]')}.AAAA.AAAA.AAAA.AAAA", "does not open"),
    "another algorithm": (sealed({}, alg="dir"), "not encrypted with"),
    "work without end": (sealed({}, p2c=10**12), "does not open"),
    "no work": (sealed({}, p2c=0), "does not open"),
    "no item": (sealed([]), "does not open"),
    "no data": (sealed({"Data": "!"}), "no key record"),
    "an older record": (sealed({"Data": base64.b64encode(b"\xff\xff").decode()}), "keys export"),
    "a device": (sealed(item(Record(name="ledger", ledger=Record.Ledger()))), "no private key"),
    "another kind of key": (sealed(item(local("/cosmos.crypto.ed25519.PrivKey"))), "secp256k1 is needed"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_holds_no_such_key_is_refused_by_its_reason(case: str) -> None:
    text, reason = HOSTILE[case]
    with pytest.raises(ValueError, match=reason):
        ring_key(text, PASSPHRASE)


def test_the_keyring_for_tests_has_a_password_that_everybody_knows() -> None:
    assert known_password(Path("/root/.akash/keyring-test/provider.info")) == "test"
    assert known_password(Path("/root/.akash/keyring-file/provider.info")) is None


@pytest.mark.parametrize("folder", ["keyring-file", "keyring-test"])
def test_the_setting_names_the_file_where_it_lies(folder: str, tmp_path: Path) -> None:
    home = tmp_path / ".akash" / folder
    home.mkdir(parents=True)
    ring, secret = home / "provider.info", tmp_path / "passphrase"
    ring.write_text(sealed(item(local()), "test" if folder == "keyring-test" else PASSPHRASE))
    secret.write_text(f"{PASSPHRASE}\n")
    for path in (ring, secret):
        path.chmod(0o600)
    if folder == "keyring-test":
        assert load_key(load_settings(keyring_file=ring)).private_bytes == KEY
        return
    with pytest.raises(SettingsError, match="LESSOR_PASSPHRASE_FILE"):
        load_key(load_settings(keyring_file=ring))
    assert load_key(load_settings(keyring_file=ring, passphrase_file=secret)).private_bytes == KEY
