"""The gateway in a process of its own, as the provider sees it: a socket in the home that answers its calls, and the
child process where the provider starts it.

The order of an end: the child stops listening and ends its requests, whose manifests this process still accepts; then
the socket is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from provider.daemon.gateway_child import GatewayChild
from provider.errors import SettingsError
from provider.gateway.config import GatewayConfig
from provider.gateway.link.server import Call, LinkServer
from provider.gateway.link.wire import Facts, gateway_socket
from provider.gateway.tls import AccountCertificate, ensure_certificate
from provider.metrics import GATEWAY_REFUSED, GATEWAY_STREAMS
from provider.protocols import Clock

__all__ = ["GatewayProcess", "ProvidedCertificate"]

_ABSENT_S = 60.0
_log = structlog.get_logger("gateway")


class ProvidedCertificate:
    """The account certificate that the gateway process serves."""

    def __init__(self, account: AccountCertificate, changed: Callable[[], None]) -> None:
        self.account = account
        self._changed = changed

    def replace(self, account: AccountCertificate) -> None:
        """Serve `account` from the next connection on."""
        self.account = account
        self._changed()


class GatewayProcess:
    """`calls`: what the gateway may ask for. `tenants` and `troubles`: see `Facts`. `child`: None when the operator
    starts `lessor gateway`.
    """

    _served: ProvidedCertificate | None = None

    def __init__(
        self,
        config: GatewayConfig,
        *,
        clock: Clock,
        chain_id: str,
        tenants: Callable[[], frozenset[str]],
        troubles: Callable[[], Mapping[str, str]],
        calls: Mapping[str, Call],
        child: GatewayChild | None,
    ) -> None:
        self.config = config
        self.child = child
        self._clock = clock
        self._chain_id = chain_id
        self._tenants = tenants
        self._troubles = troubles
        self._counts = _GatewayCounts()
        self._link = LinkServer({**calls, "report": self._take_report}, self._facts, ended=self._counts.streams_ended)
        self.listening = asyncio.Event()
        """Set when a gateway has reported its address."""
        self._absent = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the REST listener: as the gateway process reports them, before that as configured."""
        return self._counts.address or (self.config.host, self.config.port)

    @property
    def served(self) -> ProvidedCertificate:
        """The certificate that tenants pin."""
        if self._served is None:
            raise RuntimeError("the gateway is not started")
        return self._served

    async def start(self) -> None:
        """Open the socket. Raises `SettingsError` for a damaged certificate file and for a socket that cannot be."""
        config, path = self.config, gateway_socket(self.config.data_dir)
        account = ensure_certificate(
            config.provider,
            config.data_dir,
            now=self._clock.now(),
            hostname=config.public_hostname,
            passwords=config.certificate_passwords,
        )
        self._served = ProvidedCertificate(account, self._link.changed)
        try:
            await self._link.start(path)
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror or error}; choose a shorter AP_HOME") from error

    async def run(self) -> None:
        """Keep the child running; until cancelled. Then the child is ended, and the socket closed."""
        try:
            await (self.child.run() if self.child is not None else self._warn_of_absence())
        finally:
            await asyncio.shield(self._link.stop())

    def status(self) -> dict[str, Any]:
        """`absent`: no gateway is connected, for a minute at least where the operator starts it. With a child, its
        `GatewayChild.status` too.
        """
        if self.child is not None:
            return {**self.child.status(), "absent": False}
        return {"ends": 0, "exit_code": 0, "running": self._link.connected, "absent": self._absent}

    async def _warn_of_absence(self) -> None:
        """Log when no gateway has been connected for a minute, once each time; for ever."""
        while True:
            await self._clock.sleep(_ABSENT_S)
            absent = not self._link.connected
            if absent and not self._absent:
                remedy = "start `lessor gateway` with this AP_HOME, or set LESSOR_GATEWAY_PROCESS=inside"
                _log.warning("gateway.absent", problem="tenants are answered by nobody", remedy=remedy)
            self._absent = absent

    def _facts(self) -> Facts:
        account = self.served.account
        key = account.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return Facts(
            provider=self.config.provider,
            chain_id=self._chain_id,
            certificate=account.pem,
            key=key,
            tenants=self._tenants(),
            troubles=self._troubles(),
        )

    async def _take_report(self, report: Mapping[str, Any]) -> None:
        self._counts.add(report)
        if not self.listening.is_set():
            _log.info("gateway.process_listening", address="{}:{}".format(*self.address))
            self.listening.set()


class _GatewayCounts:
    """What a gateway process has counted, added to this process's own metrics, and its address."""

    def __init__(self) -> None:
        self.address: tuple[str, int] | None = None
        self._pid = 0
        self._refused: Mapping[str, float] = {}
        """What that process has refused since its start, by reason."""

    def add(self, report: Mapping[str, Any]) -> None:
        host, port = report["address"]
        self.address = (str(host), int(port))
        self._add_refused(int(report["pid"]), dict(report["refused"]))
        for kind, number in report["streams"].items():
            GATEWAY_STREAMS.labels(kind).set(number)

    def _add_refused(self, pid: int, refused: Mapping[str, float]) -> None:
        """Count what is new. What a process refused before its first report is not known to be new."""
        if pid == self._pid:
            for reason, total in refused.items():
                GATEWAY_REFUSED.labels(reason).inc(max(0.0, total - self._refused.get(reason, 0.0)))
        self._pid, self._refused = pid, refused

    def streams_ended(self) -> None:
        """The process is gone, and its streams with it."""
        for sample in (each for metric in GATEWAY_STREAMS.collect() for each in metric.samples):
            GATEWAY_STREAMS.labels(**sample.labels).set(0)
