"""ABCI events: typed events of the Akash modules (chain.md §8) and the bank's plain ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devnet.chain.wire import Message, event_json

__all__ = ["Event", "message_event", "plain", "transfer_events", "typed"]


@dataclass(frozen=True, slots=True)
class Event:
    """`attributes` in the order in which the node lists them; all are indexed."""

    type: str
    attributes: tuple[tuple[str, str], ...]

    def with_attribute(self, key: str, value: str) -> Event:
        return Event(self.type, (*self.attributes, (key, value)))

    def to_json(self) -> dict[str, Any]:
        """The event in the JSON of CometBFT's RPC."""
        attributes = [{"key": key, "value": value, "index": True} for key, value in self.attributes]
        return {"type": self.type, "attributes": attributes}


def plain(kind: str, **attributes: str) -> Event:
    return Event(kind, tuple(attributes.items()))


def typed(message: Message) -> Event:
    """A protobuf message as an event: one attribute a top-level field, keys sorted, values JSON text."""
    fields = sorted(message.DESCRIPTOR.fields, key=lambda field: str(field.name))
    return Event(message.DESCRIPTOR.full_name, tuple((field.name, event_json(message, field)) for field in fields))


def transfer_events(sender: str, recipient: str, amount: str) -> list[Event]:
    """The bank's events of a transfer; `amount` like `500000uakt`."""
    return [
        plain("coin_spent", spender=sender, amount=amount),
        plain("coin_received", receiver=recipient, amount=amount),
        plain("transfer", recipient=recipient, sender=sender, amount=amount),
        plain("message", sender=sender),
    ]


def message_event(type_url: str, signer: str) -> Event:
    """The untyped event that precedes the events of each message."""
    return plain("message", action=type_url, sender=signer, module=type_url.split(".")[1])
