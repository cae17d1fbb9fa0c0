"""What each page shows, read when it is asked for: from the daemon's memory, its store, and the cluster's claims."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from components.errors import BuildError
from components.lease import lease_objects
from lease.hostnames import route_name
from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from policies.book import RuleBook
from provider.claims.hostnames import HostnameClaim, host_claims
from provider.claims.leased_ips import AddressClaim, address_claims
from provider.errors import ClusterError, StoreError
from provider.funds.escrow import LeaseFunds
from provider.funds.watch import FUNDS_ESCROW
from provider.inventory.capacity import Card
from provider.inventory.snapshot import Inventory, Node, Snapshot
from provider.lifecycle.state import LeaseStatus, Phase
from provider.market.explanation import explain, explanation_json
from provider.market.record.decisions import StoredDecision, load_inputs, recent_decisions
from provider.metrics import sample
from provider.protocols import Bus, Clock, Cluster
from provider.protocols.cluster import PROVIDER_HOST, PROVIDER_LEASED_IP
from provider.runs.log import RunOutcome, StoredRun, runs_of
from provider.runs.versions import versions_of
from provider.store import Database
from provider.store.claims import ClaimKind, claims_of, held_claims
from provider.store.fees import fees_between
from provider.store.leases import find_lease, known_leases, states_of
from provider.store.manifests import manifests_of
from provider.store.money import Earned, LeaseMoney, earned_between, known_money
from provider.store.sealing import KeyRing
from stacks.common import Priority

__all__ = ["Sources", "Views"]

_DAYS = 30
_MOST_ROWS = 500
_RUNS = 50
_ANSWER_S = 2.0
_BLOCK_S = 6.0
"""The usual time of a block; a date that is derived from a height is no more exact than that."""
_CHART_WIDTH, _CHART_LEFT, _CHART_BASE, _CHART_HEIGHT = 590.0, 40.0, 130.0, 110.0
_LEVELS = {
    Phase.RUNNING: "ok",
    Phase.DEGRADED: "warning",
    Phase.BLOCKED: "warning",
    Phase.FAILED: "trouble",
    Phase.UPDATE_FAILED: "warning",
    Phase.UNKNOWN: "trouble",
}
_OUTCOMES = {RunOutcome.RUNNING: "", RunOutcome.INTERRUPTED: "warning"}

_Since: TypeAlias = Mapping[tuple[ClaimKind, str, str, str], float]
"""When a claim was given (Unix seconds), by kind, name, port and lease."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What the pages are read from. `status`: the operator's status; `free`: what is free of the inventory;
    `stale`: why the inventory is too old to bid, empty when it is not; `ring`: the keys of the history's details.
    """

    status: Callable[[], Awaitable[Mapping[str, Any]]]
    inventory: Callable[[], Inventory]
    free: Callable[[], Snapshot]
    stale: Callable[[], str]
    policies: RuleBook
    database: Database
    ring: KeyRing | None
    cluster: Cluster
    records: str
    bus: Bus
    clock: Clock


class Views:
    """One method a page; each returns what the template of the same name needs."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def now(self) -> dict[str, Any]:
        engine = {
            "busy": int(sample("lessor_engine_busy_workers")),
            "workers": int(sample("lessor_engine_workers")),
            "waiting": int(sum(sample("lessor_engine_waiting", kind=kind.value) for kind in Priority)),
            "oldest": sample("lessor_engine_oldest_wait_seconds"),
        }
        return {"status": await self._sources.status(), "engine": engine}

    async def leases(self, *, closed: bool) -> dict[str, Any]:
        """The leases in trouble first."""
        now = self._sources.clock.now()
        found = [_lease(status, now=now) for status in await known_leases(self._sources.database, closed=closed)]
        order = ("trouble", "warning", "", "ok")
        found.sort(key=lambda one: order.index(one["level"]))
        more = len(found) if len(found) > _MOST_ROWS else 0
        return {"leases": found[:_MOST_ROWS], "closed": closed, "more": more}

    async def lease(self, name: str) -> dict[str, Any]:
        """Raises `StoreError` when no lease, or more than one, has this name."""
        sources = self._sources
        status = await find_lease(sources.database, name)
        stack = namespace_name(status.lease)
        runs = await runs_of(sources.database, stack, limit=_RUNS, ring=sources.ring)
        versions = await versions_of(sources.database, sources.ring, stack) if sources.ring is not None else ()
        return {
            "lease": _lease(status, now=sources.clock.now()),
            "runs": [_run(run) for run in runs],
            "tree": _tree(versions[-1]) if versions else [],
            "no_tree": "No version of this lease is kept, or its key is gone.",
            "manifests": await manifests_of(sources.database, stack, limit=_RUNS),
            "claims": await claims_of(sources.database, stack, limit=_MOST_ROWS),
            "states": await states_of(sources.database, stack, limit=_RUNS),
        }

    async def orders(self) -> dict[str, Any]:
        return {"decisions": await recent_decisions(self._sources.database, limit=_MOST_ROWS)}

    async def order(self, number: int) -> dict[str, Any]:
        """The decision, made again from its record. Raises `StoreError` when there is none of this number."""
        inputs = await load_inputs(self._sources.database, number)
        found = await asyncio.to_thread(lambda: explanation_json(inputs, explain(inputs)))
        recent = await recent_decisions(
            self._sources.database, limit=_MOST_ROWS, owner=inputs.order.id.owner, dseq=inputs.order.id.dseq
        )
        decision: StoredDecision | None = next((one for one in recent if one.id == number), None)
        if decision is None:
            raise StoreError(f"there is no decision {number}")
        return {"found": found, "decision": decision}

    async def inventory(self, *, rows: int | None = _MOST_ROWS) -> dict[str, Any]:
        """The first `rows` nodes, or all."""
        inventory, free = self._sources.inventory(), self._sources.free()
        left = {node.name: node for node in free.nodes}
        nodes = [_node(node, left.get(node.name)) for node in inventory.nodes[:rows]]
        pools = [(name, free.pools.get(name, 0), size) for name, size in sorted(inventory.pool_bytes.items())]
        return {"nodes": nodes, "pools": pools, "problem": self._sources.stale()}

    async def addresses(self) -> dict[str, Any]:
        """The claims of the cluster. When it does not answer, the page says so."""
        cluster, records = self._sources.cluster, self._sources.records
        try:
            async with asyncio.timeout(_ANSWER_S):
                hosts, ips = await asyncio.gather(
                    cluster.list(PROVIDER_HOST, namespace=records), cluster.list(PROVIDER_LEASED_IP, namespace=records)
                )
        except (TimeoutError, ClusterError) as error:
            return {"problem": str(error) or "the cluster does not answer", "hostnames": [], "addresses": []}
        since = await self._since()
        health = {str(each["metadata"]["name"]): each.get("status") for each in hosts}
        hostnames = sorted(host_claims(hosts).values(), key=lambda claim: claim.hostname)
        claims = sorted(address_claims(ips).values(), key=lambda claim: (claim.address, claim.external_port))
        return {
            "problem": "",
            "hostnames": [_hostname(one, health.get(route_name(one.hostname)), since) for one in hostnames],
            "addresses": [_address(one, since) for one in claims],
        }

    async def _since(self) -> _Since:
        """Empty when the store does not answer: the claims themselves are in the cluster."""
        try:
            held = await held_claims(self._sources.database)
        except StoreError:
            return {}
        return {(one.claim.kind, *one.claim.key[1:]): one.given_at for one in held}

    def counts(self) -> dict[str, int]:
        """How many addresses can be leased, and how many of them are free."""
        return {"all": self._sources.inventory().address_count, "free": self._sources.free().free_addresses}

    async def money(self) -> dict[str, Any]:
        database, now = self._sources.database, self._sources.clock.now()
        last = datetime.fromtimestamp(now, UTC).date()
        first = last - timedelta(days=_DAYS - 1)
        earned = await earned_between(database, first, last)
        fees = await fees_between(database, first, last)
        paid: dict[str, Decimal] = defaultdict(Decimal)
        totals: dict[str, Decimal] = defaultdict(Decimal)
        for item in earned:
            totals[item.denom] += item.amount
        for fee in fees:
            paid[fee.denom] += fee.amount
        living = [one for one in (await known_money(database)).values() if not one.ended]
        escrow = await self._escrow()
        return {
            "charts": [_chart(denom, earned, first=first) for denom in sorted(totals)],
            "sums": [(denom, totals[denom], paid[denom]) for denom in sorted(totals.keys() | paid.keys())],
            "leases": [
                _money(one, escrow.get(one.lease), now=now) for one in sorted(living, key=lambda one: one.lease)
            ],
        }

    async def _escrow(self) -> Mapping[LeaseId, LeaseFunds]:
        """The last reading of all escrow accounts; empty before the first."""
        async with self._sources.bus.subscribe(FUNDS_ESCROW) as values:
            try:
                async with asyncio.timeout(0.01):
                    found = await anext(aiter(values))
            except TimeoutError:
                return {}
        return found if isinstance(found, Mapping) else {}

    async def policies(self) -> dict[str, Any]:
        book = self._sources.policies
        return {"rules": sorted(book.rules, key=lambda rule: (rule.topic, rule.id)), "exemptions": book.exemptions}


