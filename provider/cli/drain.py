"""`lessor drain` and `undrain`: maintenance of the provider or of nodes. Nothing is closed, moved or stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from pydantic import ValidationError

from provider.cli.home import settings_of_home
from provider.cli.output import Output, OutputOption, failure, print_result
from provider.errors import ArgumentError, ProviderError, SettingsError
from provider.maintenance import Drain, Maintenance, change_maintenance
from provider.units import parse_duration

__all__ = ["drain", "undrain"]

_Nodes = Annotated[list[str] | None, typer.Argument(help="Nodes of the cluster; without one the whole provider.")]


def drain(
    nodes: _Nodes = None,
    *,
    for_: Annotated[str, typer.Option("--for", help="End by itself after this time: `2h`, `90m`.")] = "",
    reason: Annotated[str, typer.Option("--reason", help="Tenants read it in the status of their leases.")] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Stop bidding, with the whole provider or for some nodes.

    Leases run on, and the gateway, withdrawals and ends of leases too. Tenants read of it in the lease status. While
    the provider is drained, `lessor status` calls an API server that does not answer a warning, not trouble. The drain
    survives a restart; without --for it holds until `lessor undrain`. `kubectl drain` moves the pods of a node.

    Example: `lessor drain gpu-3 --for 2h --reason "new disks"`
    """
    try:
        each = _drain(for_, _reason(reason))
    except ArgumentError as error:
        raise failure(error) from None
    names = nodes or []

    def drained(state: Maintenance) -> Maintenance:
        if names:
            return state.model_copy(update={"nodes": {**state.nodes, **dict.fromkeys(names, each)}})
        return state.model_copy(update={"provider": each})

    _change(drained, output)


def undrain(nodes: _Nodes = None, *, output: OutputOption = Output.TABLE) -> None:
    """Bid again, with the whole provider or on some nodes.

    Without a node all maintenance ends, that of nodes too.

    Example: `lessor undrain gpu-3`
    """
    names = frozenset(nodes or ())

    def ended(state: Maintenance) -> Maintenance:
        left = {name: each for name, each in state.nodes.items() if name not in names}
        return Maintenance(provider=state.provider, nodes=left) if names else Maintenance()

    _change(ended, output)


def _drain(for_: str, reason: str) -> Drain:
    now = time.time()
    try:
        return Drain(since=now, until=now + parse_duration(for_) if for_ else None, reason=reason)
    except ValidationError:
        raise ArgumentError(f"--for {for_!r}: it would end after the year 9999; leave it out") from None
    except ValueError as error:
        raise ArgumentError(f"--for {for_!r}: {error}") from None


def _reason(text: str) -> str:
    if len(text) > 300 or not text.isprintable():
        raise ArgumentError("--reason must be one line of at most 300 printable characters")
    return text


def _change(change: Callable[[Maintenance], Maintenance], output: Output) -> None:
    """Write the changed state of what holds now, and print it."""
    try:
        state = change_maintenance(settings_of_home().home, change)
    except SettingsError as error:
        raise failure(error) from None
    except (OSError, ValueError) as error:
        raise failure(ProviderError(str(error))) from None
    print_result(state.model_dump(mode="json"), _lines(state.provider, state.nodes), output)


def _lines(provider: Drain | None, nodes: Mapping[str, Drain]) -> list[str]:
    lines = [f"the provider makes no bids{provider.text}"] if provider else []
    lines += [f"node {name} takes no new lease{each.text}" for name, each in sorted(nodes.items())]
    return lines or ["no maintenance: a running provider bids within a few seconds"]
