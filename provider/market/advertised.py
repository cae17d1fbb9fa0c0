"""What the provider's record on the chain advertises, compared with what the nodes have.

Tenants choose by the record: a class or a card that no node has gets orders that are all declined, and one that is not
in the record gets none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import structlog

from lease.attributes import parse_bool
from lease.resources import Attribute
from provider.inventory.capacity import Card
from provider.inventory.snapshot import Inventory

__all__ = ["log_unmatched", "unmatched"]

_GPU = "capabilities/gpu/vendor/"
_STORAGE = "capabilities/storage/"
_NOT_OF_NODES = frozenset({"ram", "default", "ephemeral"})
"""Classes of volumes that no node has as a class of its own."""
_ADDRESSES = "feat-endpoint-ip"
_MOST = 100
_SHOWN = 120
_log = structlog.get_logger(__name__)


def unmatched(attributes: Iterable[Attribute], inventory: Inventory) -> tuple[str, ...]:
    """A text for each attribute that no node fulfils, and for each class and card of the nodes that the record lacks;
    sorted, at most a hundred.
    """
    record = tuple(attributes)
    found = sorted({*_classes(record, inventory), *_cards(record, inventory), *_features(record, inventory)})
    return tuple(found[:_MOST])


def log_unmatched(attributes: Iterable[Attribute], inventory: Inventory, logged: Collection[str]) -> tuple[str, ...]:
    """Log what is not in `logged`, and what of `logged` is put right. Returns the next `logged`."""
    found = unmatched(attributes, inventory)
    for text in sorted(set(found).difference(logged)):
        remedy = "correct the provider's attributes (MsgUpdateProvider), or the labels of the nodes and the settings"
        _log.warning("market.attributes_unmatched", problem=text, remedy=remedy)
    for text in sorted(set(logged).difference(found)):
        _log.info("market.attributes_matched", was=text)
    return found


def _classes(record: tuple[Attribute, ...], inventory: Inventory) -> Iterator[str]:
    """A class is rented only where a pool has its size and a node its label."""
    advertised = {item.value for item in record if item.key.startswith(_STORAGE) and item.key.endswith("/class")}
    labelled = {name for node in inventory.nodes for name in node.storage_classes}
    for name in advertised - _NOT_OF_NODES:
        if name not in inventory.pool_bytes:
            yield f"storage class {name[:_SHOWN]} is advertised and has no size (LESSOR_STORAGE_CLASSES)"
        elif name not in labelled:
            yield f"storage class {name[:_SHOWN]} is advertised and no node has it"
    for name in (labelled & inventory.pool_bytes.keys()) - advertised - _NOT_OF_NODES:
        yield f"storage class {name[:_SHOWN]} is on the nodes and not advertised: no order for it gets a bid"


def _cards(record: tuple[Attribute, ...], inventory: Inventory) -> Iterator[str]:
    cards = {card for node in inventory.nodes for card in node.cards}
    advertised = [item.key.removeprefix(_GPU) for item in record if item.key.startswith(_GPU) and _is_true(item)]
    there = {name for card in cards for name in _names(card)}
    for name in set(advertised) - there:
        yield f"GPU {name[:_SHOWN]} is advertised and no node has it"
    for card in cards:
        if not any(name in advertised for name in _names(card)):
            name = f"{card.vendor}/model/{card.model}"
            yield f"GPU {name[:_SHOWN]} is on the nodes and not advertised: no order for it gets a bid"


def _names(card: Card) -> Iterator[str]:
    """The ends of the keys that are true of a card (bidding.md §3.2)."""
    model = f"{card.vendor}/model/{card.model}"
    yield from (f"{card.vendor}/model/*", model)
    for kind, value in (("ram", card.memory_size), ("interface", card.interface)):
        if value:
            yield f"{model}/{kind}/{value}"
    if card.memory_size and card.interface:
        yield f"{model}/ram/{card.memory_size}/interface/{card.interface}"


def _features(record: tuple[Attribute, ...], inventory: Inventory) -> Iterator[str]:
    if any(item.key == _ADDRESSES and _is_true(item) for item in record) and not inventory.address_count:
        yield f"{_ADDRESSES} is advertised and no address can be leased (LESSOR_IP_RANGES, MetalLB)"


def _is_true(item: Attribute) -> bool:
    return parse_bool(item.value) is True
