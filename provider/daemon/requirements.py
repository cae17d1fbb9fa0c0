"""What the cluster and this machine must have before the provider bids: everything that is missing, said at once.

A bid for what the cluster cannot serve would become a lease that fails. What runs already is served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import structlog

from lease.spec import IngressMode
from provider.daemon.backends import engine_config
from provider.daemon.private_home import prepare_home
from provider.errors import ClusterError, SettingsError
from provider.kube.client import KubeCluster
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import (
    HTTP_ROUTE,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    MANIFEST,
    NAMESPACE,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    Kind,
)
from provider.settings import Settings
from provider.waits import side_by_side
from stacks.common import EngineError, installed_plugin

__all__ = ["Allows", "Requirements", "cluster_lacks", "lacks", "machine_lacks", "refuse_machine"]

Allows: TypeAlias = Callable[[str, str, str], Awaitable[bool]]
"""Whether the account may do a verb with a resource of an API group, in every namespace."""
_INGRESS_CLASS = Kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False)
_RUNTIME_CLASS = Kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
_GATEWAY = Kind("gateway.networking.k8s.io/v1", "Gateway", "gateways")
_SYSTEM_CLASSES = ("", "none")
_STACK = "run `pulumi up` on the cluster stack"
_NEEDED = (
    ("create", "", "namespaces"),
    ("patch", "", "services"),
    ("patch", "", "secrets"),
    ("patch", "apps", "deployments"),
    ("patch", "apps", "statefulsets"),
    ("patch", "networking.k8s.io", "networkpolicies"),
    ("patch", "rbac.authorization.k8s.io", "rolebindings"),
    ("patch", "akash.network", "manifests"),
    ("list", "", "nodes"),
    ("list", "", "pods"),
)
"""Rights without which no lease can be made; the whole table is in the cluster stack."""
_AT_ONCE = 6
"""Each question at the same time as others needs a connection of its own, with a TLS handshake on both sides."""
_EVERY_S = 60.0
_SOON_S = 10.0
_ABSENT, _FORBIDDEN = 404, 403
_log = structlog.get_logger("lessor")


def machine_lacks(settings: Settings) -> list[str]:
    """What this machine lacks: Pulumi, its Kubernetes plugin of the right version, a kubeconfig."""
    try:
        installed_plugin(engine_config(settings).home)
    except (SettingsError, EngineError) as error:
        return [str(error)]
    return []


async def refuse_machine(settings: Settings) -> None:
    """Make the home. Raise `SettingsError` for what this machine lacks, a home that can be written too, with what the
    cluster lacks if it answers soon.
    """
    found = [*_home_problem(settings), *machine_lacks(settings)]
    if not found:
        return
    try:
        found += await _soon(settings)
    except SettingsError as error:
        found.append(str(error))
    raise SettingsError("; ".join(dict.fromkeys(found)))


def _home_problem(settings: Settings) -> list[str]:
    try:
        prepare_home(settings)
    except SettingsError as error:
        return [str(error)]
    return []


async def _soon(settings: Settings) -> list[str]:
    """What the cluster lacks; nothing when it does not answer soon. Raises `SettingsError` for its kubeconfig."""
    cluster = KubeCluster(settings.kubeconfig)
    try:
        async with asyncio.timeout(_SOON_S):
            return await lacks(settings, cluster)
    except (ClusterError, TimeoutError):
        return []
    finally:
        await cluster.aclose()


async def lacks(settings: Settings, cluster: KubeCluster) -> list[str]:
    """What the cluster lacks, asked with the provider's own client. Raises `ClusterError`."""
    return await cluster_lacks(settings, cluster, cluster.allows)


async def cluster_lacks(settings: Settings, cluster: Cluster, allows: Allows) -> list[str]:
    """What the cluster lacks, each with the remedy. Raises `ClusterError` when it does not answer."""
    questions: list[Callable[[], Awaitable[str]]] = [
        partial(_namespace, settings, cluster),
        *(partial(_kind, cluster, kind, remedy) for kind, remedy in _kinds(settings)),
        *(partial(_object, cluster, *wanted) for wanted in _objects(settings)),
        *(partial(_right, allows, *right) for right in _NEEDED),
    ]
    found = await side_by_side(lambda ask: ask(), questions, at_once=_AT_ONCE)
    return [problem for problem in found if problem]


