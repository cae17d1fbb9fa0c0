"""`lessor lease list`, `show` and `history`: what the provider's store says about leases. They change nothing.

They work beside a running provider and without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer

from provider.cli.lease_directives import attention
from provider.cli.lease_records import records_json, records_lines
from provider.cli.lease_store import every_lease, one_lease
from provider.cli.lease_text import (
    attention_lines,
    brake_lines,
    history_lines,
    lease_json,
    list_lines,
    run_json,
    show_json,
    show_lines,
)
from provider.cli.output import LeaseName, Output, OutputOption, failure, print_result, warn
from provider.errors import SettingsError, StoreError

__all__ = ["history", "list_", "show"]

_MANY = 1_000_000
_Answer = TypeVar("_Answer")


def list_(
    *,
    closed: Annotated[bool, typer.Option("--all", help="List closed leases too, as long as they are kept.")] = False,
    suspect: Annotated[
        bool, typer.Option("--suspect", help="List only what needs your decision. The running provider answers.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the leases, each with its state and the reason for it.

    Example: `lessor lease list --suspect`
    """
    if suspect:
        _print_attention(output)
        return
    found, held = _ask(every_lease(closed=closed))
    document = [lease_json(status) | ({"braked": True} if status.lease in held else {}) for status in found]
    print_result(document, [*list_lines(found), *brake_lines(held)], output)


def _print_attention(output: Output) -> None:
    found = attention()
    document = {name: found[name] for name in ("suspects", "braked", "unknown_stacks")}
    print_result(document, attention_lines(document), output)


def show(name: LeaseName, *, output: OutputOption = Output.TABLE) -> None:
    """Show one lease: its state, what runs, and the outcomes of its runs.

    Example: `lessor lease show 17452311/1/1`
    """
    found = _ask(one_lease(name, limit=_MANY))
    document = {**show_json(found.status, found.runs), **records_json(found.records)}
    print_result(document, show_lines(found.status, found.runs), output)


def history(
    name: LeaseName,
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=_MANY, help="The number of runs to list, and of other records.")
    ] = 20,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the runs of one lease, the newest first.

    A run is one operation on the lease's stack. Shown are its operation and reason, its changes, its duration and its
    outcome. After the runs: the manifests that were accepted, the hostnames and addresses that the lease had and when,
    and its states; as JSON these are in `lessor lease show`.

    Example: `lessor lease history 17452311 --limit 5`
    """
    found = _ask(one_lease(name, limit=limit))
    if found.key_problem:
        warn(f"lessor: changes are not shown: {found.key_problem}")
    lines = [*history_lines(found.runs), *records_lines(found.records)]
    print_result([run_json(run) for run in found.runs], lines, output)


def _ask(question: Coroutine[Any, Any, _Answer]) -> _Answer:
    try:
        return asyncio.run(question)
    except (SettingsError, StoreError) as error:
        raise failure(error) from None
