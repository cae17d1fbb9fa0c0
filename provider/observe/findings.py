"""The answer to "is all well?": what an operator should know of, from the status document (pure).

Trouble stops bids, costs tenants or money, or needs an operator's decision now; a warning becomes trouble when nothing
is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

__all__ = ["CERTIFICATE_SOON_S", "Finding", "Level", "findings", "with_findings"]

CERTIFICATE_SOON_S = 14 * 86400.0
_DAY_S = 86400.0
_OLD_BLOCK_S = 120.0
_LONG_S = 600.0
_MANY_ENDS = 3
_SHORT_OF_DISK, _OUT_OF_DISK = (0.10, 2**30), (0.02, 200 * 2**20)
"""Share of the disk that is free, and bytes: less of either."""


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject`: what it is about, as in the rows of `lessor status`."""

    level: Level
    subject: str
    text: str


def with_findings(found: Mapping[str, Any]) -> dict[str, Any]:
    """The document with `level`, the worst of all findings, and `findings`, trouble first."""
    listed = findings(found)
    level = listed[0].level if listed else Level.OK
    return {**found, "level": level.value, "findings": [asdict(each) | {"level": each.level.value} for each in listed]}


def findings(found: Mapping[str, Any]) -> list[Finding]:
    """Trouble first, else in the order of the document."""
    listed = [
        *_chain(found["chain"]),
        *_maintenance(found.get("maintenance") or {}),
        *_cluster(found["cluster"], planned=bool((found.get("maintenance") or {}).get("provider"))),
        *_money(found),
        *_market(found),
        *_leases(found),
        *_gateway(found.get("gateway") or {}),
        *_certificates(found["certificates"]),
        *_disk(found["disk"]),
        *_store(found.get("store") or {}),
    ]
    return sorted(dict.fromkeys(listed), key=lambda each: each.level is not Level.TROUBLE)


def _chain(chain: Mapping[str, Any]) -> Iterator[Finding]:
    ago = chain["seconds_ago"]
    if ago is None:
        yield Finding(Level.WARNING, "chain", "no block has been read yet")
    elif ago > _OLD_BLOCK_S:
        yield Finding(Level.TROUBLE, "chain", f"no block has been read for {ago:.0f} s")
    for node in chain["nodes"]:
        if node["problem"]:
            yield Finding(Level.WARNING, "chain", f"node {node['address']}: {node['problem']}")


def _maintenance(maintenance: Mapping[str, Any]) -> Iterator[Finding]:
    if maintenance.get("provider"):
        yield Finding(
            Level.WARNING, "maintenance", "the provider is drained and makes no bids; `lessor undrain` ends it"
        )
    for node in sorted(maintenance.get("nodes") or ()):
        yield Finding(Level.WARNING, "maintenance", f"node {node} is drained and takes no new lease")


def _cluster(cluster: Mapping[str, Any], *, planned: bool) -> Iterator[Finding]:
    """`planned`: the provider is drained, so that an API server or nodes that are away are expected."""
    level = Level.WARNING if planned else Level.TROUBLE
    if cluster and cluster["problem"]:
        yield Finding(level, "cluster", cluster["problem"])
    if cluster and not cluster.get("nodes", 1):
        yield Finding(level, "cluster", "no node takes pods of tenants (label akash.network=true, Ready, no taint)")


def _money(found: Mapping[str, Any]) -> Iterator[Finding]:
    wallet, fees = found["wallet"], found["fees"]
    if wallet is not None and wallet["problem"]:
        level = Level.TROUBLE if wallet["level"] == "stop" else Level.WARNING
        yield Finding(level, "money", wallet["problem"])
    if problem := found["funds_problem"]:
        yield Finding(Level.WARNING, "money", problem)
    if problem := fees.get("problem"):
        yield Finding(Level.TROUBLE, "store", problem)
    if refused := fees.get("refused"):
        yield Finding(Level.TROUBLE, "money", refused)
    left = fees.get("left", {})
    if left and left["closing"] <= 0:
        yield Finding(Level.TROUBLE, "money", "the fee budget of the day is used up (LESSOR_FEE_BUDGET)")
    elif left and left["bids"] <= 0:
        yield Finding(Level.WARNING, "money", "the fee budget of the day has nothing left for bids (LESSOR_FEE_BUDGET)")