def _short(lease: LeaseId) -> str:
    return f"{lease.dseq}/{lease.gseq}/{lease.oseq} of {lease.owner}"


def _lease(status: LeaseStatus, *, now: float) -> dict[str, Any]:
    lease = status.lease
    return {
        "owner": lease.owner,
        "dseq": lease.dseq,
        "gseq": lease.gseq,
        "oseq": lease.oseq,
        "namespace": namespace_name(lease),
        "phase": status.phase.value,
        "level": "trouble" if status.attempts else _LEVELS.get(status.phase, ""),
        "reason": status.reason,
        "seconds": now - status.since,
    }


def _run(run: StoredRun) -> dict[str, Any]:
    """Values are masked: the history stores no secret of a tenant."""
    return {
        "id": run.id,
        "started_at": run.started_at,
        "operation": run.operation.value,
        "outcome": run.outcome.value,
        "level": _OUTCOMES.get(run.outcome, "trouble" if run.error else "ok"),
        "reason": run.reason.value,
        "seconds": None if run.ended_at is None else run.ended_at - run.started_at,
        "error": run.error,
        "summary": run.summary or {},
        "changes": run.result.changes[:_MOST_ROWS] if run.result is not None else (),
    }


def _tree(spec: LeaseSpec) -> list[tuple[str, list[str]]]:
    """The objects of the lease by the service they belong to; those of the whole lease first."""
    groups: dict[str, list[str]] = {"the lease itself": []}
    try:
        objects = lease_objects(spec)
    except BuildError as error:
        return [(f"this version of Lessor cannot build it: {error}", [])]
    services = sorted((service.name for service in spec.services), key=len, reverse=True)
    for obj in objects:
        name = str(obj["metadata"]["name"])
        label = (obj["metadata"].get("labels") or {}).get("akash.network/manifest-service")
        group = label or next((one for one in services if name == one or name.startswith(f"{one}-")), "")
        groups.setdefault(f"service {group}" if group else "the lease itself", []).append(f"{obj['kind']} {name}")
    return list(groups.items())


