"""The account of a client certificate, checked against the chain (gateway.md §2.2).

The answer of the chain is kept for 20 seconds, and the certificates of open connections are checked again as often, so
a certificate that is revoked stops working within a minute. The Go provider keeps what it has once seen for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import bech32
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provider.gateway.auth.lookups import Lookups
from provider.gateway.errors import GatewayError
from provider.gateway.refusals import Refusals
from provider.protocols import Clock
from provider.protocols.chain import CertificateState, PublishedCertificate

__all__ = ["CertificateRefusedError", "CertificateSource", "ClientCertificates", "is_account"]

_KNOWN_S = 20.0
_REASON = "client certificates of accounts that are not known"
_MAX_ADDRESS = 90
_BAD_NAME = "tls: invalid certificate's subject common name"
_REVOKED = "tls: attempt to use non-existing or revoked certificate"
_BAD = "tls: unable to verify certificate"
_UNREADABLE = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_ANY = x509.ObjectIdentifier("2.5.29.37.0")


class CertificateRefusedError(GatewayError):
    """A client certificate that proves nothing. The text is one of a few; `advice` says what is wrong with this one and
    what its owner can do.
    """

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(401, text)
        self.advice = advice


class _Unfit(ValueError):
    """A certificate that is published and still proves nothing. The text is the advice to its owner."""


class CertificateSource(Protocol):
    async def certificate(self, owner: str, serial: int) -> PublishedCertificate | None: ...


class ClientCertificates:
    """Finds the accounts of client certificates. `chain` answers for accounts that `is_tenant` knows, `strangers` for
    all others.
    """

    def __init__(
        self,
        chain: CertificateSource,
        clock: Clock,
        *,
        strangers: CertificateSource | None = None,
        is_tenant: Callable[[str], bool] = lambda _: False,
        refusals: Refusals | None = None,
    ) -> None:
        async def ask(key: tuple[str, int], tenant: bool) -> PublishedCertificate | None:
            return await (chain if tenant else strangers or chain).certificate(*key)

        self._clock = clock
        self._is_tenant = is_tenant
        self._lookups = Lookups(ask, clock, known_s=_KNOWN_S, reason=_REASON, refusals=refusals or Refusals())

    async def account(self, presented: Sequence[x509.Certificate], *, peer: str = "") -> str:
        """The account whose certificate is presented. Raises `CertificateRefusedError`, `ChainError`, and `AuthError`
        429 when the budget for strangers, or that of `peer`, is used up.
        """
        certificate = _only(presented)
        owner, serial = _owner(certificate), certificate.serial_number
        published = await self._lookups.get((owner, serial), tenant=self._is_tenant(owner), peer=peer)
        if published is None or published.state is not CertificateState.VALID:
            raise CertificateRefusedError(_REVOKED, _unpublished(owner, serial, published))
        try:
            _check(certificate, published, datetime.fromtimestamp(self._clock.now(), UTC))
        except _UNREADABLE as error:
            raise CertificateRefusedError(_BAD, str(error) if isinstance(error, _Unfit) else "") from error
        return owner


def _unpublished(owner: str, serial: int, published: PublishedCertificate | None) -> str:
    if published is None:
        return f"{owner} has published no certificate with serial {serial}: publish it, or send a token"
    return f"{owner} has revoked its certificate with serial {serial}: make and publish another one, or send a token"


def _only(presented: Sequence[x509.Certificate]) -> x509.Certificate:
    if len(presented) != 1:
        many = "too many peer certificates" if presented else "empty peer certificate(s)"
        raise CertificateRefusedError(f"tls: {many}")
    return presented[0]


def _owner(certificate: x509.Certificate) -> str:
    """The account that the certificate names. Raises `CertificateRefusedError` unless subject and issuer name it."""
    try:
        names = {_common_name(certificate.subject), _common_name(certificate.issuer)}
    except _UNREADABLE as error:
        raise CertificateRefusedError(_BAD_NAME) from error
    owner = names.pop()
    if names or not is_account(owner):
        raise CertificateRefusedError(_BAD_NAME, "subject and issuer must be the account that has published it")
    return owner


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""  # Go keeps the last one


def _check(certificate: x509.Certificate, published: PublishedCertificate, now: datetime) -> None:
    """Raise `_Unfit`, ValueError or InvalidSignature unless the certificate is the published one, is signed by the
    published key, holds at `now` and is for clients. The chain checks neither dates nor purposes.
    """
    root = x509.load_pem_x509_certificate(published.certificate)
    if certificate.public_bytes(Encoding.DER) != root.public_bytes(Encoding.DER):
        raise _Unfit("the account has published another certificate with this serial")
    pem = published.public_key.replace(b" EC PUBLIC KEY-----", b" PUBLIC KEY-----")
    key = load_pem_public_key(pem)
    if not isinstance(key, EllipticCurvePublicKey):
        raise ValueError("not an ECDSA key")
    key.verify(certificate.signature, certificate.tbs_certificate_bytes, ECDSA(SHA256()))
    if certificate.not_valid_after_utc < now:
        raise _Unfit(f"it ended at {_written(certificate.not_valid_after_utc)}: make and publish another one")
    if now < certificate.not_valid_before_utc:
        raise _Unfit(f"it begins at {_written(certificate.not_valid_before_utc)}, and here it is {_written(now)}")
    if not _for_clients(certificate):
        raise _Unfit("it is not for clients (clientAuth): make and publish another one")


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _for_clients(certificate: x509.Certificate) -> bool:
    try:
        purposes = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return True
    return bool(purposes & {ExtendedKeyUsageOID.CLIENT_AUTH, _ANY})


def is_account(address: str) -> bool:
    """Whether `address` is an account's address of this chain, in bech32."""
    if len(address) > _MAX_ADDRESS or address != address.lower():
        return False
    prefix, data = bech32.bech32_decode(address)
    return prefix == "akash" and data is not None and bool(bech32.convertbits(data, 5, 8, False))
