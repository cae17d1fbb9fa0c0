"""`/metrics` for Prometheus: the counters of `provider.metrics`, the state of the provider at that moment, and the
process's own figures. Names are the Go provider's where it has them (gateway.md §8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog
from aiohttp import web
from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily

from lease.ids import LeaseId
from provider.errors import SettingsError
from provider.gateway.provider_status import Amounts, ProviderStatus
from provider.lifecycle.state import LeaseStatus, Phase
from provider.metrics import INVENTORY_REQUESTS, REGISTRY

__all__ = ["Scrape", "markdown", "serve_metrics"]

_MILLI = 1000
_PATH = "/metrics"
_HEAD = """# Metrics

`make docs` writes this file from the code (`provider/metrics.py`, `provider/observe/scrape.py`). Prometheus reads them
at `AP_METRICS_LISTENER`, and with `LESSOR_METRICS_ON_GATEWAY=true` at the REST gateway too. Both formats of Prometheus
are served, with the usual metrics of a Python process beside these. Names that begin with `provider_` are the Go
provider's.

| metric | type | meaning |
|---|---|---|
"""
_log = structlog.get_logger(__name__)


class Scrape:
    """Everything that one scrape reads. `status`: the status of this moment; `leases`: the state of every lease."""

    def __init__(
        self, status: Callable[[], ProviderStatus], leases: Callable[[], Mapping[LeaseId, LeaseStatus]]
    ) -> None:
        self.status = status
        self._leases = leases

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type: OpenMetrics if the Accept header `accept` names it, else Prometheus' own."""
        encode, content_type = choose_encoder(accept)
        return encode(self), content_type

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape. A state that cannot be read leaves out its own gauges only."""
        yield from REGISTRY.collect()
        for own in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            yield from own.collect()
        try:
            found = [*_lease_gauges(self._leases().values()), *_inventory_gauges(self.status())]
        except Exception:
            INVENTORY_REQUESTS.labels("status", "error").inc()
            _log.exception("metrics.state_unreadable")
            return
        INVENTORY_REQUESTS.labels("status", "success").inc()
        yield from found


def _lease_gauges(statuses: Iterable[LeaseStatus]) -> Iterator[Metric]:
    phases = [status.phase for status in statuses]
    living = [phase for phase in phases if phase not in (Phase.QUARANTINED, Phase.CLOSED)]
    waiting = living.count(Phase.WAITING_FOR_MANIFEST)
    yield _gauge("provider_deployment_manager", "Leases that the provider serves", len(living))
    yield _gauge("provider_manifest_manager", "Leases whose manifest has arrived", len(living) - waiting)
    yield _gauge("provider_order_watchdog", "Leases that wait for their first manifest", waiting)
    states = GaugeMetricFamily("lessor_leases", "Leases, by `phase`", labels=["phase"])
    for phase in Phase:
        states.add_metric([phase.value], phases.count(phase))
    yield states


def _inventory_gauges(status: ProviderStatus) -> Iterator[Metric]:
    """CPU in cores, GPUs in units, all else in bytes. The Go provider divides its GPUs by 1000."""
    yield _gauge("provider_order_manager", "Open orders that the provider has bid on or may bid on", status.orders)
    yield _gauge("lessor_teardown_held", "Leases whose removal the teardown brake holds", status.braked)
    reserved = GaugeMetricFamily(
        "provider_inventory_reservations_total",
        "Reservations: `classification` none counts them (quantity, allocated), active and pending sum their cpu "
        "(cores), gpu (units), memory and storage (bytes)",
        labels=["classification", "quantity"],
    )
    reserved.add_metric(["none", "quantity"], len(status.active) + len(status.pending))
    reserved.add_metric(["none", "allocated"], len(status.active))
    for name, amounts in (("active", status.active), ("pending", status.pending)):
        for quantity, value in _sums(amounts).items():
            reserved.add_metric([name, quantity], value)
    yield reserved
    allocatable = _sums([node.allocatable for node in status.nodes]) | {"nodes": len(status.nodes)}
    yield _quantities(
        "provider_inventory_allocatable_total",
        "What the nodes have in all, by `quantity`: nodes, cpu (cores), gpu (units), memory and storage (bytes)",
        allocatable,
    )
    available = _sums([node.available for node in status.nodes])
    available |= {f"storage-{name}": size for name, size in status.storage_bytes.items()}
    yield _quantities(
        "provider_inventory_available_total",
        "What is free, by `quantity`: cpu (cores), gpu (units), memory and storage (bytes)",
        available,
    )


def _sums(amounts: Sequence[Amounts]) -> dict[str, float]:
    sums: dict[str, float] = {
        "cpu": sum(one.cpu_milli for one in amounts) / _MILLI,
        "gpu": sum(one.gpu_units for one in amounts),
        "memory": sum(one.memory_bytes for one in amounts),
        "storage-ephemeral": sum(one.ephemeral_bytes for one in amounts),
    }
    for one in amounts:
        for name, size in one.storage_bytes.items():
            sums[f"storage-{name}"] = sums.get(f"storage-{name}", 0) + size
    return sums


def _quantities(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["quantity"])
    for quantity, value in sorted(values.items()):
        family.add_metric([quantity], value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def markdown() -> str:
    """`docs/metrics.md`: every metric with its type and meaning."""
    rows = sorted(
        (f"{metric.name}_total" if metric.type == "counter" else metric.name, metric.type, metric.documentation)
        for metric in (*REGISTRY.collect(), *_lease_gauges(()), *_inventory_gauges(ProviderStatus()))
    )
    return _HEAD + "".join(f"| `{name}` | {kind} | {text} |\n" for name, kind, text in rows)


async def serve_metrics(scrape: Scrape, listen: str) -> None:
    """Serve `GET /metrics` at `listen` (`host:port`) until cancelled. Raises `SettingsError` for an address that is not
    available. Any other path is 404.
    """

    async def answer(request: web.Request) -> web.Response:
        body, content_type = scrape.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application(client_max_size=1024)
    app.router.add_get(_PATH, answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=75.0)
    await runner.setup()
    host, _, port = listen.rpartition(":")
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
        _log.info("metrics.listening", address=", ".join("{}:{}".format(*each[:2]) for each in runner.addresses))
        await asyncio.Event().wait()
    except OSError as error:
        raise SettingsError(
            f"AP_METRICS_LISTENER={listen}: {error.strerror or error}; "
            "stop the program that listens there, or set another address of this machine"
        ) from error
    finally:
        await runner.cleanup()