def _node(node: Node, free: Node | None) -> dict[str, Any]:
    left = free.capacity if free is not None else None
    cards, unused = Counter(map(_card, node.cards)), Counter(map(_card, free.cards if free is not None else ()))
    return {
        "name": node.name,
        "cpu": node.capacity.cpu_milli / 1000,
        "free_cpu": left.cpu_milli / 1000 if left is not None else 0.0,
        "memory": node.capacity.memory_bytes,
        "free_memory": left.memory_bytes if left is not None else 0,
        "ephemeral": node.capacity.ephemeral_bytes,
        "free_ephemeral": left.ephemeral_bytes if left is not None else 0,
        "cards": [{"name": name, "all": count, "free": unused[name]} for name, count in sorted(cards.items())],
        "classes": node.storage_classes,
    }


def _hostname(claim: HostnameClaim, status: object, since: _Since) -> dict[str, Any]:
    """`health` is what the hostname operator wrote into the claim; empty where none has checked it. `object` holds the
    claim, and the lease's route has the same name.
    """
    said = status if isinstance(status, Mapping) else {}
    return {
        "hostname": claim.hostname,
        "lease": _short(claim.lease),
        "lease_id": str(claim.lease),
        "service": f"{claim.service}:{claim.external_port}",
        "health": str(said.get("state") or ""),
        "problem": str(said.get("message") or ""),
        "since": since.get((ClaimKind.HOSTNAME, claim.hostname, "", str(claim.lease))),
        "object": f"{PROVIDER_HOST.kind} {route_name(claim.hostname)}",
    }


