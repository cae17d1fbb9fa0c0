"""How the demo speaks: numbered steps with times, the provider's own log lines as one-line events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from devnet.world.provider_process import Event
from lease.printable import printable

__all__ = ["Telling"]

_OPS = {"create": "+", "update": "~", "delete": "-", "replace": "±", "create-replacement": "+", "delete-replaced": "-"}


class Telling:
    """Prints to `console`; tenants' texts are never read as markup, and never steer the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._steps = 0

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One step; its duration is printed at the end of it."""
        self._steps += 1
        began = time.monotonic()
        self._console.print(f"\n{self._steps}. {title}", style="bold cyan", markup=False, soft_wrap=True)
        yield
        self._console.print(f"   [dim]({time.monotonic() - began:.1f} s)[/]")

    def line(self, text: str, *, style: str = "") -> None:
        self._console.print(f"   {printable(text)}", style=style, markup=False, highlight=False, soft_wrap=True)

    def good(self, text: str) -> None:
        self.line(f"✓ {text}", style="green")

    def provider_event(self, event: Event) -> None:
        """What the provider's log says, as far as it belongs to the story."""
        match event.get("event"):
            case "market.decided":
                self._decision(event)
            case "market.declined":
                self.line(f"lessor: declined: {'; '.join(event['reasons'])}", style="yellow")
            case "market.bid":
                self.line(f"lessor: bid in block {event['height']}, fee {event['fee']}")
            case "market.lease_won":
                self.line("lessor: the bid was taken, the lease is ours")
            case "stack.resource" if str(event.get("type", "")).startswith("kubernetes:"):
                self._resource(event)
            case "stack.result":
                self._result(event)
            case "lease.state":
                reason = f": {event['reason']}" if event.get("reason") else ""
                self.line(f"lessor: {event['phase']}{reason}", style="bold")

    def _decision(self, event: Event) -> None:
        nodes = ", ".join(sorted({name for names in event["nodes"].values() for name in names}))
        self.line(f"lessor: decision {event['decision']}: bid {event['price']} a block, room reserved on {nodes}")
        self.line(f"        the order pays up to {event['maximum']}; the price is {' + '.join(event['parts'])}")

    def _resource(self, event: Event) -> None:
        kind = str(event["type"]).removeprefix("kubernetes:")
        diff = f"  [{', '.join(event['diff'])}]" if event.get("diff") else ""
        would = "would " if event["operation"] == "preview" else ""
        self.line(f"pulumi: {would}{_OPS.get(event['op'], event['op'])} {kind} {event['name']}{diff}", style="dim")

    def _result(self, event: Event) -> None:
        counts = ", ".join(f"{count} {op}" for op, count in event["summary"].items())
        text = f"pulumi: {event['operation']} {'done' if event['ok'] else 'failed'} in {event['seconds']} s ({counts})"
        self.line(text, style="" if event["ok"] else "red")
        if event.get("error"):
            self.line(event["error"], style="red")
