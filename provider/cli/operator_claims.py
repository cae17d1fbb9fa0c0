"""`lessor operator hostname` and `lessor operator ip`, each until a signal ends it (operators.md §1.3, §3, §4)."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol, TypeAlias

import structlog

from provider.cli.flags import flag
from provider.cli.output import failure
from provider.cli.signals import until_signal
from provider.errors import ClusterError, SettingsError
from provider.gateway.rest.public_routes import own_version
from provider.kube.client import KubeCluster
from provider.observe.logs import configure_logging
from provider.operators.hostname.operator import HostnameOperator, edge_checks
from provider.operators.ignore_list import IgnoreLimits
from provider.operators.ip.operator import IpOperator
from provider.operators.own_pod import container_port, own_container
from provider.operators.process import OperatorOptions
from provider.protocols import Clock, Cluster
from provider.protocols.clock import SystemClock
from provider.settings import Settings, load_settings
from provider.units import parse_duration

__all__ = ["SharedOptions", "hostname", "ip"]

_REST_PORT, _GRPC_PORT = 8080, 8081
_log = structlog.get_logger(__name__)
_ACCOUNT = re.compile(r"akash1[02-9ac-hj-np-z]{38}")


class _Operator(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """What both commands take. A port of None is that of the own container, else the usual one."""

    options: OperatorOptions
    rest_port: int | None
    grpc_port: int | None
    pod: str
    namespace: str

    async def known(self, cluster: Cluster, container: str) -> OperatorOptions:
        """The options with the ports that the container of the own pod names, where they were not given."""
        found: Mapping[str, Any] = {}
        try:
            found = await own_container(cluster, container, pod=self.pod, namespace=self.namespace)
        except ClusterError as error:
            _log.warning("operator.own_pod_unreadable", pod=self.pod, problem=str(error))
        rest, grpc = container_port(found, "rest", _REST_PORT), container_port(found, "grpc", _GRPC_PORT)
        return replace(
            self.options,
            rest_port=rest if self.rest_port is None else self.rest_port,
            grpc_port=grpc if self.grpc_port is None else self.grpc_port,
        )


_Make: TypeAlias = Callable[[Settings, Cluster, Clock, OperatorOptions], _Operator]
_PORT = "default: that of the own container, else"


def _shared(
    *,
    address: Annotated[str, flag("rest-address", "Address of HTTP and gRPC.")] = "0.0.0.0",  # noqa: S104  a pod's own
    rest_port: Annotated[
        int | None, flag("rest-port", f"Port of HTTP; {_PORT} {_REST_PORT}.", min=0, max=65535)
    ] = None,
    grpc_port: Annotated[
        int | None, flag("grpc-port", f"Port of gRPC; {_PORT} {_GRPC_PORT}.", min=0, max=65535)
    ] = None,
    prune: Annotated[
        str, flag("prune-interval", "How often old entries of the list of ignored leases are dropped.")
    ] = "10m",
    refresh: Annotated[
        str, flag("web-refresh-interval", "How often the served bodies are made, if something changed.")
    ] = "5s",
    entries: Annotated[
        int, flag("ignore-list-entry-limit", "The most entries of the list of ignored leases.", min=1)
    ] = 131_072,
    age: Annotated[
        str, flag("ignore-list-age-limit", "How long an entry stays on the list of ignored leases.")
    ] = "726h",
    failures: Annotated[int, flag("event-failure-limit", "A lease with so many errors is ignored.", min=1)] = 3,
    pod: Annotated[str, flag("pod-name", "The pod in which this process runs, for its ports.")] = "",
    namespace: Annotated[str, flag("pod-namespace", "The namespace of that pod.")] = "akash-services",
) -> SharedOptions:
    """The options that both commands have."""
    options = OperatorOptions(
        address,
        prune_s=max(1.0, _seconds("prune-interval", prune)),
        refresh_s=max(0.05, _seconds("web-refresh-interval", refresh)),
        limits=IgnoreLimits(failures, entries, _seconds("ignore-list-age-limit", age)),
    )
    return SharedOptions(options, rest_port, grpc_port, pod, namespace)


def _with_shared(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `_shared` before its own; it gets their result as its first argument."""
    common = inspect.signature(_shared, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    def run(**given: Any) -> None:
        command(_shared(**{name: given.pop(name) for name in common}), **given)

    run.__signature__ = inspect.Signature([*common.values(), *own])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*common.values(), *own)}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


@_with_shared
def hostname(
    shared: SharedOptions,
    *,
    check: Annotated[str, flag("hostname-check-interval", "How often each hostname is checked; 0: never.")] = "5m",
) -> None:
    """Run the hostname operator: check tenants' hostnames, and serve what is known of them.

    The results go into the status of each ProviderHost.

    A check compares the DNS entry with LESSOR_EDGE_ADDRESSES and asks the provider's own edge (LESSOR_EDGE_ENDPOINT,
    LESSOR_EDGE_TLS_ENDPOINT). It never connects to what a hostname resolves to.

    Example: `lessor operator hostname --rest-port 8085`
    """
    check_s = _seconds("hostname-check-interval", check)

    def make(settings: Settings, cluster: Cluster, clock: Clock, options: OperatorOptions) -> _Operator:
        checks = edge_checks(settings)
        version = own_version()
        return HostnameOperator(
            settings, cluster, clock, version=version, checks=checks, options=options, check_s=check_s
        )

    _run(make, shared, container="operator-hostname")


@_with_shared
def ip(
    shared: SharedOptions,
    *,
    provider: Annotated[str, flag("provider", "Account of the provider, akash1…; needed.")] = "",
) -> None:
    """Run the IP operator: serve the state and the usage of leased addresses.

    Example: `lessor operator ip --rest-port 8086`
    """
    if not _ACCOUNT.fullmatch(provider):
        raise failure(SettingsError(f"--provider={provider}: must be the provider's account, akash1…"))

    def make(settings: Settings, cluster: Cluster, clock: Clock, options: OperatorOptions) -> _Operator:
        return IpOperator(settings, cluster, clock, provider=provider, version=own_version(), options=options)

    _run(make, shared, container="operator-ip")


def _seconds(name: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise failure(SettingsError(f"--{name}={text}: {error}")) from None


def _run(make: _Make, shared: SharedOptions, *, container: str) -> None:
    try:
        settings = load_settings()
        configure_logging(form=settings.log_format, level=settings.log_level)
        asyncio.run(until_signal(_observe(make, shared, settings, container=container), what="operator"))
    except SettingsError as error:
        raise failure(error) from None


async def _observe(make: _Make, shared: SharedOptions, settings: Settings, *, container: str) -> None:
    cluster = KubeCluster(settings.kubeconfig)
    try:
        options = await shared.known(cluster, container)
        await make(settings, cluster, SystemClock(), options).run()
    finally:
        await cluster.aclose()
