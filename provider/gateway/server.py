"""The REST gateway: certificate, routes and listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from provider.gateway.admission import Admission
from provider.gateway.answer_cache import CachedAnswer
from provider.gateway.auth.certificates import CertificateSource, ClientCertificates
from provider.gateway.auth.keys import AccountKeys, KeySource
from provider.gateway.auth.tokens import Tokens
from provider.gateway.config import GatewayConfig
from provider.gateway.intake import Intake
from provider.gateway.lease_objects import ReadLease, lease_reader, manifest_reader
from provider.gateway.listener import TlsListener
from provider.gateway.refusals import Refusals
from provider.gateway.rest.connection import HttpServer
from provider.gateway.rest.dispatch import Dispatcher
from provider.gateway.rest.migration_routes import Migrations, migration_routes
from provider.gateway.rest.open_streams import OpenStreams
from provider.gateway.rest.public_routes import KubeVersion, Metrics, ReadStatus, public_routes
from provider.gateway.rest.routes import Route
from provider.gateway.rest.stream_routes import StreamParts, stream_routes
from provider.gateway.rest.tenant_routes import deployment_routes, lease_routes
from provider.gateway.served_certificates import ServedCertificates
from provider.gateway.streams.kept_events import KeptEvents
from provider.gateway.tenant_limits import TenantLimits
from provider.gateway.tls import AccountCertificate, ensure_certificate
from provider.gateway.turns import Turns
from provider.protocols import Clock, Cluster
from provider.protocols.pods import Pods

__all__ = ["Gateway"]

_DRAIN_S = 10.0
_STATUS_S = 1.0
_VERSION_S = 60.0
"""How long the answers of public routes are kept."""


class AccountsChain(KeySource, CertificateSource, Protocol):
    """The queries about accounts that credentials cause."""


class Gateway:
    """The REST listener. The answers of `status` and `kube_version` are kept for a short time.

    `intake` takes the manifests, `migrations` the claims that a tenant moves. `metrics` makes the answer of `/metrics`,
    which is served if it is given.

    `read_lease` reads the API server by default; a cache fed by watches may replace it. `strangers` is the client for
    queries about accounts that are none of a tenant, which `is_tenant` decides; by default it is `chain`. `refusals`
    counts what is refused here; the intake may count there too. `kept_events`: what the API server has forgotten.
    """

    _server: HttpServer | None = None
    _listener: TlsListener | None = None
    _served: ServedCertificates | None = None

    def __init__(
        self,
        config: GatewayConfig,
        *,
        chain: AccountsChain,
        cluster: Cluster,
        pods: Pods,
        clock: Clock,
        status: ReadStatus,
        kube_version: KubeVersion,
        intake: Intake,
        migrations: Migrations,
        read_lease: ReadLease | None = None,
        strangers: AccountsChain | None = None,
        is_tenant: Callable[[str], bool] = lambda _: False,
        metrics: Metrics | None = None,
        refusals: Refusals | None = None,
        kept_events: KeptEvents | None = None,
    ) -> None:
        self.config = config
        self._clock = clock
        self.intake = intake
        refusals = refusals or Refusals()
        self.admission = Admission(config.connections, refusals)
        self.clients = ClientCertificates(chain, clock, strangers=strangers, is_tenant=is_tenant, refusals=refusals)
        keys = AccountKeys(chain, clock, strangers=strangers, is_tenant=is_tenant, refusals=refusals)
        self.tokens = Tokens(keys, clock, leeway=config.token_leeway_s)
        self._read_manifest = manifest_reader(cluster, config.manifest_namespace)
        self.read_lease = read_lease or lease_reader(cluster, config.manifest_namespace)
        self._streams = OpenStreams(config.streams, refusals)
        self._tenants = TenantLimits(config.tenants, refusals, now=clock.monotonic)
        self.stream_parts = StreamParts(cluster, pods, clock, self.read_lease, kept_events)
        self.status = CachedAnswer(status, clock, seconds=_STATUS_S).get
        self._routes = [*self._build_routes(kube_version, metrics), *migration_routes(config, cluster, migrations)]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listener; the actual port also when the configured one is 0."""
        if self._listener is None:
            raise RuntimeError("the gateway is not started")
        return self._listener.address

    @property
    def served(self) -> ServedCertificates:
        """The certificates that clients get; tenants pin the account certificate."""
        if self._served is None:
            raise RuntimeError("the gateway is not started")
        return self._served

    def limit(self, config: GatewayConfig) -> None:
        """Take other limits of connections, streams and tenants from now on; what is open stays open."""
        self.admission.limits, self._streams.limits = config.connections, config.streams
        self._tenants.limit(config.tenants)

    async def start(self, account: AccountCertificate | None = None) -> None:
        """Listen, with the account certificate of the home by default. Raises `SettingsError` for a damaged certificate
        file and for an address that is not available.
        """
        config = self.config
        account = account or ensure_certificate(
            config.provider,
            config.data_dir,
            now=self._clock.now(),
            hostname=config.public_hostname,
            passwords=config.certificate_passwords,
        )
        dispatcher = Dispatcher(self._routes, self.tokens, provider=config.provider, limits=self._tenants)
        server = self._server = HttpServer(dispatcher, config.limits)
        served = self._served = ServedCertificates(account, hostname=config.public_hostname, files=config.ca_files)
        listener = TlsListener(
            lambda *_: server(),
            served.rest(),
            clients=self.clients,
            admission=self.admission,
            turns=Turns(),
            answers_http=True,
        )
        await listener.start(config.host, config.port, setting="AP_GATEWAY_LISTEN_ADDRESS")
        self._listener = listener

    async def check_certificates(self) -> None:
        """Cut off the connections whose client certificate was revoked; done every 20 seconds too."""
        if self._listener is not None:
            await self._listener.check_certificates()

    async def stop(self) -> None:
        """Stop listening; requests in progress have ten seconds to end."""
        listener, server, self._listener, self._server = self._listener, self._server, None, None
        if listener is not None and server is not None:
            listener.close()
            await asyncio.sleep(0)  # requests that have arrived are started
            self._streams.close()
            server.pre_shutdown()
            await server.shutdown(_DRAIN_S)
            await listener.abort()

    def _build_routes(self, kube_version: KubeVersion, metrics: Metrics | None) -> list[Route]:
        config = self.config
        return [
            *public_routes(
                config,
                self.status,
                CachedAnswer(kube_version, self._clock, seconds=_VERSION_S).get,
                metrics,
            ),
            *deployment_routes(self.intake, config.limits),
            *lease_routes(config, self.read_lease, self._read_manifest),
            *stream_routes(self.stream_parts, self._streams),
        ]
