"""`lessor status`: one screen that answers "is all well?". Exit code 0: yes; 1: a warning; 2: trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from lease.exit_codes import FINDING, TROUBLE
from provider.cli.home import settings_of_home
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines
from provider.errors import ProviderUnreachable, SettingsError
from provider.local_socket import ask_provider, status_socket

__all__ = ["status", "status_rows"]

_ANSWER_S = 15.0
_CODES = {"warning": FINDING, "trouble": TROUBLE}


def status(*, output: OutputOption = Output.TABLE) -> None:
    """Show whether all is well, then chain, cluster, market, leases, money, certificates and disk.

    The exit code is 0 when all is well, 1 with a warning, 2 with trouble.

    Example: `lessor status --output json`
    """
    try:
        found = ask_provider(status_socket(settings_of_home().home), {}, seconds=_ANSWER_S)
    except (SettingsError, ProviderUnreachable) as error:
        raise failure(error) from None
    print_result(found, table_lines(status_rows(found)), output)
    if code := _CODES.get(found["level"], 0):
        raise typer.Exit(code)


def status_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(subject, state) in the order of the output, from the document of `operator_status`."""
    yield "status", _verdict(found["findings"])
    for each in found["findings"]:
        yield each["level"].upper(), f"{each['subject']}: {each['text']}"
    yield from _chain_rows(found)
    yield from _market_rows(found)
    yield from _lease_rows(found)
    yield from _money_rows(found)
    yield from _machine_rows(found)


def _verdict(findings: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(each["level"] for each in findings)
    words = {"trouble": "trouble", "warning": "warnings" if counts["warning"] > 1 else "warning"}
    return ", ".join(f"{counts[level]} {word}" for level, word in words.items() if counts[level]) or "all is well"


def _chain_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    chain = found["chain"]
    yield "provider", f"{found['provider']} on {chain['id']}"
    ago = chain["seconds_ago"]
    yield "blocks", "none yet" if ago is None else f"height {chain['height']}, {ago:.0f} s ago"
    for node in chain["nodes"]:
        yield "node", f"{node['address']}: {_node(node, chain['height'])}"
    if cluster := found["cluster"]:
        words = (
            cluster["problem"] or f"answered {cluster['seconds_ago']:.0f} s ago, {cluster['nodes']} nodes take tenants"
        )
        yield "cluster", f"{cluster['address']}: {words}"
    yield "free", _free(found["free"])
    for node, words in found["overcommitted"].items():
        yield "capacity", f"node {node} lacks {words} for the pods on it: it has nothing free"


def _market_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "bids", _bids(found["bids"])
    if found["bids"]["lost"]:
        held = _held(found["bids"]["lost_deposits"])
        yield "bids", f"{found['bids']['lost']} lost bids still hold {held}: every full pass tries to close them"
    market = found["market"]
    if "problem" in market:
        yield "orders", f"not known: {market['problem']}"
    else:
        least = "" if market["whole"] else "at least "
        yield "orders", f"in the last hour {least}{market['bids']} bids and {market['declined']} declined"
        for check, failed in sorted(market["failed"].items(), key=lambda item: (-item[1]["orders"], item[0])):
            yield "declined", f"{failed['orders']} by {check}, the last: {failed['last']}"
    if found["pricing"]["unpriced"]:
        yield "pricing", _pricing(found["pricing"])


def _lease_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(found["leases"].items()))
    yield "leases", phases or "none"
    if worst := found["oldest_trouble"]:
        text = f"lease {worst['lease']} is {worst['state']} for {worst['seconds']:.0f} s"
        yield "oldest", ": ".join(filter(None, (text, worst["reason"])))
    if found["braked"]:
        yield "brake", f"{found['braked']} leases are held: `lessor lease release-brake` deletes them"


def _money_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "wallet", _wallet(found["wallet"])
    yield "fees", _fees(found["fees"])
    if found["fees"].get("refused"):
        yield "fees", found["fees"]["refused"]
    if found["fees"]["paid_by"]:
        yield "fees", f"paid by {found['fees']['paid_by']}"


def _machine_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in found["certificates"]:
        days = each["seconds"] / 86400
        yield "certificate", f"{each['what']}: ends in {days:.0f} days" if days > 0 else f"{each['what']}: has ended"
    if (disk := found["disk"]) and "problem" not in disk:
        yield "disk", f"{disk['free'] / 2**30:.1f} of {disk['size'] / 2**30:.1f} GiB free at {disk['path']}"


def _free(free: Mapping[str, int]) -> str:
    ports = f"{free['node_ports']} of {free['node_ports_of']} node ports"
    return f"{free['addresses']} of {free['addresses_of']} leased addresses, {ports}" if free["addresses_of"] else ports


def _node(node: Mapping[str, Any], height: int) -> str:
    if not node["height"]:
        return node["problem"] or "not asked yet"
    words = ["in use"] if node["used"] else []
    words.append(f"height {node['height']}")
    words += ["catching up"] if node["catching_up"] else []
    words += [f"{height - node['height']} blocks behind this provider"] if node["height"] < height else []
    words += [f"has blocks from {node['pruned_below']} on"] if node["pruned_below"] > 1 else []
    words += [node["problem"]] if node["problem"] else []
    return ", ".join(words)


def _fees(fees: Mapping[str, Any]) -> str:
    denom = fees["denom"]
    if "problem" in fees:
        return f"not known: {fees['problem']}"
    spent = f"{fees['spent']}{denom} in the last 24 hours"
    if not fees["budget"]:
        return f"{spent}, no budget (LESSOR_FEE_BUDGET)"
    left = ", ".join(f"{amount} for {kind}" for kind, amount in fees["left"].items())
    return f"{spent} of {fees['budget']}{denom}; left: {left}"


def _wallet(wallet: Mapping[str, Any] | None) -> str:
    if wallet is None:
        return "not read yet"
    held = ", ".join(f"{amount}{denom}" for denom, amount in sorted(wallet["balances"].items())) or "nothing"
    return f"{held}: {wallet['problem'] or wallet['level']}"


def _held(sums: Mapping[str, str]) -> str:
    return ", ".join(f"{amount}{denom}" for denom, amount in sums.items()) or "nothing"


def _pricing(pricing: Mapping[str, Any]) -> str:
    words = "failing, so there are no bids: " if pricing["failing"] else ""
    orders = f"no price for {pricing['unpriced']} orders in a row, for {pricing['seconds']:.0f} s"
    return f"{words}{orders}; the last: {pricing['problem']}"


def _bids(bids: Mapping[str, Any]) -> str:
    words = f"{bids['open']} open, {bids['under_way']} under way"
    if bids["deposits"]:
        words += f", deposits {_held(bids['deposits'])}"
    if not bids["registered"]:
        words += "; this provider is not registered on the chain"
    return f"{words}; paused: {bids['paused']}" if bids["paused"] else words
