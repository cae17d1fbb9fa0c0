"""`lessor status`: how a running provider is. Exit code 1: none answers; 2: wrong settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lease.printable import printable
from provider.errors import SettingsError

__all__ = ["register", "status_lines"]

_SECONDS = 15.0


def register(app: typer.Typer) -> None:
    """Add `status`."""
    app.command()(status)


def status(*, as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Nodes of the chain with their health, heights, the fees of the last 24 hours, wallet, bids and leases."""
    from provider.local_socket import NobodyAnswers, ask_provider  # noqa: PLC0415  other commands start without them
    from provider.observe.operator_status import status_socket  # noqa: PLC0415
    from provider.settings import load_settings  # noqa: PLC0415

    try:
        told = ask_provider(status_socket(load_settings().home), {}, seconds=_SECONDS)
    except (SettingsError, NobodyAnswers) as error:
        typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2 if isinstance(error, SettingsError) else 1) from None
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for name, text in status_lines(told):
        typer.echo(printable(f"{name:<9} {text}"))


def status_lines(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(subject, what is to be said of it), from the document of `operator_status`."""
    chain = told["chain"]
    yield "provider", f"{told['provider']} on {chain['id']}"
    ago = chain["seconds_ago"]
    yield "blocks", "none yet" if ago is None else f"height {chain['height']}, {ago:.0f} s ago"
    for node in chain["nodes"]:
        yield "node", f"{node['address']}: {_node(node, chain['height'])}"
    yield "fees", _fees(told["fees"])
    if told["fees"]["paid_by"]:
        yield "fees", f"paid by {told['fees']['paid_by']}"
    yield "wallet", _wallet(told["wallet"])
    yield "bids", _bids(told["bids"])
    if told["bids"]["lost"]:
        held = _held(told["bids"]["lost_deposits"])
        yield "bids", f"{told['bids']['lost']} lost ones still hold {held}: every full pass tries to close them"
    if told["pricing"]["unpriced"]:
        yield "pricing", _pricing(told["pricing"])
    for node, words in told["overcommitted"].items():
        yield "capacity", f"node {node} lacks {words} for the pods on it: nothing is free there"
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(told["leases"].items()))
    yield "leases", phases or "none"
    if told["braked"]:
        yield "brake", f"{told['braked']} leases are held: `lessor lease release-brake` removes them"


def _node(node: Mapping[str, Any], height: int) -> str:
    if not node["height"]:
        return node["problem"] or "not asked yet"
    words = ["in use"] if node["used"] else []
    words.append(f"height {node['height']}")
    words += ["catching up"] if node["catching_up"] else []
    words += [f"{height - node['height']} blocks behind us"] if node["height"] < height else []
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
        return "not looked at yet"
    held = ", ".join(f"{amount}{denom}" for denom, amount in sorted(wallet["balances"].items())) or "nothing"
    return f"{held}: {wallet['told'] or wallet['level']}"


def _held(sums: Mapping[str, str]) -> str:
    return ", ".join(f"{amount}{denom}" for denom, amount in sums.items()) or "nothing"


def _pricing(pricing: Mapping[str, Any]) -> str:
    words = "failing, so there are no bids: " if pricing["failing"] else ""
    orders = f"no price for {pricing['unpriced']} orders in a row, for {pricing['seconds']:.0f} s"
    return f"{words}{orders}; the last: {pricing['words']}"


def _bids(bids: Mapping[str, Any]) -> str:
    words = f"{bids['open']} open, {bids['under_way']} under way"
    if bids["deposits"]:
        words += f", deposits {_held(bids['deposits'])}"
    if not bids["registered"]:
        words += "; this provider is not registered on the chain"
    return f"{words}; paused: {bids['paused']}" if bids["paused"] else words
