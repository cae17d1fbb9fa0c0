"""The account certificate in a Secret of the cluster, so that a provider that has lost its home keeps it.

The Secret has the same files as the home, by name: the certificate with its encrypted key, the one that will replace
it, and those that were replaced. At the start the home gets what it lacks; afterwards the Secret follows the home. The
key opens with the account's own key only, and a file of the Go provider may be put there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from provider.daemon.backends import Backends
from provider.daemon.startup import insist
from provider.errors import ClusterError, SettingsError
from provider.gateway.tls import AccountCertificate, kept_certificate, read_certificate
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import SECRET
from provider.waits import GrowingPause
from stacks.common import write_private

__all__ = ["CertificateSecret", "certificate_secret"]

_log = structlog.get_logger(__name__)
_EVERY_S = 5.0
_PAUSE = GrowingPause(first=5.0, longest=300.0)
_ASIDE = ".revoked-"
"""A file that the home keeps for the operator alone."""


def certificate_secret(backends: Backends) -> CertificateSecret | None:
    """None when the settings name no Secret."""
    namespace, _, name = backends.settings.certificate_secret.partition("/")
    if not name:
        return None
    home, passwords = backends.settings.home, backends.certificate_passwords
    return CertificateSecret(backends.cluster, namespace, name, backends.address, home, passwords)


@dataclass(slots=True)
class CertificateSecret:
    """`passwords`: of the certificates' keys. The Secret holds the files of other accounts too, which stay."""

    cluster: Cluster
    namespace: str
    name: str
    owner: str
    home: Path
    passwords: tuple[bytes, ...] = field(default=(), repr=False)
    _written: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    async def take(self, clock: Clock) -> None:
        """Write into the home what it lacks, and the Secret's certificate if it is the newer one.

        A home without a certificate waits for an API server that does not answer, since another certificate would be
        made. Raises `SettingsError` for a damaged certificate in either place, when the other has none.
        """
        own = kept_certificate(self.owner, self.home, passwords=self.passwords)
        try:
            found = await (
                insist(self._read, clock=clock, event="cluster.unreachable") if own is None else self._read()
            )
        except ClusterError as error:
            _log.warning("certificate.secret_unreadable", place=self._place, problem=str(error))
            return
        if not self._use(found, own):
            return
        for name in found.keys() - self._files().keys():
            if self._is_own(name):
                self._place_file(name, found[name])

    def _place_file(self, name: str, content: bytes) -> None:
        write_private(self.home / name, content.decode(errors="replace"))

    def _is_own(self, name: str) -> bool:
        return name.startswith(f"{self.owner}.pem")

    def _use(self, found: Mapping[str, bytes], own: AccountCertificate | None) -> bool:
        """Take the Secret's certificate if it is newer than the home's `own`. False if the Secret's cannot be used."""
        main = f"{self.owner}.pem"
        if main not in found:
            return True
        try:
            kept = read_certificate(
                found[main], self.owner, place=f"{main} in the Secret {self._place}", passwords=self.passwords
            )
        except SettingsError as error:
            if own is None:
                raise
            _log.warning("certificate.secret_damaged", place=self._place, problem=str(error))
            return False
        if own is None or own.certificate.not_valid_before_utc < kept.not_valid_before_utc:
            self._place_file(main, found[main])
            _log.info("certificate.taken", place=self._place, serial=str(kept.serial_number))
        return True

    async def follow(self, clock: Clock) -> None:
        """Write the Secret whenever the home's files are others than at the last time. Runs for ever."""
        failures = 0
        while True:
            pause, failures = _EVERY_S, failures + 1
            try:
                await self.keep()
                failures = 0
            except (ClusterError, OSError) as error:
                pause = _PAUSE.after(failures)
                _log.warning("certificate.not_in_secret", place=self._place, problem=str(error), next_try_s=pause)
            await clock.sleep(pause)

    async def keep(self) -> None:
        """Write the home's files into the Secret, unless they are there. Raises `ClusterError` and OSError."""
        files = self._files()
        if files == self._written or not files:
            return
        found = await self._read()
        others = {name: content for name, content in found.items() if not self._is_own(name)}
        wanted = {**others, **files}
        if wanted != found:
            await self.cluster.apply(self._secret(wanted))
            _log.info("certificate.in_secret", place=self._place, files=sorted(files))
        self._written = files

    @property
    def _place(self) -> str:
        return f"{self.namespace}/{self.name}"

    def _files(self) -> dict[str, bytes]:
        return {
            path.name: path.read_bytes() for path in self.home.glob(f"{self.owner}.pem*") if _ASIDE not in path.name
        }

    async def _read(self) -> dict[str, bytes]:
        """The Secret's files; none without a Secret. Raises `ClusterError`, and `SettingsError` for one that is not
        base64.
        """
        found = await self.cluster.get(SECRET, self.name, namespace=self.namespace)
        data = (found or {}).get("data") or {}
        try:
            return {str(name): base64.b64decode(str(text), validate=True) for name, text in data.items()}
        except binascii.Error as error:
            raise SettingsError(f"the Secret {self._place} cannot be read: {error}") from None

    def _secret(self, files: Mapping[str, bytes]) -> dict[str, object]:
        return {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": {"akash.network": "true"}},
            "type": "Opaque",
            "data": {name: base64.b64encode(content).decode() for name, content in sorted(files.items())},
        }
