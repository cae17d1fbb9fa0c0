"""`lessor lease recreate`, `retry`, `close` and `release-brake`: directives to the running provider.

A directive that removes or replaces something asks for confirmation first, unless `--yes` is given.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from lease.ids import LeaseId
from lease.printable import printable
from provider.cli.home import settings_of_home
from provider.cli.lease_store import one_lease
from provider.cli.output import LeaseName, Output, OutputOption, failure, print_lines, print_result
from provider.errors import ProviderError
from provider.lifecycle.control import OperatorRequest, control_path, send_request

__all__ = ["attention", "close", "confirm", "recreate", "release_brake", "request", "retry"]

_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def recreate(name: LeaseName, *, yes: _Yes = False, output: OutputOption = Output.TABLE) -> None:
    """Replace the pods of a lease whose objects an older version of Lessor made.

    Example: `lessor lease recreate 17452311`
    """
    _direct(OperatorRequest.RECREATE, name, output, question="" if yes else "its pods are replaced")


def retry(name: LeaseName, *, output: OutputOption = Output.TABLE) -> None:
    """Retry a version that was refused.

    Example: `lessor lease retry 17452311`
    """
    _direct(OperatorRequest.RETRY, name, output)


def close(name: LeaseName, *, yes: _Yes = False, output: OutputOption = Output.TABLE) -> None:
    """Remove a lease that looks closed from the cluster.

    For a lease that the chain's nodes no longer know, without proof that it is closed, and for one that the teardown
    brake holds. `lessor lease list --suspect` lists such leases.

    Example: `lessor lease close 17452311`
    """
    question = "" if yes else "everything of it is deleted, its volumes too"
    _direct(OperatorRequest.CLOSE, name, output, question=question)


def release_brake(*, yes: _Yes = False, output: OutputOption = Output.TABLE) -> None:
    """Delete the leases that the teardown brake holds.

    Example: `lessor lease release-brake`
    """
    held = attention()["braked"]
    if output is Output.TABLE:
        print_lines([f"held: {each}" for each in held] or ["the brake holds no lease"])
    if held and (yes or confirm(f"{len(held)} leases are deleted, their volumes too")):
        answer = request(OperatorRequest.RELEASE_BRAKE)
        print_result({"held": held, **_said(answer)}, _lines(answer), output)
    elif output is not Output.TABLE:
        print_result({"held": held}, (), output)


def attention() -> dict[str, Any]:
    """What needs an operator's decision, as the provider answers: `suspects`, `braked`, `unknown_stacks`."""
    return request(OperatorRequest.WAITING)


def _direct(directive: OperatorRequest, name: str, output: Output, *, question: str = "") -> None:
    try:
        lease = asyncio.run(one_lease(name, limit=1)).status.lease
    except ProviderError as error:
        raise failure(error) from None
    if not question or confirm(f"{lease}: {question}"):
        answer = request(directive, lease)
        print_result({"lease": str(lease), **_said(answer)}, _lines(answer), output)


def request(directive: OperatorRequest, lease: LeaseId | None = None, **fields: object) -> dict[str, Any]:
    """The running provider's answer. Raises `typer.Exit`, with the problem printed, when it refuses or none runs."""
    try:
        answer = send_request(control_path(settings_of_home().home), directive, lease, **fields)
        if not answer.get("ok"):
            raise ProviderError(str(answer.get("text") or json.dumps(answer)))
    except ProviderError as error:
        raise failure(error) from None
    return answer


def confirm(consequence: str) -> bool:
    """True when the operator confirms. Raises `typer.Abort` otherwise."""
    return typer.confirm(f"{printable(consequence)}. Go on?", abort=True, err=True)


def _said(answer: dict[str, Any]) -> dict[str, str]:
    return {"text": str(answer.get("text") or "")}


def _lines(answer: dict[str, Any]) -> list[str]:
    return [str(answer["text"])] if answer.get("text") else []
