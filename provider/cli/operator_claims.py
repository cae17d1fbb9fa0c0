"""`lessor operator hostname` and `lessor operator ip`, each until a signal ends it (operators.md §1.3, §3, §4)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, Protocol, TypeAlias

from provider.cli.flags import flag
from provider.cli.output import failure
from provider.cli.signals import until_signal
from provider.errors import SettingsError
from provider.gateway.rest.public_routes import own_version
from provider.kube.client import KubeCluster
from provider.observe.logs import configure_logging
from provider.operators.hostname.operator import HostnameOperator, edge_checks
from provider.operators.ignore_list import IgnoreLimits
from provider.operators.ip.operator import IpOperator
from provider.operators.process import OperatorOptions
from provider.protocols import Clock, Cluster
from provider.protocols.clock import SystemClock
from provider.settings import Settings, load_settings
from provider.units import parse_duration

__all__ = ["hostname", "ip"]

_ACCOUNT = re.compile(r"akash1[02-9ac-hj-np-z]{38}")


class _Operator(Protocol):
    async def run(self) -> None: ...


_Make: TypeAlias = Callable[[Settings, Cluster, Clock], _Operator]
_Address = Annotated[str, flag("rest-address", "Address of HTTP and gRPC.")]
_RestPort = Annotated[int, flag("rest-port", "Port of HTTP.", min=0, max=65535)]
_GrpcPort = Annotated[int, flag("grpc-port", "Port of gRPC.", min=0, max=65535)]
_Prune = Annotated[str, flag("prune-interval", "How often old entries of the list of ignored leases are dropped.")]
_Refresh = Annotated[str, flag("web-refresh-interval", "How often the served bodies are made, if something changed.")]
_Entries = Annotated[int, flag("ignore-list-entry-limit", "The most entries of the list of ignored leases.", min=1)]
_Age = Annotated[str, flag("ignore-list-age-limit", "How long an entry stays on the list of ignored leases.")]
_Failures = Annotated[int, flag("event-failure-limit", "A lease with so many errors is ignored.", min=1)]


def hostname(
    *,
    address: _Address = "0.0.0.0",  # noqa: S104  a pod's own address
    rest_port: _RestPort = 8080,
    grpc_port: _GrpcPort = 8081,
    prune: _Prune = "10m",
    refresh: _Refresh = "5s",
    entries: _Entries = 131_072,
    age: _Age = "726h",
    failures: _Failures = 3,
    check: Annotated[str, flag("hostname-check-interval", "How often each hostname is checked; 0: never.")] = "5m",
) -> None:
    """Run the hostname operator: check tenants' hostnames, and serve what is known of them.

    The results go into the status of each ProviderHost.

    A check compares the DNS entry with LESSOR_EDGE_ADDRESSES and asks the provider's own edge (LESSOR_EDGE_ENDPOINT,
    LESSOR_EDGE_TLS_ENDPOINT). It never connects to what a hostname resolves to.
    """
    options = _options(address, rest_port, grpc_port, prune=prune, refresh=refresh, limits=(failures, entries, age))
    check_s = _seconds("hostname-check-interval", check)

    def make(settings: Settings, cluster: Cluster, clock: Clock) -> _Operator:
        checks = edge_checks(settings)
        version = own_version()
        return HostnameOperator(
            settings, cluster, clock, version=version, checks=checks, options=options, check_s=check_s
        )

    _run(make)


def ip(
    *,
    address: _Address = "0.0.0.0",  # noqa: S104  a pod's own address
    rest_port: _RestPort = 8080,
    grpc_port: _GrpcPort = 8081,
    prune: _Prune = "10m",
    refresh: _Refresh = "5s",
    entries: _Entries = 131_072,
    age: _Age = "726h",
    failures: _Failures = 3,
    provider: Annotated[str, flag("provider", "Account of the provider, akash1…; needed.")] = "",
) -> None:
    """Run the IP operator: serve the state and the usage of leased addresses."""
    options = _options(address, rest_port, grpc_port, prune=prune, refresh=refresh, limits=(failures, entries, age))
    if not _ACCOUNT.fullmatch(provider):
        raise failure(SettingsError(f"--provider={provider}: must be the provider's account, akash1…"))

    def make(settings: Settings, cluster: Cluster, clock: Clock) -> _Operator:
        return IpOperator(settings, cluster, clock, provider=provider, version=own_version(), options=options)

    _run(make)


def _options(
    address: str, rest_port: int, grpc_port: int, *, prune: str, refresh: str, limits: tuple[int, int, str]
) -> OperatorOptions:
    failures, entries, age = limits
    return OperatorOptions(
        address,
        rest_port,
        grpc_port,
        prune_s=max(1.0, _seconds("prune-interval", prune)),
        refresh_s=max(0.05, _seconds("web-refresh-interval", refresh)),
        limits=IgnoreLimits(failures, entries, _seconds("ignore-list-age-limit", age)),
    )


def _seconds(name: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise failure(SettingsError(f"--{name}={text}: {error}")) from None


def _run(make: _Make) -> None:
    try:
        settings = load_settings()
        configure_logging(form=settings.log_format, level=settings.log_level)
        asyncio.run(until_signal(_observe(make, settings), what="operator"))
    except SettingsError as error:
        raise failure(error) from None


async def _observe(make: _Make, settings: Settings) -> None:
    cluster = KubeCluster(settings.kubeconfig)
    try:
        await make(settings, cluster, SystemClock()).run()
    finally:
        await cluster.aclose()