def _address(claim: AddressClaim, since: _Since) -> dict[str, Any]:
    port = f"{claim.external_port}/{claim.proto}"
    return {
        "address": claim.address,
        "lease": _short(claim.lease),
        "lease_id": str(claim.lease),
        "service": f"{claim.service}:{claim.port}",
        "port": port,
        "since": since.get((ClaimKind.ADDRESS, claim.address, port, str(claim.lease))),
        "object": f"{PROVIDER_LEASED_IP.kind} {claim.name}",
    }


def _card(card: Card) -> str:
    return " ".join(part for part in (card.vendor, card.model) if part)


def _money(money: LeaseMoney, funds: LeaseFunds | None, *, now: float) -> dict[str, Any]:
    runs_out = None
    if funds is not None and funds.runs_out_at is not None:
        runs_out = now + max(0, funds.runs_out_at - funds.height) * _BLOCK_S
    return {
        "short": f"{money.lease.dseq}/{money.lease.gseq}/{money.lease.oseq}",
        "owner": money.lease.owner,
        "namespace": namespace_name(money.lease),
        "denom": money.denom,
        "rate": money.rate,
        "earned": money.earned,
        "unpaid": money.unpaid,
        "runs_out": runs_out,
    }


def _chart(denom: str, earned: Iterable[Earned], *, first: date) -> dict[str, Any]:
    """Bars of what was earned by day, in whole coins."""
    days = [first + timedelta(days=number) for number in range(_DAYS)]
    amounts: dict[date, Decimal] = defaultdict(Decimal)
    for item in earned:
        if item.denom == denom:
            amounts[item.day] += item.amount / 1_000_000 if denom[:1] == "u" else item.amount
    most = max(amounts.values(), default=Decimal(0))
    unit = denom[1:].upper() if denom[:1] == "u" else denom
    return {
        "unit": unit,
        "first": days[0].isoformat(),
        "last": days[-1].isoformat(),
        "most": f"{most.normalize():f}",
        "text": f"{unit} earned by day from {days[0]} to {days[-1]}, {sum(amounts.values()):.6f} in all",
        "bars": _bars(days, [amounts[day] for day in days], most),
    }


def _bars(days: Sequence[date], amounts: Sequence[Decimal], most: Decimal) -> list[dict[str, Any]]:
    width = _CHART_WIDTH / len(days)
    heights = [float(amount / most) * _CHART_HEIGHT if most else 0.0 for amount in amounts]
    return [
        {
            "x": f"{_CHART_LEFT + number * width + 1:.1f}",
            "y": f"{_CHART_BASE - height:.1f}",
            "width": f"{width - 2:.1f}",
            "height": f"{height:.1f}",
            "day": day.isoformat(),
            "text": f"{amount:.6f}",
        }
        for number, (day, amount, height) in enumerate(zip(days, amounts, heights, strict=True))
    ]
