"""The configuration of the gateway, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from provider.claims.hostnames import HostnameRules, hostname_rules
from provider.gateway.admission import ConnectionLimits
from provider.gateway.issuer.config import issued_certificate
from provider.gateway.tenant_limits import TenantRates
from provider.settings import Settings

__all__ = ["CaFiles", "GatewayConfig", "Limits", "StreamLimits", "gateway_config"]

_AT_ONCE_S = 4
"""A tenant may send the requests of so many seconds at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in bytes and seconds, of one connection; `manifest_seconds` and `header_seconds` as in the Go provider
    (gateway.md §1, §3.4). `behind_pauses`: the pauses after which the chain is asked again about a lease or a manifest
    that it does not know, since the node may be a block behind the tenant's.
    """

    manifest_bytes: int = 2 * 1024 * 1024
    small_body_bytes: int = 64 * 1024
    header_bytes: int = 64 * 1024
    headers: int = 128
    header_seconds: float = 3.0
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    write_seconds: float = 20.0
    manifest_seconds: float = 120.0
    behind_pauses: tuple[float, ...] = (0.5, 1.0, 2.0, 3.5)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Streams at one time; seconds between pings (gateway.md §3.8), and of a shell without input and output."""

    streams: int = 1000
    of_one_tenant: int = 256
    ping_seconds: float = 10.0
    shell_idle_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class CaFiles:
    """PEM files: the certificate that a CA signed for the public hostname, with the chain above it, and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """`provider`: the provider's bech32 address. `data_dir`: the folder of the account certificate. The key of the
    certificate is written with the first of `certificate_passwords` and read with any of them. `ca_files`: the CA's
    certificate for `public_hostname`.

    `hostnames.blocked`: "name" blocks that host, ".name" the domain and its apex (sdl-and-manifest.md §5.5). With
    `static_hosts` every HTTP expose gets a hostname of the provider; without it the tenant must name one.
    """

    provider: str
    data_dir: Path
    host: str = "0.0.0.0"  # noqa: S104 (the documented default bind, gateway.md §1)
    port: int = 8443
    manifest_namespace: str = "lease"
    public_hostname: str = ""
    hostnames: HostnameRules = HostnameRules()  # noqa: RUF009 (frozen)
    static_hosts: bool = False
    leased_ips: bool = True
    reclamation_window_ns: int = 0
    token_leeway_s: float = 5.0
    limits: Limits = Limits()
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    streams: StreamLimits = StreamLimits()
    tenants: TenantRates = TenantRates()  # noqa: RUF009 (frozen)
    certificate_passwords: tuple[bytes, ...] = field(default=(), repr=False)
    ca_files: CaFiles | None = None


def gateway_config(settings: Settings, provider: str, *, passwords: tuple[bytes, ...] = ()) -> GatewayConfig:
    """The gateway's part of the settings, for the provider with this address."""
    host, _, port = settings.gateway_listen.rpartition(":")
    certificate, key = settings.gateway_tls_cert or issued_certificate(settings), settings.gateway_tls_key
    return GatewayConfig(
        provider=provider,
        data_dir=settings.home,
        host=host.strip("[]"),
        port=int(port),
        manifest_namespace=settings.manifest_namespace,
        public_hostname=settings.public_hostname,
        hostnames=hostname_rules(settings),
        static_hosts=settings.ingress_static_hosts,
        leased_ips=settings.addresses_leased,
        reclamation_window_ns=int(settings.reclamation_window) * 10**9,
        token_leeway_s=settings.gateway_token_leeway,
        connections=ConnectionLimits(settings.gateway_connections, settings.gateway_connections_of_address),
        streams=StreamLimits(
            settings.gateway_streams,
            settings.gateway_streams_of_tenant,
            shell_idle_seconds=settings.gateway_shell_idle,
        ),
        tenants=TenantRates(
            settings.gateway_requests_of_tenant * _AT_ONCE_S,
            settings.gateway_requests_of_tenant,
            settings.gateway_connections_of_tenant,
        ),
        certificate_passwords=passwords,
        ca_files=CaFiles(certificate, key or certificate) if certificate is not None else None,
    )
