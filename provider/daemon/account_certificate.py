"""The account certificate on the chain: published at the start, renewed three weeks before its end, and replaced when
the chain calls it revoked. The next certificate is published first and served then, without a restart; the one before
it is revoked three days later.

Stock clients look a provider's certificate up by owner and serial, and end with an error of their own when the chain
does not have it (gateway.md §2.3). A home that was lost has a new certificate, which is published beside the old one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from provider.chain.messages import create_certificate, revoke_certificate
from provider.daemon.backends import Backends
from provider.errors import ChainError, TxRefused
from provider.gateway.config import GatewayConfig
from provider.gateway.served_certificates import ServedAccount
from provider.gateway.tls import AccountCertificate, kept_certificate, next_certificate, old_certificates, take_next
from provider.protocols import Chain, Clock
from provider.protocols.chain import CertificateState
from provider.waits import GrowingPause, jittered

__all__ = ["CertificateOnChain", "publish_certificate", "set_revoked_aside", "watch_certificate"]

_log = structlog.get_logger(__name__)
_PAUSE = GrowingPause(first=2.0, longest=600.0)
_EXISTS = "certificate exists"
_WATCH_S = 3600.0
_START_S = 2.0
"""The listeners open after this question."""
_GRACE_S = 3 * 86400.0
"""Clients look a certificate up when they connect; none is known to keep the answer for a day."""


@dataclass(slots=True)
class CertificateOnChain:
    """`revoked`: whether the chain called the certificate revoked when it was asked last: stock clients refuse it."""

    revoked: bool = False


async def set_revoked_aside(backends: Backends) -> None:
    """Rename the certificate's file when the chain calls the certificate revoked, so that a new one is made. Raises
    `SettingsError` for a damaged file; a chain that does not answer within two seconds changes nothing.
    """
    home, owner = backends.settings.home, backends.address
    account = kept_certificate(owner, home, passwords=backends.certificate_passwords)
    if account is None:
        return
    serial = account.certificate.serial_number
    try:
        async with asyncio.timeout(_START_S):
            state = await backends.chain.certificate_state(owner, serial)
    except (ChainError, TimeoutError) as error:
        problem = str(error) or f"no answer within {_START_S:g} s"
        _log.warning("certificate.state_unknown", problem=problem)
        return
    if state is CertificateState.REVOKED:
        aside = account.path.with_name(f"{account.path.name}.revoked-{serial}")
        account.path.rename(aside)
        _log.warning("certificate.revoked", serial=str(serial), kept_as=str(aside))


async def publish_certificate(chain: Chain, account: AccountCertificate, *, owner: str, clock: Clock) -> None:
    """Bring the certificate onto the chain; tries again until the chain has it."""
    failures = 0
    while True:
        try:
            await _publish(chain, account, owner)
            return
        except ChainError as error:
            failures += 1
            pause = jittered(_PAUSE.after(failures))
            _log.warning("certificate.not_published", problem=str(error), again_in_seconds=round(pause))
        await clock.sleep(pause)


async def watch_certificate(
    chain: Chain, served: ServedAccount, config: GatewayConfig, *, clock: Clock, seen: CertificateOnChain
) -> None:
    """Publish the certificate that is served, then every hour: publish it again when the chain has lost it, renew it
    when it is due or revoked, and revoke those that were replaced. Runs for ever.
    """
    while True:
        owner = config.provider
        await publish_certificate(chain, served.account, owner=owner, clock=clock)
        await _note_state(chain, served.account, owner=owner, seen=seen)
        if seen.revoked or served.account.is_due(clock.now()):
            await _renew(chain, served, config, clock=clock)
            seen.revoked = False
        await _revoke_replaced(chain, served.account, owner=owner, now=clock.now())
        await clock.sleep(_WATCH_S)


async def _renew(chain: Chain, served: ServedAccount, config: GatewayConfig, *, clock: Clock) -> None:
    following = next_certificate(
        config.provider,
        config.data_dir,
        now=clock.now(),
        hostname=config.public_hostname,
        passwords=config.certificate_passwords,
    )
    await publish_certificate(chain, following, owner=config.provider, clock=clock)
    served.replace(take_next(served.account, following))
    certificate = served.account.certificate
    ends = certificate.not_valid_after_utc.isoformat()
    _log.info("certificate.renewed", serial=str(certificate.serial_number), ends=ends)


async def _revoke_replaced(chain: Chain, account: AccountCertificate, *, owner: str, now: float) -> None:
    """Revoke the certificates that were replaced three days ago. What the chain does not take now is tried again."""
    if now < account.certificate.not_valid_before_utc.timestamp() + _GRACE_S:
        return
    for serial, path in old_certificates(account):
        try:
            if await chain.certificate_state(owner, serial) is CertificateState.VALID:
                await chain.broadcast([revoke_certificate(owner, serial)])
                _log.info("certificate.old_revoked", serial=str(serial))
        except ChainError as error:
            _log.warning("certificate.old_not_revoked", serial=str(serial), problem=str(error))
        else:
            path.unlink(missing_ok=True)


async def _note_state(chain: Chain, account: AccountCertificate, *, owner: str, seen: CertificateOnChain) -> None:
    serial = account.certificate.serial_number
    try:
        revoked = await chain.certificate_state(owner, serial) is CertificateState.REVOKED
    except ChainError as error:
        _log.warning("certificate.state_unknown", problem=str(error))
        return
    if revoked and not seen.revoked:
        _log.error("certificate.revoked", serial=str(serial), remedy="none: the provider makes another one")
    seen.revoked = revoked


async def _publish(chain: Chain, account: AccountCertificate, owner: str) -> None:
    serial = account.certificate.serial_number
    if await chain.certificate_state(owner, serial) is not CertificateState.ABSENT:
        return
    message = create_certificate(owner, certificate=account.pem, public_key=account.public_key_pem)
    try:
        sent = await chain.broadcast([message])
    except TxRefused as refusal:
        if _EXISTS not in refusal.log:
            raise
        return
    _log.info("certificate.published", serial=str(serial), height=sent.height, fee=sent.fee)
