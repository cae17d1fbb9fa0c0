"""The registry of metrics and the metrics; names and labels are the Go provider's where it has them (bidding.md §7)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.openmetrics.exposition import generate_latest

__all__ = [
    "BIDS",
    "BIDS_UNSENT",
    "BUS_CONNECTED",
    "BUS_LOST",
    "CHAIN_HEIGHT",
    "CHAIN_TIME",
    "DECISIONS",
    "DECLINED",
    "DEPLOYMENTS",
    "DEPLOYMENT_HEALTH",
    "DEPLOYMENT_MONITORS",
    "ENGINE_BUSY",
    "ENGINE_OLDEST",
    "ENGINE_RESIDENT",
    "ENGINE_WAITING",
    "ENGINE_WORKERS",
    "FEES_REFUSED",
    "GATEWAY_REFUSED",
    "GATEWAY_STREAMS",
    "INVENTORY_REQUESTS",
    "KUBE_CALLS",
    "LEADER",
    "ORDERS_COMPLETE",
    "ORDER_HANDLERS",
    "PRICING_DURATION",
    "REGISTRY",
    "RESERVATIONS",
    "RESERVATION_DURATION",
    "SHOULD_BID",
    "STACK_OPERATIONS",
    "STACK_SECONDS",
    "WALLET",
    "WITHDRAWALS",
    "exposition",
    "sample",
]

REGISTRY = CollectorRegistry()

DECISIONS = Counter(
    "lessor_decisions", "Decisions about orders, by `verdict` (bid, declined)", ["verdict"], registry=REGISTRY
)
DECLINED = Counter(
    "lessor_declined",
    "Checks that orders failed, once an order and reason, by name of the `check`",
    ["check"],
    registry=REGISTRY,
)
BIDS = Counter(
    "provider_bid",
    "Bid transactions, by `action` (open, close) and `result` (success, fail)",
    ["action", "result"],
    registry=REGISTRY,
)
BIDS_UNSENT = Counter(
    "lessor_bids_unsent", "Bids that were decided and are on no chain, by cause (`why`)", ["why"], registry=REGISTRY
)
ORDER_HANDLERS = Counter(
    "provider_order_handler",
    "Beginnings and ends of the work on an order, by `action` (start, stop)",
    ["action"],
    registry=REGISTRY,
)
ORDERS_COMPLETE = Counter(
    "provider_order_complete",
    "Ends of orders on which the provider had bid, by `result` (lease-won, lease-lost, order-closed, "
    "bid-closed-external, bid-timeout)",
    ["result"],
    registry=REGISTRY,
)
SHOULD_BID = Counter(
    "provider_should_bid",
    "Decisions about orders, by `result` (accept, decline, and fail where the decision could not be made)",
    ["result"],
    registry=REGISTRY,
)
RESERVATIONS = Counter(
    "provider_reservation",
    "Reservations of capacity for bids, by `action` (open, close) and `result` (success, fail)",
    ["action", "result"],
    registry=REGISTRY,
)
_MICROSECONDS = tuple(150_000.0 * 2**step for step in range(10))
PRICING_DURATION = Histogram(
    "provider_bid_pricing_duration",
    "Microseconds that a price strategy took to price a bid",
    buckets=_MICROSECONDS,
    registry=REGISTRY,
)
RESERVATION_DURATION = Histogram(
    "provider_reservation_duration",
    "Microseconds to decide about an order and to reserve its capacity, pricing included",
    buckets=_MICROSECONDS,
    registry=REGISTRY,
)
INVENTORY_REQUESTS = Counter(
    "provider_inventory_requests",
    "Questions to the inventory, by `action` and `result`: reserve (create, insufficient-capacity), unreserve "
    "(destroyed, not-found), lookup (found, not-found), status (success, error)",
    ["action", "result"],
    registry=REGISTRY,
)
LEADER = Gauge("lessor_leader", "1: this process leads, 0: it waits, or leadership is not used", registry=REGISTRY)
KUBE_CALLS = Counter(
    "provider_kube_calls",
    "Requests to the API server, by `action` (pods-list, deployments-apply, …) and `result` (success, fail)",
    ["action", "result"],
    registry=REGISTRY,
)
DEPLOYMENTS = Counter(
    "provider_deployment",
    "Work on leases, by `action` and `result`: reserve-hostnames (success, err), deploy and teardown (success, fail)",
    ["action", "result"],
    registry=REGISTRY,
)
DEPLOYMENT_MONITORS = Counter(
    "provider_deployment_monitor",
    "Beginnings and ends of the health checks of a lease, by `action` (start, stop)",
    ["action"],
    registry=REGISTRY,
)
DEPLOYMENT_HEALTH = Counter(
    "provider_deployment_monitor_health",
    "Changes of the health of leases, by `state`: up, down (degraded), err (unknown), failed",
    ["state"],
    registry=REGISTRY,
)
BUS_CONNECTED = Gauge(
    "lessor_bus_connected", "1: Redis carries the bus between processes, 0: it does not", registry=REGISTRY
)
BUS_LOST = Counter(
    "lessor_bus_lost",
    "Messages of the bus that did not cross Redis, by `why` (full: too many waited, refused: no message of this bus)",
    ["why"],
    registry=REGISTRY,
)
CHAIN_HEIGHT = Gauge("lessor_chain_height", "Last block whose events were published", registry=REGISTRY)
CHAIN_TIME = Gauge(
    "lessor_chain_height_timestamp_seconds", "Unix seconds at which that block was published", registry=REGISTRY
)
STACK_OPERATIONS = Counter(
    "lessor_stack_operations",
    "Engine operations, by `operation` (preview, up, refresh, destroy, state) and `result` (ok, failed)",
    ["operation", "result"],
    registry=REGISTRY,
)
STACK_SECONDS = Histogram(
    "lessor_stack_seconds", "Seconds of an engine operation, by `operation`", ["operation"],
    buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0), registry=REGISTRY,
)  # fmt: skip
ENGINE_WAITING = Gauge(
    "lessor_engine_waiting", "Operations that wait for a worker, by `kind`", ["kind"], registry=REGISTRY
)
ENGINE_OLDEST = Gauge(
    "lessor_engine_oldest_wait_seconds", "The longest wait of an operation for a worker, so far", registry=REGISTRY
)
ENGINE_BUSY = Gauge("lessor_engine_busy_workers", "Workers that run an operation", registry=REGISTRY)
ENGINE_RESIDENT = Gauge(
    "lessor_engine_resident",
    "1: one process runs all operations, 0: each operation starts a command line",
    registry=REGISTRY,
)
ENGINE_WORKERS = Gauge("lessor_engine_workers", "Operations that may run at the same time", registry=REGISTRY)
GATEWAY_REFUSED = Counter(
    "lessor_gateway_refused",
    "Connections and requests refused before any work, by `reason`",
    ["reason"],
    registry=REGISTRY,
)
GATEWAY_STREAMS = Gauge(
    "lessor_gateway_streams", "Open streams of tenants, by `kind` (logs, events, shells)", ["kind"], registry=REGISTRY
)
FEES_REFUSED = Counter(
    "lessor_fees_refused", "Transactions that were not signed because of their gas or their fee", registry=REGISTRY
)
WALLET = Gauge(
    "lessor_wallet", "Balance of the provider's account in micro-units, by `denom`", ["denom"], registry=REGISTRY
)
WITHDRAWALS = Counter(
    "lessor_withdrawals",
    "Withdrawals of leases, by cause (`why`) and `result` (success, fail, held back)",
    ["why", "result"],
    registry=REGISTRY,
)


def sample(name: str, **labels: str) -> float:
    """The present value of a metric; 0 before the first."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def exposition() -> bytes:
    """The registry as OpenMetrics text."""
    text: bytes = generate_latest(REGISTRY)  # type: ignore[no-untyped-call]
    return text
