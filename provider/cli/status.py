"""`lessor status`: the state of the running provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provider.cli.output import JsonOption, failure, print_result, table_lines
from provider.errors import ProviderUnreachable, SettingsError
from provider.local_socket import ask_provider, status_socket
from provider.settings import load_settings

__all__ = ["status", "status_rows"]

_ANSWER_S = 15.0


def status(*, as_json: JsonOption = False) -> None:
    """Show the state of the running provider: chain nodes, fees, wallet, bids, leases."""
    try:
        found = ask_provider(status_socket(load_settings().home), {}, seconds=_ANSWER_S)
    except (SettingsError, ProviderUnreachable) as error:
        raise failure(error) from None
    print_result(found, table_lines(status_rows(found)), as_json=as_json)


def status_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(subject, state) in the order of the output, from the document of `operator_status`."""
    chain = found["chain"]
    yield "provider", f"{found['provider']} on {chain['id']}"
    ago = chain["seconds_ago"]
    yield "blocks", "none yet" if ago is None else f"height {chain['height']}, {ago:.0f} s ago"
    for node in chain["nodes"]:
        yield "node", f"{node['address']}: {_node(node, chain['height'])}"
    if cluster := found["cluster"]:
        words = cluster["problem"] or f"answered {cluster['seconds_ago']:.0f} s ago"
        yield "cluster", f"{cluster['address']}: {words}"
        if cluster["certificate_ends_soon"]:
            days = cluster["certificate_s"] / 86400
            yield "cluster", f"the client's certificate in the kubeconfig ends in {days:.1f} days: renew it"
    yield "fees", _fees(found["fees"])
    if found["fees"].get("refused"):
        yield "fees", found["fees"]["refused"]
    if found["fees"]["paid_by"]:
        yield "fees", f"paid by {found['fees']['paid_by']}"
    yield "wallet", _wallet(found["wallet"])
    yield "bids", _bids(found["bids"])
    if found["bids"]["lost"]:
        held = _held(found["bids"]["lost_deposits"])
        yield "bids", f"{found['bids']['lost']} lost bids still hold {held}: every full pass tries to close them"
    if found["pricing"]["unpriced"]:
        yield "pricing", _pricing(found["pricing"])
    for node, words in found["overcommitted"].items():
        yield "capacity", f"node {node} lacks {words} for the pods on it: it has nothing free"
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(found["leases"].items()))
    yield "leases", phases or "none"
    if found["braked"]:
        yield "brake", f"{found['braked']} leases are held: `lessor lease release-brake` deletes them"


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
