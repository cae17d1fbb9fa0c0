"""The registry of metrics and the metrics; names and labels are the Go provider's where it has them (bidding.md §7)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

__all__ = [
    "BIDS",
    "CHAIN_HEIGHT",
    "CHAIN_TIME",
    "DECISIONS",
    "DECLINED",
    "ENGINE_BUSY",
    "ENGINE_OLDEST",
    "ENGINE_PLUGIN_SHARED",
    "ENGINE_WAITING",
    "ENGINE_WORKERS",
    "FEES_REFUSED",
    "GATEWAY_REFUSED",
    "GATEWAY_STREAMS",
    "REGISTRY",
    "STACK_OPERATIONS",
    "WALLET",
    "WITHDRAWALS",
    "exposition",
]

REGISTRY = CollectorRegistry()

DECISIONS = Counter("lessor_decisions", "Decisions about orders", ["verdict"], registry=REGISTRY)
DECLINED = Counter(
    "lessor_declined", "Checks that orders failed, once an order and reason", ["check"], registry=REGISTRY
)
BIDS = Counter("provider_bid", "Bid transactions", ["action", "result"], registry=REGISTRY)
CHAIN_HEIGHT = Gauge("lessor_chain_height", "Last block whose events were published", registry=REGISTRY)
CHAIN_TIME = Gauge(
    "lessor_chain_height_timestamp_seconds", "Unix seconds at which that block was published", registry=REGISTRY
)
STACK_OPERATIONS = Counter("lessor_stack_operations", "Engine operations", ["operation", "result"], registry=REGISTRY)
ENGINE_WAITING = Gauge("lessor_engine_waiting", "Operations that wait for a worker", ["kind"], registry=REGISTRY)
ENGINE_OLDEST = Gauge(
    "lessor_engine_oldest_wait_seconds", "The longest wait of an operation for a worker, so far", registry=REGISTRY
)
ENGINE_BUSY = Gauge("lessor_engine_busy_workers", "Workers that run an operation", registry=REGISTRY)
ENGINE_PLUGIN_SHARED = Gauge(
    "lessor_engine_plugin_shared",
    "1: operations share a Kubernetes plugin, 0: each operation starts one",
    registry=REGISTRY,
)
ENGINE_WORKERS = Gauge("lessor_engine_workers", "Operations that may run at the same time", registry=REGISTRY)
GATEWAY_REFUSED = Counter(
    "lessor_gateway_refused", "Connections and requests refused before any work", ["reason"], registry=REGISTRY
)
GATEWAY_STREAMS = Gauge(
    "lessor_gateway_streams", "Open streams of tenants: logs, events and shells", ["kind"], registry=REGISTRY
)
FEES_REFUSED = Counter(
    "lessor_fees_refused", "Transactions that were not signed because of their gas or their fee", registry=REGISTRY
)
WALLET = Gauge("lessor_wallet", "Balance of the provider's account, in micro-units", ["denom"], registry=REGISTRY)
WITHDRAWALS = Counter("lessor_withdrawals", "Withdrawals of leases", ["why", "result"], registry=REGISTRY)


def exposition() -> bytes:
    """The registry as OpenMetrics text."""
    text: bytes = generate_latest(REGISTRY)  # type: ignore[no-untyped-call]
    return text
