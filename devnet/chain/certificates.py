"""`akash.cert.v1`: certificates of accounts (chain.md §4.4, recorded correction 14). The module emits no events."""

from __future__ import annotations

import base64
import re

from akash.cert.v1.types_pb2 import Certificate, State
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key
from cryptography.x509.oid import NameOID

from devnet.chain.context import Context
from devnet.chain.errors import Kind, Refused, undefined
from devnet.chain.ids import INVALID_ADDRESS
from devnet.chain.keys import bech32_complaint, valid_address
from devnet.chain.wire import Message

__all__ = ["check_create", "check_revoke", "handle_create", "handle_revoke", "serial_of"]

_NOT_FOUND = Kind("cert", 1, "certificate not found")
_EXISTS = Kind("cert", 3, "certificate exists")
_REVOKED = Kind("cert", 4, "certificate already revoked")
_BAD_SERIAL = Kind("cert", 5, "invalid serial number")
_BAD_CERTIFICATE = Kind("cert", 6, "invalid certificate value")
_BAD_KEY = Kind("cert", 7, "invalid pubkey value")
_PEM = re.compile(
    rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----\s*\n(?P<body>[A-Za-z0-9+/=\s]*?)-----END (?P=label)-----[ \t]*\n?"
)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,100}")
_SEQUENCE = 0x30


def check_create(msg: Message) -> None:
    """Check `MsgCreateCertificate` before a block: the key, then the certificate that the key must have signed."""
    if not valid_address(msg.owner):
        raise INVALID_ADDRESS("MsgCreateCertificate: Invalid Owner Address")
    key = _public_key(_one_block(msg.pubkey, "EC PUBLIC KEY", _BAD_KEY))
    certificate = _certificate(_one_block(msg.cert, "CERTIFICATE", _BAD_CERTIFICATE))
    try:
        key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise undefined("invalid certificate value: invalid certificate signature") from None
    name = _common_name(certificate)
    if not valid_address(name):
        raise undefined(f"invalid certificate value: decoding bech32 failed: {bech32_complaint(name)}")
    if name != msg.owner:
        raise undefined("invalid certificate value: CommonName does not match owner")


def check_revoke(msg: Message) -> None:
    """Check `MsgRevokeCertificate` before a block."""
    if not valid_address(msg.id.owner):
        raise INVALID_ADDRESS("MsgRevokeCertificate: Invalid Owner Address")
    if serial_of(msg.id.serial) is None:
        raise _BAD_SERIAL()


def handle_create(ctx: Context, msg: Message) -> None:
    """Store the certificate. An owner can use a serial once, even if its certificate is revoked."""
    serial = _certificate(_one_block(msg.cert, "CERTIFICATE", _BAD_CERTIFICATE)).serial_number
    if ctx.get("certificate", msg.owner, serial) is not None:
        raise _EXISTS()
    row = Certificate(state=State.valid, cert=msg.cert, pubkey=msg.pubkey)
    ctx.put("certificate", msg.owner, serial, value=row)


def handle_revoke(ctx: Context, msg: Message) -> None:
    serial = serial_of(msg.id.serial)
    row = ctx.get("certificate", msg.id.owner, serial)
    if row is None:
        raise _NOT_FOUND()
    if row.state == State.revoked:
        raise _REVOKED()
    changed = Certificate(state=State.revoked, cert=row.cert, pubkey=row.pubkey)
    ctx.put("certificate", msg.id.owner, serial, value=changed)


def serial_of(text: str) -> int | None:
    """The decimal serial; None if it is not a number."""
    return int(text) if _DECIMAL.fullmatch(text) else None


def _one_block(data: bytes, label: str, kind: Kind) -> bytes:
    """The bytes of the only PEM block. Text before it is skipped, as in Go; text after it is refused."""
    match = _PEM.search(data)
    if match is None or data[match.end() :]:
        raise kind()
    if match["label"].decode() != label:
        raise undefined(f"{kind.text}: invalid pem block type")
    try:
        return base64.b64decode(b"".join(match["body"].split()), validate=True)
    except ValueError:
        raise kind() from None


def _public_key(der: bytes) -> ec.EllipticCurvePublicKey:
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        raise _malformed_key(der) from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise undefined("invalid pubkey value: invalid public key type")
    return key


def _malformed_key(der: bytes) -> Refused:
    """Go's error for bytes that do not begin as a sequence; Go's other errors are too many to reproduce."""
    head = der[:2].ljust(2, b"\0")
    if head[0] == _SEQUENCE:
        return undefined("invalid pubkey value: asn1: syntax error: data truncated")
    found = f"class:{head[0] >> 6} tag:{head[0] & 31} length:{head[1]} isCompound:{str(bool(head[0] & 32)).lower()}"
    options = (
        "optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> "
        "stringType:0 timeType:0 set:false omitEmpty:false"
    )
    text = f"asn1: structure error: tags don't match (16 vs {{{found}}}) {{{options}}} publicKeyInfo @2"
    return undefined(f"invalid pubkey value: {text}")


def _certificate(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise undefined("x509: malformed certificate") from None


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""
