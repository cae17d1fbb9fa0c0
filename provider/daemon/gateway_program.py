"""The program of `lessor gateway`: TLS, credentials, streams and answers to tenants, without the provider's key.

It has clients of its own for the chain, the API server and kubelets, and its own watches, so statuses and streams go on
while the provider restarts. What the provider decides (manifests, claims, screenings, its status) it asks for over the
socket in the home.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from provider.chain.comet import CometChain
from provider.daemon.file_limit import raise_file_limit, within_file_limit
from provider.daemon.heap import keep_heap_small
from provider.gateway.config import gateway_config
from provider.gateway.grpc.server import serve_grpc
from provider.gateway.lease_objects import ReadLease, lease_reader
from provider.gateway.link.calls import LinkedIntake, LinkedMigrations, linked_metrics, linked_screen, linked_status
from provider.gateway.link.client import ProviderLink
from provider.gateway.link.wire import Facts, gateway_socket
from provider.gateway.server import Gateway
from provider.gateway.streams.kept_events import EVENTS_FILE, KeptEvents, follow_events
from provider.gateway.tls import AccountCertificate
from provider.gateway.watched_objects import Observers, WatchedObjects, follow_objects, read_or_known, with_trouble
from provider.kube.client import KubeCluster
from provider.metrics import GATEWAY_REFUSED, GATEWAY_STREAMS
from provider.protocols import Clock
from provider.protocols.clock import SystemClock
from provider.settings import Settings

__all__ = ["run_gateway"]

_REPORT_S = 5.0
_log = structlog.get_logger("gateway")


async def run_gateway(settings: Settings) -> None:
    """Serve until cancelled; requests in progress then have ten seconds. Raises `SettingsError`."""
    keep_heap_small()
    settings, clock = within_file_limit(settings, raise_file_limit()), SystemClock()
    link = ProviderLink(gateway_socket(settings.home), clock)
    async with asyncio.TaskGroup() as outer:
        linked = outer.create_task(link.run(), name="link")
        try:
            await _serve(settings, link, clock)
        finally:
            linked.cancel()  # last: requests that end still ask the provider


async def _serve(settings: Settings, link: ProviderLink, clock: Clock) -> None:
    facts = await link.first_facts()
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        chain = await stack.enter_async_context(CometChain(settings, clock=clock, chain_id=facts.chain_id))
        strangers = await stack.enter_async_context(CometChain(settings, clock=clock, chain_id=facts.chain_id))
        cluster = KubeCluster(settings.kubeconfig)
        stack.push_async_callback(cluster.aclose)
        objects, kept = WatchedObjects(), KeptEvents(settings.home / EVENTS_FILE, clock.now)
        gateway = Gateway(
            gateway_config(settings, facts.provider),
            chain=chain,
            cluster=cluster,
            pods=cluster.pods,
            clock=clock,
            status=linked_status(link, now=clock.monotonic),
            kube_version=cluster.version,
            intake=LinkedIntake(link),
            migrations=LinkedMigrations(link),
            read_lease=_lease_reader(read_or_known(objects, lease_reader(cluster, settings.manifest_namespace)), link),
            strangers=strangers,
            is_tenant=lambda address: link.facts is not None and address in link.facts.tenants,
            metrics=linked_metrics(link) if settings.metrics_on_gateway else None,
            kept_events=kept,
        )
        await gateway.start(_account(facts))
        group.create_task(_stop_at_end(gateway), name="gateway")
        link.on_facts = _replacing(gateway)
        _log.info("gateway.listening", address="{}:{}".format(*gateway.address))
        group.create_task(_report(link, gateway, clock), name="reports")
        watched = follow_objects(cluster, Observers(objects, kept), records=settings.manifest_namespace)
        group.create_task(watched, name="watches")
        group.create_task(follow_events(cluster, kept), name="events")
        served = serve_grpc(linked_screen(link), settings, gateway=gateway, cluster=cluster, clock=clock)
        group.create_task(served, name="grpc gateway")
        gc.freeze()  # what is loaded by now stays


async def _stop_at_end(gateway: Gateway) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await gateway.stop()


def _account(facts: Facts) -> AccountCertificate:
    key = load_pem_private_key(facts.key.encode(), password=None)
    assert isinstance(key, EllipticCurvePrivateKey)  # noqa: S101  (the provider has made it)
    return AccountCertificate(Path(), x509.load_pem_x509_certificate(facts.certificate.encode()), key)


def _replacing(gateway: Gateway) -> Callable[[Facts], None]:
    """Takes new facts: another account certificate is served from the next connection on."""

    def take(facts: Facts) -> None:
        if facts.certificate != gateway.served.account.pem:
            gateway.served.replace(_account(facts))

    return take


def _lease_reader(read: ReadLease, link: ProviderLink) -> ReadLease:
    """`read`, with the trouble that the provider has reported of the lease."""
    return with_trouble(read, lambda lease: link.facts.troubles.get(str(lease), "") if link.facts is not None else "")


async def _report(link: ProviderLink, gateway: Gateway, clock: Clock) -> None:
    """Send what this process counts, for the provider's metrics; for ever."""
    while True:
        try:
            await link.call("report", _counts(gateway), seconds=_REPORT_S)
        except Exception as error:
            _log.debug("gateway.not_reported", problem=str(error))
        await clock.sleep(_REPORT_S)


def _counts(gateway: Gateway) -> dict[str, Any]:
    refused = (each for metric in GATEWAY_REFUSED.collect() for each in metric.samples if each.name.endswith("_total"))
    streams = (each for metric in GATEWAY_STREAMS.collect() for each in metric.samples)
    return {
        "address": gateway.address,
        "pid": os.getpid(),
        "refused": {each.labels["reason"]: each.value for each in refused},
        "streams": {each.labels["kind"]: each.value for each in streams},
    }