def _kinds(settings: Settings) -> Iterator[tuple[Kind, str]]:
    for kind in (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP):
        yield kind, _STACK
    if settings.addresses_leased:
        for kind in (IP_ADDRESS_POOL, L2_ADVERTISEMENT):
            yield kind, "install MetalLB, or set no LESSOR_IP_RANGES and no LESSOR_IP_POOLS"
    if settings.ingress_mode is IngressMode.GATEWAY_API:
        yield HTTP_ROUTE, "install the Gateway API, or set AP_INGRESS_MODE=ingress"


def _objects(settings: Settings) -> Iterator[tuple[Kind, str, str | None, str]]:
    """Kind, name, namespace and remedy of the objects that the settings name."""
    if settings.ingress_mode is IngressMode.GATEWAY_API:
        yield _GATEWAY, settings.gateway_name, settings.gateway_namespace, "make it, or set AP_GATEWAY_NAME"
    else:
        yield _INGRESS_CLASS, settings.ingress_class, None, f"{_STACK}, or set LESSOR_INGRESS_CLASS"
    for name in settings.ip_pools:
        yield IP_ADDRESS_POOL, name, settings.metallb_namespace, "make it, or take it out of LESSOR_IP_POOLS"
    if settings.runtime_class not in _SYSTEM_CLASSES:
        remedy = "name it in lessor:runtime-classes of the cluster stack, or set AP_DEPLOYMENT_RUNTIME_CLASS"
        yield _RUNTIME_CLASS, settings.runtime_class, None, remedy


async def _namespace(settings: Settings, cluster: Cluster) -> str:
    name = settings.manifest_namespace
    return "" if await cluster.get(NAMESPACE, name) else f"there is no namespace {name}: {_STACK}"


async def _kind(cluster: Cluster, kind: Kind, remedy: str) -> str:
    try:
        await cluster.list(kind, namespace="default")
    except ClusterError as error:
        return _refused(error, f"the cluster has no {kind.plural} ({kind.api_version})", f"list {kind.plural}", remedy)
    return ""


async def _object(cluster: Cluster, kind: Kind, name: str, namespace: str | None, remedy: str) -> str:
    place = f"{namespace}/{name}" if namespace else name
    absent = f"there is no {kind.kind} {place}"
    try:
        found = await cluster.get(kind, name, namespace=namespace)
    except ClusterError as error:
        return _refused(error, absent, f"get {kind.plural}", remedy)
    return "" if found else f"{absent}: {remedy}"


def _refused(error: ClusterError, absent: str, asked: str, remedy: str) -> str:
    if error.status == _ABSENT:
        return f"{absent}: {remedy}"
    if error.status == _FORBIDDEN:
        return f"the account may not {asked}: {_STACK}, or give the right"
    raise error


async def _right(allows: Allows, verb: str, group: str, resource: str) -> str:
    if await allows(verb, group, resource):
        return ""
    return f"the account may not {verb} {resource}{f'.{group}' if group else ''}: {_STACK}, or give the right"


@dataclass(slots=True)
class Requirements:
    """What was missing at the last check. There are no bids while anything is."""

    lacking: Sequence[str] = ()

    @property
    def problem(self) -> str:
        """The reason why there are no bids; empty when nothing is missing."""
        return f"the cluster lacks what leases need: {'; '.join(self.lacking)}" if self.lacking else ""

    async def follow(self, settings: Settings, cluster: KubeCluster, *, clock: Clock) -> None:
        """Check again until nothing is missing. Each set of problems is logged once, all of it at once."""
        while self.lacking:
            await clock.sleep(_EVERY_S)
            try:
                found = await lacks(settings, cluster)
            except ClusterError:
                continue
            if found != list(self.lacking):
                self.note(found)

    def note(self, found: Sequence[str]) -> None:
        """Take what a check found, and log it."""
        before, self.lacking = self.lacking, tuple(found)
        if found:
            _log.error("provider.lacks", missing=self.lacking, bids="none until all of it is there")
        elif before:
            _log.info("provider.complete", bids="from now on")
