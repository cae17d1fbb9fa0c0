"""The status of a running provider for its operator: RPC nodes with their health, heights, the fees of the day, the
wallet, bids and leases. It is served at a socket in the home only; the public status is `GET /status`.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from lease.resources import Price
from provider.chain.nodes import NodeView
from provider.chain.tx.budget import DAY_S, allowance
from provider.chain.tx.intents import Rank
from provider.chain.tx.journal import Journal
from provider.errors import StoreError
from provider.funds.wallet import Wallet
from provider.inventory.overuse import overused
from provider.lifecycle.state import LeaseStatus, Phase
from provider.local_socket import serve_socket
from provider.market.book import Market
from provider.market.record.summary import summary_since
from provider.metrics import sample
from provider.observe.findings import CERTIFICATE_SOON_S, with_findings

__all__ = ["CertificateEnd", "Paid", "StatusSources", "day_fees", "operator_status", "serve_status"]

Paid: TypeAlias = Callable[[float], Awaitable[Sequence[tuple[float, int]]]]
"""(time, fee) of every transaction paid since a time (Unix seconds), oldest first. Raises `StoreError`."""
_MAX_REQUEST_BYTES = 4096
_ANSWER_S = 10.0
_HOUR_S = 3600.0
_TROUBLED = frozenset({
    Phase.UNKNOWN, Phase.BLOCKED, Phase.DEGRADED, Phase.FAILED, Phase.UPDATE_FAILED, Phase.CLOSING
})  # fmt: skip
_RANKS = {"bids": Rank.BID, "withdrawals": Rank.WITHDRAW, "closing": Rank.CLOSE}


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """`what`: whose certificate. `seconds` until it ends, negative afterwards. `remedy`: what to do about it.
    `problem`: why it is refused before its end, empty for none. `soon`: with so many seconds left it should be renewed.
    """

    what: str
    seconds: float
    remedy: str
    problem: str = ""
    soon: float = CERTIFICATE_SOON_S


@dataclass(frozen=True, slots=True)
class StatusSources:
    """What the status is read from. `cluster`: the API server's address, the seconds since it answered last, and why
    the inventory is too old to bid. `budget`: of fees, micro-units of `fee_denom` in 24 hours, 0: no limit. `granter`:
    the account that pays them, empty: the provider. `wallet` returns None before the first reading. `gateway`: its
    process and the order of the CA's certificate, as far as there are any.
    """

    chain_id: str
    fee_denom: str
    budget: Callable[[], int]
    granter: str
    market: Market
    paid: Paid
    nodes: Callable[[], Sequence[NodeView]]
    wallet: Callable[[], Wallet | None]
    leases: Callable[[], Mapping[Any, LeaseStatus]]
    braked: Callable[[], int]
    fee_problem: Callable[[], str] = lambda: ""
    cluster: Callable[[], Mapping[str, Any]] = dict
    funds_problem: Callable[[], str] = str
    suspects: Callable[[], int] = int
    unknown_stacks: Callable[[], int] = int
    certificates: Callable[[], Sequence[CertificateEnd]] = tuple
    gateway: Callable[[], Mapping[str, Any]] = dict
    home: Path | None = None
    maintenance: Callable[[], Mapping[str, Any]] = dict
    store: Callable[[], Mapping[str, Any]] = dict


async def serve_status(sources: StatusSources, path: Path) -> None:
    """Listen until cancelled; the answer to every request is the status."""

    async def answer(_line: bytes) -> dict[str, Any]:
        return {"ok": True, **await operator_status(sources)}

    await serve_socket(path, answer, longest=_MAX_REQUEST_BYTES, seconds=_ANSWER_S)


def day_fees(journal: Journal, *, chain_id: str, address: str, denom: str) -> Paid:
    """The fees of an account as the fee budget counts them."""

    async def paid(since: float) -> Sequence[tuple[float, int]]:
        return await journal.fees(f"{chain_id}/{address}", denom=denom, since=since)

    return paid


async def operator_status(sources: StatusSources) -> dict[str, Any]:
    """The status as one document of plain values. When the store fails, only the fees and the sum of the market are
    missing.
    """
    market, wallet = sources.market, sources.wallet()
    found = {
        "provider": market.provider,
        "chain": {
            "id": sources.chain_id,
            "height": int(sample("lessor_chain_height")),
            "seconds_ago": _since(sample("lessor_chain_height_timestamp_seconds"), market.clock.now()),
            "nodes": [asdict(node) for node in sources.nodes()],
        },
        "cluster": (cluster := dict(sources.cluster())) and cluster | {"nodes": len(market.inventory().nodes)},
        "keys": [market.provider],
        "fees": await _fees(sources),
        "wallet": wallet and _wallet(wallet),
        "funds_problem": sources.funds_problem(),
        "bids": _bids(market),
        "market": await _summary(market),
        "pricing": _pricing(market),
        "unmatched": list(market.book.unmatched),
        "free": _free(market),
        "overcommitted": dict(overused(market.inventory())),
        "leases": dict(Counter(status.phase.value for status in sources.leases().values())),
        "oldest_trouble": _oldest_trouble(sources.leases().values(), now=market.clock.now()),
        "braked": sources.braked(),
        "suspects": sources.suspects(),
        "unknown_stacks": sources.unknown_stacks(),
        "certificates": [asdict(each) for each in sources.certificates()],
        "gateway": dict(sources.gateway()),
        "disk": _disk(sources.home) if sources.home is not None else {},
        "maintenance": dict(sources.maintenance()),
        "store": dict(sources.store()),
    }
    return with_findings(found)


async def _summary(market: Market) -> dict[str, Any]:
    """The decisions of the last hour."""
    try:
        return asdict(await summary_since(market.database, market.clock.now() - _HOUR_S))
    except StoreError as error:
        return {"problem": str(error)}


def _oldest_trouble(statuses: Iterable[LeaseStatus], *, now: float) -> dict[str, Any] | None:
    """The lease that has been in trouble longest; those for which the provider is at fault go first, and of them those
    on which it fails.
    """
    troubled = [each for each in statuses if each.attempts or each.of_the_provider or each.phase in _TROUBLED]
    if not troubled:
        return None
    worst = min(troubled, key=lambda each: (not each.attempts, not each.of_the_provider, each.since, each.lease))
    return {
        "lease": str(worst.lease),
        "state": worst.phase.value,
        "reason": worst.reason,
        "seconds": _since(worst.since, now) or 0.0,
        "provider_fault": bool(worst.attempts),
        "of_the_provider": bool(worst.attempts) or worst.of_the_provider,
        "leases": len(troubled),
    }


def _disk(home: Path) -> dict[str, Any]:
    """The file system of the home: engine state, database and keys are there."""
    try:
        found = os.statvfs(home)
    except OSError as error:
        return {"path": str(home), "problem": f"AP_HOME={home}: {error.strerror}"}
    return {
        "path": str(home),
        "size": found.f_blocks * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
        "free_files": round(found.f_favail / found.f_files, 4) if found.f_files else 1.0,
    }


def _wallet(wallet: Wallet) -> dict[str, Any]:
    return {"level": wallet.level.value, "problem": wallet.problem, "balances": dict(wallet.balances)}


def _free(market: Market) -> dict[str, int]:
    """Leased addresses and node ports that no lease and no bid has, and how many there are."""
    inventory = market.inventory()
    free = market.ledger.free(inventory)
    return {
        "addresses": free.free_addresses,
        "addresses_of": inventory.address_count,
        "node_ports": free.free_node_ports,
        "node_ports_of": inventory.node_port_count,
    }


def _bids(market: Market) -> dict[str, Any]:
    book = market.book
    return {
        "open": len(book.placed.keys() - book.leased),
        "under_way": len(book.busy),
        "registered": book.record is not None,
        "paused": market.paused(),
        "problem": book.pass_problem,
        "deposits": _sums(book.deposits.values()),
        "lost": len(lost := book.lost()),
        "lost_deposits": _sums(book.deposits[order] for order in lost),
    }


def _sums(deposits: Iterable[Iterable[Price]]) -> dict[str, str]:
    """Sums by denom, in micro-units."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for deposit in chain.from_iterable(deposits):
        sums[deposit.denom] += deposit.amount
    return {denom: f"{amount:f}" for denom, amount in sorted(sums.items())}


def _pricing(market: Market) -> dict[str, Any]:
    outage = market.book.pricing_outage
    if not outage.orders:
        return {"unpriced": 0}
    seconds = _since(outage.since, market.clock.now())
    return {"unpriced": len(outage.orders), "failing": outage.failing, "seconds": seconds, "problem": outage.problem}


async def _fees(sources: StatusSources) -> dict[str, Any]:
    now = sources.market.clock.now()
    budget = sources.budget()
    found: dict[str, Any] = {"denom": sources.fee_denom, "budget": budget, "paid_by": sources.granter}
    found["refused"] = sources.fee_problem()
    try:
        paid = await sources.paid(now - DAY_S)
    except StoreError as error:
        return found | {"problem": str(error)}
    found["spent"] = sum(fee for _, fee in paid)
    if budget:
        left = {name: allowance(paid, budget=budget, rank=rank, now=now) for name, rank in _RANKS.items()}
        found["left"] = {name: each.left for name, each in left.items()}
    return found


def _since(then: float, now: float) -> float | None:
    """Seconds since `then`; None before the first block."""
    return round(max(0.0, now - then), 1) if then else None
