"""When a certificate is ordered: at the start when there is none, and when a third of its life is left.

An order that fails is repeated after growing pauses, or when the CA allows it again, which is written down so that a
provider that starts again and again keeps to it. The gateway serves what it has meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued
from provider.protocols import Clock
from provider.waits import GrowingPause, jittered
from stacks.common import write_private

__all__ = ["CertificateIssuer", "Order"]

Order: TypeAlias = Callable[[IssuerConfig, Clock], Awaitable[str]]
_LEFT = 1 / 3
_URGENT = 1 / 6
"""Shares of a certificate's life."""
_PAUSE = GrowingPause(first=60.0, longest=6 * 3600.0)
_LOOK_S = 3600.0
"""The clock is read again after so long; and no two certificates are ordered within it."""
_LONGEST_PAUSE_S = 7 * 86400.0
"""The longest limit that is known of a CA."""
_log = structlog.get_logger("gateway")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The certificate that there is; Unix seconds."""

    begins: float
    ends: float

    def left(self, share: float) -> float:
        """The time at which this share of its life is left."""
        return self.ends - share * (self.ends - self.begins)


class CertificateIssuer:
    """`order` makes the certificate, by ACME."""

    def __init__(self, config: IssuerConfig, clock: Clock, *, order: Order) -> None:
        self.config = config
        self._clock = clock
        self._order = order
        self._failures = 0
        self._refused: NotIssued | None = None
        self._next_try = self._demanded()

    async def run(self) -> None:
        """Keep the certificate valid; for ever."""
        while True:
            now, kept = self._clock.now(), self._kept()
            due = kept.left(_LEFT) if kept is not None else now
            begins = max(due, min(self._next_try, now + _LONGEST_PAUSE_S))
            if begins <= now:
                await self._try()
            else:
                await self._clock.sleep(min(begins - now, _LOOK_S))

    def status(self) -> dict[str, Any]:
        """The trouble with the last order. `urgent`: the certificate has ended or will soon, or there is none."""
        now, kept, refused = self._clock.now(), self._kept(), self._refused
        return {
            "names": list(self.config.names),
            "problem": refused.problem if refused is not None else "",
            "remedy": refused.remedy if refused is not None else "",
            "failures": self._failures,
            "next_try_s": max(0.0, round(self._next_try - now)),
            "urgent": kept is None or now > kept.left(_URGENT),
        }

    async def _try(self) -> None:
        try:
            text = await self._order(self.config, self._clock)
            self._keep(text)
        except NotIssued as error:
            self._note(error)
        except OSError as error:
            self._note(NotIssued(f"{self.config.folder}: {error.strerror or error}", "make room, or correct AP_HOME"))
        except Exception as error:  # a defect must not end the provider
            self._note(NotIssued(f"{type(error).__name__}: {error}", "report this defect"))

    def _keep(self, text: str) -> None:
        self.config.folder.mkdir(mode=0o700, exist_ok=True)
        write_private(self.config.certificate, text)
        self._failures, self._refused = 0, None
        self._next_try = self._clock.now() + _LOOK_S
        _log.info("gateway.certificate_issued", names=list(self.config.names), file=str(self.config.certificate))

    def _note(self, error: NotIssued) -> None:
        self._failures, self._refused = self._failures + 1, error
        demanded = min(error.retry_after_s, _LONGEST_PAUSE_S)
        pause = max(jittered(_PAUSE.after(self._failures)), demanded)
        self._next_try = self._clock.now() + pause
        if demanded:
            self._write_down()
        details = {"names": list(self.config.names), "problem": error.problem, "remedy": error.remedy}
        _log.error("gateway.certificate_not_issued", next_try_s=round(pause), **details)

    def _kept(self) -> _Kept | None:
        """None for no certificate, one of other names, or a damaged file."""
        try:
            content = self.config.certificate.read_bytes()
            found, key = x509.load_pem_x509_certificate(content), load_pem_private_key(content, password=None)
            alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
            return None
        named = set(alternatives.get_values_for_type(x509.DNSName))
        if not set(self.config.names) <= named or key.public_key() != found.public_key():
            return None
        return _Kept(found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp())

    def _write_down(self) -> None:
        with suppress(OSError):  # it is known until the process ends
            self.config.folder.mkdir(mode=0o700, exist_ok=True)
            write_private(self.config.folder / "next-try.json", json.dumps({**self._mark(), "at": self._next_try}))

    def _demanded(self) -> float:
        """Until when the CA demanded to be left alone; 0 when it did not, or about another order."""
        try:
            found = json.loads((self.config.folder / "next-try.json").read_bytes())
            return float(found["at"]) if {**self._mark(), "at": found["at"]} == found else 0.0
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return 0.0

    def _mark(self) -> dict[str, Any]:
        return {"directory": self.config.directory, "names": list(self.config.names)}
