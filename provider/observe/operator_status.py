"""What a running provider tells its operator of itself: nodes of the chain with their health, heights, the day's fees,
the wallet, bids and leases. For a socket in the home, never for strangers: `GET /status` is theirs.
"""

from __future__ import annotations

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
from provider.lifecycle.state import LeaseStatus
from provider.local_socket import serve_socket
from provider.market.book import Market
from provider.metrics import REGISTRY

__all__ = ["Observed", "Paid", "day_fees", "operator_status", "serve_status", "status_socket"]

Paid: TypeAlias = Callable[[float], Awaitable[Sequence[tuple[float, int]]]]
"""(time, fee) of everything paid since then (Unix seconds), oldest first. Raises `StoreError`."""
_LONGEST = 4096
_SECONDS = 10.0
_RANKS = {"bids": Rank.BID, "withdrawals": Rank.WITHDRAW, "closing": Rank.CLOSE}


@dataclass(frozen=True, slots=True)
class Observed:
    """`budget`: of fees, micro-units of `fee_denom` in 24 hours, 0: none. `granter`: who pays them, empty: we do.
    `wallet` gives None before the first look at it.
    """

    chain_id: str
    fee_denom: str
    budget: int
    granter: str
    market: Market
    paid: Paid
    nodes: Callable[[], Sequence[NodeView]]
    wallet: Callable[[], Wallet | None]
    leases: Callable[[], Mapping[Any, LeaseStatus]]
    braked: Callable[[], int]


def status_socket(home: Path) -> Path:
    return home / "status.sock"


async def serve_status(observed: Observed, path: Path) -> None:
    """Listen until cancelled; whatever is asked, the status is the answer."""

    async def answer(_line: bytes) -> dict[str, Any]:
        return {"ok": True, **await operator_status(observed)}

    await serve_socket(path, answer, longest=_LONGEST, seconds=_SECONDS)


def day_fees(journal: Journal, *, chain_id: str, address: str, denom: str) -> Paid:
    """As the budget counts them."""

    async def paid(since: float) -> Sequence[tuple[float, int]]:
        return await journal.fees(f"{chain_id}/{address}", denom=denom, since=since)

    return paid


async def operator_status(observed: Observed) -> dict[str, Any]:
    """One document of plain values. A store that fails costs the fees, not the rest."""
    market, wallet = observed.market, observed.wallet()
    return {
        "provider": market.provider,
        "chain": {
            "id": observed.chain_id,
            "height": int(_metric("lessor_chain_height")),
            "seconds_ago": _since(_metric("lessor_chain_height_timestamp_seconds"), market.clock.now()),
            "nodes": [asdict(node) for node in observed.nodes()],
        },
        "keys": [market.provider],
        "fees": await _fees(observed),
        "wallet": wallet and {"level": wallet.level.value, "told": wallet.told, "balances": dict(wallet.balances)},
        "bids": _bids(market),
        "pricing": _pricing(market),
        "overcommitted": dict(overused(market.inventory())),
        "leases": dict(Counter(status.phase.value for status in observed.leases().values())),
        "braked": observed.braked(),
    }


def _bids(market: Market) -> dict[str, Any]:
    book = market.book
    return {
        "open": len(book.placed.keys() - book.leased),
        "under_way": len(book.busy),
        "registered": book.record is not None,
        "paused": market.paused(),
        "deposits": _sums(book.deposits.values()),
        "lost": len(lost := book.lost()),
        "lost_deposits": _sums(book.deposits[order] for order in lost),
    }


def _sums(deposits: Iterable[Iterable[Price]]) -> dict[str, str]:
    """By denom, micro-units."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for deposit in chain.from_iterable(deposits):
        sums[deposit.denom] += deposit.amount
    return {denom: f"{amount:f}" for denom, amount in sorted(sums.items())}


def _pricing(market: Market) -> dict[str, Any]:
    unpriced = market.book.unpriced
    if not unpriced.orders:
        return {"unpriced": 0}
    seconds = _since(unpriced.since, market.clock.now())
    return {"unpriced": len(unpriced.orders), "failing": unpriced.failing, "seconds": seconds, "words": unpriced.words}


async def _fees(observed: Observed) -> dict[str, Any]:
    now = observed.market.clock.now()
    told: dict[str, Any] = {"denom": observed.fee_denom, "budget": observed.budget, "paid_by": observed.granter}
    try:
        paid = await observed.paid(now - DAY_S)
    except StoreError as error:
        return told | {"problem": str(error)}
    told["spent"] = sum(fee for _, fee in paid)
    if observed.budget:
        left = {name: allowance(paid, budget=observed.budget, rank=rank, now=now) for name, rank in _RANKS.items()}
        told["left"] = {name: each.left for name, each in left.items()}
    return told


def _metric(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


def _since(then: float, now: float) -> float | None:
    """None before the first block."""
    return round(max(0.0, now - then), 1) if then else None
