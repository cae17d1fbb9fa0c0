"""`lessor inventory`, `address list` and `hostname list`: what the running provider knows; the dashboard shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lease.exit_codes import FINDING
from provider.cli.home import settings_of_home
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines, utc_time
from provider.errors import ProviderError
from provider.local_socket import ask_provider, views_socket

__all__ = ["addresses", "hostnames", "inventory"]

_ANSWER_S = 15.0
_GIB = 1 << 30


def inventory(*, output: OutputOption = Output.TABLE) -> None:
    """Show what the cluster has and what of it is free, by node and by card.

    Free is allocatable without what pods request and what is promised to bids and leases; the rest is reserved. The
    running provider answers from its own picture of the cluster. Exit code 1: the picture is too old to bid, and a line
    says why.

    Example: `lessor inventory --output json | jq '.cards[] | select(.free > 0)'`
    """
    found = _asked("inventory")
    document = _inventory(found)
    print_result(document, _inventory_lines(document), output)
    _end(found)


def addresses(*, output: OutputOption = Output.TABLE) -> None:
    """List the leased addresses, each with its lease.

    One address may serve several ports and leases of one owner. LESSOR_IP_RANGES names the addresses. A document also
    names the object that holds each claim. The running provider answers. Exit code 1: the cluster does not answer, and
    a line says why.

    Example: `lessor address list --output yaml`
    """
    found = _asked("addresses")
    rows, count = found["addresses"], found["count"]
    cells = [(one["address"] or "none yet", one["port"], one["service"], one["lease"], _since(one)) for one in rows]
    table = table_lines(cells, header=("ADDRESS", "PORT", "SERVICE", "LEASE", "SINCE")) or ["no lease has an address"]
    document = {"addresses": [_dated(one) for one in rows], "free": count["free"], "all": count["all"]}
    print_result(document, [*table, f"{count['free']} of {count['all']} addresses are free"], output)
    _end(found)


def hostnames(*, output: OutputOption = Output.TABLE) -> None:
    """List the hostnames, each with its lease and whether it is reached.

    `healthy` and `unhealthy` are what the hostname operator has found at its last check; without that operator the
    column is `not checked`. The running provider answers. Exit code 1: the cluster does not answer, and a line says
    why.

    Example: `lessor hostname list`
    """
    found = _asked("addresses")
    rows = found["hostnames"]
    cells = [(one["hostname"], one["service"], one["lease"], _since(one), _health(one)) for one in rows]
    header = ("HOSTNAME", "SERVICE", "LEASE", "SINCE", "HEALTH")
    table = table_lines(cells, header=header) or ["no lease has a hostname"]
    print_result({"hostnames": [_dated(one) for one in rows]}, table, output)
    _end(found)


def _asked(view: str) -> dict[str, Any]:
    """The running provider's answer. Raises `typer.Exit`, with the problem printed."""
    try:
        answer = ask_provider(views_socket(settings_of_home().home), {"view": view}, seconds=_ANSWER_S)
        if not answer.get("ok"):
            raise ProviderError(str(answer.get("text")))
    except ProviderError as error:
        raise failure(error) from None
    return answer


def _end(found: Mapping[str, Any]) -> None:
    if problem := found["problem"]:
        raise failure(str(problem), code=FINDING)


def _since(one: Mapping[str, Any]) -> str:
    """Since when the lease has it; a claim of the last seconds is not recorded yet."""
    return utc_time(one["since"]) if one.get("since") is not None else "-"


def _dated(one: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, "since": utc_time(one["since"]) if one.get("since") is not None else None}


def _health(one: Mapping[str, Any]) -> str:
    return f"{one['health']}: {one['problem']}" if one["problem"] else one["health"] or "not checked"


def _inventory(found: Mapping[str, Any]) -> dict[str, Any]:
    """The document: sizes in bytes, CPU in cores."""
    nodes = [
        {
            "name": node["name"],
            "cpu": _part(node["cpu"], node["free_cpu"]),
            "memory": _part(node["memory"], node["free_memory"]),
            "ephemeral": _part(node["ephemeral"], node["free_ephemeral"]),
            "cards": node["cards"],
            "storage_classes": node["classes"],
        }
        for node in found["nodes"]
    ]
    storage = [{"class": name, **_part(size, free)} for name, free, size in found["pools"]]
    return {"problem": found["problem"], "nodes": nodes, "cards": _cards(nodes), "storage": storage}


def _part(whole: float, free: float) -> dict[str, float]:
    return {"all": whole, "free": free, "reserved": round(whole - free, 3)}


def _cards(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each kind of card, with the nodes that have it."""
    found: dict[str, dict[str, Any]] = defaultdict(lambda: {"all": 0, "free": 0, "nodes": {}})
    for node in nodes:
        for card in node["cards"]:
            each = found[card["name"]]
            each["all"] += card["all"]
            each["free"] += card["free"]
            each["nodes"][node["name"]] = {"all": card["all"], "free": card["free"]}
    return [{"name": name, **each} for name, each in sorted(found.items())]


def _inventory_lines(document: Mapping[str, Any]) -> Iterator[str]:
    nodes, cards, storage = document["nodes"], document["cards"], document["storage"]
    if not nodes:
        yield "no node takes tenants' pods"
    header = ("NODE", "CPU", "MEMORY GiB", "EPHEMERAL GiB", "STORAGE CLASSES")
    rows = [
        (
            node["name"],
            _of(node["cpu"], 1),
            _of(node["memory"], _GIB),
            _of(node["ephemeral"], _GIB),
            ", ".join(node["storage_classes"]),
        )
        for node in nodes
    ]
    yield from table_lines(rows, header=header, right=(1, 2, 3))
    if cards:
        yield ""
        lines = [(card["name"], f"{card['free']} of {card['all']}", _by_node(card)) for card in cards]
        yield from table_lines(lines, header=("CARD", "FREE", "NODES"), right=(1,))
    if storage:
        yield ""
        lines = [(each["class"], _of(each, _GIB), "") for each in storage]
        yield from table_lines(lines, header=("STORAGE CLASS", "FREE GiB", ""), right=(1,))


def _of(part: Mapping[str, float], unit: int) -> str:
    return f"{part['free'] / unit:.1f} of {part['all'] / unit:.1f}"


def _by_node(card: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {each['free']} of {each['all']}" for name, each in card["nodes"].items())