def _market(found: Mapping[str, Any]) -> Iterator[Finding]:
    bids, pricing = found["bids"], found["pricing"]
    if not bids["registered"]:
        yield Finding(Level.TROUBLE, "market", "this provider is not registered on the chain: no bids are made")
    reported = {(found["cluster"] or {}).get("problem"), (found["wallet"] or {}).get("problem")}
    drained = bool((found.get("maintenance") or {}).get("provider"))
    if bids["paused"] and bids["paused"] not in reported and not drained:
        yield Finding(Level.TROUBLE, "market", f"no bids are made: {bids['paused']}")
    if pricing.get("failing"):
        orders = f"the price strategy has named no price for {pricing['unpriced']} orders"
        yield Finding(Level.TROUBLE, "market", f"{orders}: {pricing['problem']}")
    if problem := bids["problem"]:
        yield Finding(Level.WARNING, "market", f"leases, bids and open orders cannot be read: {problem}")
    if bids["lost"]:
        yield Finding(Level.WARNING, "market", f"{bids['lost']} lost bids still hold their deposits")
    if problem := found["market"].get("problem"):
        yield Finding(Level.TROUBLE, "store", problem)
    for text in found["unmatched"]:
        yield Finding(Level.WARNING, "market", text)
    for node, text in found["overcommitted"].items():
        yield Finding(Level.WARNING, "cluster", f"node {node} lacks {text} for the pods on it")


def _leases(found: Mapping[str, Any]) -> Iterator[Finding]:
    if found["braked"]:
        text = f"the brake holds {found['braked']} leases: see `lessor lease list --suspect`"
        yield Finding(Level.TROUBLE, "leases", text)
    if found["suspects"]:
        yield Finding(
            Level.WARNING, "leases", f"{found['suspects']} leases look closed: see `lessor lease list --suspect`"
        )
    if found["unknown_stacks"]:
        yield Finding(Level.WARNING, "leases", f"{found['unknown_stacks']} stacks belong to no known lease")
    if worst := found["oldest_trouble"]:
        level = Level.TROUBLE if worst["provider_fault"] and worst["seconds"] > _LONG_S else Level.WARNING
        waits = worst["of_the_provider"] and worst["seconds"] > _LONG_S  # a node makes a pod in less
        if worst["provider_fault"] or waits or worst["state"] in ("unknown", "closing"):
            text = f"lease {worst['lease']} is {worst['state']} for {worst['seconds']:.0f} s: {worst['reason']}"
            yield Finding(level, "leases", text)


def _gateway(gateway: Mapping[str, Any]) -> Iterator[Finding]:
    """A child that ended once and runs again is a warning; one that ends again and again serves nobody."""
    process, issuer = gateway.get("process") or {}, gateway.get("issuer") or {}
    if process.get("absent"):
        text = "no gateway is connected and tenants are answered by nobody: start `lessor gateway` with this AP_HOME"
        yield Finding(Level.TROUBLE, "gateway", text)
    if ends := process.get("ends", 0):
        level = Level.WARNING if ends < _MANY_ENDS and process["running"] else Level.TROUBLE
        text = f"the gateway's process has ended {ends} times in a row, the last time with {process['exit_code']}"
        yield Finding(level, "gateway", text)
    if issuer.get("problem"):
        level = Level.TROUBLE if issuer["urgent"] else Level.WARNING
        what = f"the CA's certificate for {', '.join(issuer['names'])} is not issued: {issuer['problem']}"
        again = f"the next try is in {issuer['next_try_s']:.0f} s"
        yield Finding(level, "certificates", f"{what}: {issuer['remedy']}; {again}")


def _certificates(certificates: list[Mapping[str, Any]]) -> Iterator[Finding]:
    for each in certificates:
        days = each["seconds"] / _DAY_S
        if each["problem"]:
            yield Finding(Level.TROUBLE, "certificates", f"{each['what']}: {each['problem']}: {each['remedy']}")
        if each["seconds"] <= 0:
            yield Finding(Level.TROUBLE, "certificates", f"{each['what']} ended {-days:.1f} days ago: {each['remedy']}")
        elif each["seconds"] < each.get("soon", CERTIFICATE_SOON_S):
            yield Finding(Level.WARNING, "certificates", f"{each['what']} ends in {days:.1f} days: {each['remedy']}")


def _disk(disk: Mapping[str, Any]) -> Iterator[Finding]:
    if not disk:
        return
    if problem := disk.get("problem"):
        yield Finding(Level.TROUBLE, "disk", problem)
        return
    text = f"{disk['free'] / 2**30:.1f} GiB of {disk['size'] / 2**30:.1f} GiB are free at {disk['path']}"
    for level, (share, least) in ((Level.TROUBLE, _OUT_OF_DISK), (Level.WARNING, _SHORT_OF_DISK)):
        if disk["free"] < min(share * disk["size"], least) or disk["free_files"] < share:
            yield Finding(level, "disk", text)
            return


def _store(store: Mapping[str, Any]) -> Iterator[Finding]:
    if problem := store.get("problem"):
        yield Finding(Level.TROUBLE, "store", f"the database is damaged and cannot be replaced: {problem}")
    for problem in (store.get("losses") or [])[-1:]:
        yield Finding(Level.WARNING, "store", f"an empty database was begun, the history is lost: {problem}")
    for path in (store.get("set_aside") or [])[:1]:
        yield Finding(Level.WARNING, "store", f"a damaged database is kept as {path}; move it away when it is read")
