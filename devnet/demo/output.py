"""The demo's printed output: numbered steps with times, and the provider's log events, one line each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

from rich.console import Console

from devnet.world.provider_process import Event
from lease.printable import printable

__all__ = ["DemoOutput", "shortened"]

_OPS = {"create": "+", "update": "~", "delete": "-", "replace": "±", "create-replacement": "+", "delete-replaced": "-"}
_NAME_LENGTH = 32
_WIDTH = 100


class DemoOutput:
    """Prints to `console`. Texts of tenants are not read as markup and cannot send control codes to the terminal.

    When the terminal, the pipe or the disk behind the output fails, the rest is printed nowhere and `lost` is called
    once: printing raises nothing, so that it cannot keep the demo from cleaning up.
    """

    def __init__(self, console: Console, lost: Callable[[], None] = lambda: None) -> None:
        self._console = console
        self._lost = lost
        self._began = time.monotonic()
        self._steps = 0

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print the numbered title before the block and the block's duration after it."""
        self._steps += 1
        began = time.monotonic()
        self._print(f"\n{self._steps}. {title}", style="bold cyan")
        yield
        self._print(f"   ({time.monotonic() - began:.1f} s)", style="dim")

    def line(self, text: str, *, style: str = "") -> None:
        self._print(f"   {printable(text)}", style=style)

    def _print(self, text: str, *, style: str) -> None:
        try:
            self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
        except (OSError, SystemExit):  # rich ends the process when a pipe is closed
            self._console.quiet = True
            self._lost()

    def success(self, text: str) -> None:
        self.line(f"✓ {text}", style="green")

    def created_object(self, line: str) -> None:
        """Print a line of `pulumi up` that reports a created Kubernetes object, without its API group."""
        words = line.split()
        if "created" in words and words[1].startswith("kubernetes:"):
            self.line(f"pulumi: + {words[1].rpartition(':')[2]} {words[2]} created", style="dim")

    def lease_status(self, status: int, body: str) -> None:
        """Print the gateway's answer to a lease status request, one line a service."""
        self.line(f"tenant: GET lease status → {status}")
        found: Mapping[str, Any] = json.loads(body) if status == 200 else {}
        for name, service in (found.get("services") or {}).items():
            places = [*(service["uris"] or ()), *_ports(found, name), *_addresses(found, name)]
            suffix = f", at {', '.join(places)}" if places else ""
            self.line(f"        service {name}: {service['available']} of {service['total']} available{suffix}")

    def provider_event(self, event: Event) -> None:
        """Print an event of the provider's log if it concerns the lease."""
        match event.get("event"):
            case "market.decided":
                self._decision(event)
            case "market.declined":
                self.line(f"lessor: declined: {'; '.join(event['reasons'])}", style="yellow")
            case "market.bid":
                self.line(f"lessor: bid in block {event['height']}, fee {event['fee']}")
            case "market.lease_won":
                self.line("lessor: the tenant took the bid, the lease is active")
            case "stack.resource" if str(event.get("type", "")).startswith("kubernetes:"):
                self._resource(event)
            case "stack.result":
                self._result(event)
            case "lease.state":
                self._state(event)

    def _decision(self, event: Event) -> None:
        nodes = ", ".join(sorted({name for names in event["nodes"].values() for name in names}))
        self.line(f"lessor: decision {event['decision']}: bid {event['price']} a block; reserved on {nodes}")
        self.line(f"        the order's maximum is {event['maximum']}; the price is the sum of")
        for part in wrap(" + ".join(event["parts"]), _WIDTH, break_on_hyphens=False):
            self.line(f"        {part}", style="dim")

    def _state(self, event: Event) -> None:
        """Print the phase of the lease, and each part of the reason on a line."""
        first, *others = str(event.get("reason") or "").split("; ")
        self.line(f"lessor: lease {event['phase']}{first and f': {first}'}", style="bold")
        for part in others:
            self.line(f"        {part}")

    def _resource(self, event: Event) -> None:
        kind = str(event["type"]).rpartition(":")[2]
        diff = f"  [{_changes(event['diff'])}]" if event.get("diff") else ""
        would = "would " if event["operation"] == "preview" else ""
        sign = _OPS.get(event["op"], event["op"])
        self.line(f"pulumi: {would}{sign} {kind} {shortened(str(event['name']))}{diff}", style="dim")

    def _result(self, event: Event) -> None:
        counts = ", ".join(f"{count} {op}" for op, count in event["summary"].items())
        text = f"pulumi: {event['operation']} {'done' if event['ok'] else 'failed'} in {event['seconds']} s ({counts})"
        self.line(text, style="" if event["ok"] else "red")
        if event.get("error"):
            self.line(event["error"], style="red")


def _changes(paths: Sequence[str]) -> str:
    """The changed fields without their common prefix; changed labels are only counted."""
    labels = sum(".labels[" in path for path in paths)
    fields = [path.removeprefix("spec.template.spec.") for path in paths if ".labels[" not in path]
    return ", ".join([*fields, *([f"{labels} label{'s' if labels > 1 else ''}"] if labels else ())])


def shortened(name: str) -> str:
    """`name`, with its middle replaced by `…` if it has more than 32 characters."""
    return name if len(name) <= _NAME_LENGTH else f"{name[:18]}…{name[-10:]}"


def _ports(status: Mapping[str, Any], service: str) -> list[str]:
    rows = (status.get("forwarded_ports") or {}).get(service) or ()
    return [f"{row.get('host', '')}:{row['externalPort']}/{row['proto']}" for row in rows]


def _addresses(status: Mapping[str, Any], service: str) -> list[str]:
    rows = (status.get("ips") or {}).get(service) or ()
    return [f"{row['IP']}:{row['ExternalPort']}/{row['Protocol']}" for row in rows]
