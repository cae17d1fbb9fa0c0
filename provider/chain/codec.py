"""Conversion between domain data and protobuf. On the wire decimals are whole numbers × 10^18 as text and resource
values are ASCII digits (chain.md §2).
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import Any

from akash.base.attributes.v1 import types_pb2 as attributes_pb
from akash.base.resources.v1beta4 import types_pb2 as resources_pb
from akash.deployment.v1 import types_pb2 as deployment_v1_pb
from akash.deployment.v1beta4 import types_pb2 as deployment_pb
from akash.market.v1 import types_pb2 as market_v1_pb
from cosmos.base.v1beta1 import coin_pb2 as coin_pb

from lease.groups import GroupSpec, Requirements, ResourceUnit, SignedBy
from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.chain.group_size import oversize

__all__ = [
    "attributes_from_pb",
    "attributes_to_pb",
    "bid_id_to_pb",
    "counted_group_from_pb",
    "dec_from_wire",
    "dec_to_wire",
    "deployment_id_to_pb",
    "group_from_pb",
    "group_id_to_pb",
    "group_to_pb",
    "lease_id_from_pb",
    "lease_id_to_pb",
    "order_id_from_pb",
    "order_id_to_pb",
    "price_from_pb",
    "price_to_pb",
    "resources_from_pb",
    "resources_to_pb",
]  # fmt: skip

_PLACES = 18


def dec_to_wire(amount: Decimal) -> str:
    """23 → "23000000000000000000". Raises ValueError for more than 18 places: the chain would read another number."""
    with localcontext(prec=120):
        scaled = amount.scaleb(_PLACES)
        if scaled != scaled.to_integral_value():
            raise ValueError(f"{amount} has more than {_PLACES} decimal places")
        return str(int(scaled))


def dec_from_wire(text: str) -> Decimal:
    """ "23000000000000000000" → 23. Raises ValueError for anything but a whole number, as `23.0` from JSON (chain.md
    §2).
    """
    if not text:
        return Decimal(0)
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 100:
        raise ValueError(f"{text[:60]!r} is not a decimal of the wire (a whole number of 10^-18)")
    with localcontext(prec=120):
        scaled = Decimal(sign + digits).scaleb(-_PLACES)
        return scaled.quantize(Decimal(1)) if scaled == scaled.to_integral_value() else scaled.normalize()


def price_to_pb(price: Price) -> Any:
    return coin_pb.DecCoin(denom=price.denom, amount=dec_to_wire(price.amount))


def price_from_pb(coin: Any) -> Price:
    return Price(denom=coin.denom, amount=dec_from_wire(coin.amount))


def deployment_id_to_pb(item: DeploymentId) -> Any:
    return deployment_v1_pb.DeploymentID(owner=item.owner, dseq=item.dseq)


def group_id_to_pb(item: GroupId) -> Any:
    return deployment_v1_pb.GroupID(owner=item.owner, dseq=item.dseq, gseq=item.gseq)


def order_id_to_pb(item: OrderId) -> Any:
    return market_v1_pb.OrderID(owner=item.owner, dseq=item.dseq, gseq=item.gseq, oseq=item.oseq)


def order_id_from_pb(item: Any) -> OrderId:
    return OrderId(item.owner, item.dseq, item.gseq, item.oseq)


def bid_id_to_pb(item: LeaseId) -> Any:
    return market_v1_pb.BidID(owner=item.owner, dseq=item.dseq, gseq=item.gseq, oseq=item.oseq, provider=item.provider)


def lease_id_to_pb(item: LeaseId) -> Any:
    return market_v1_pb.LeaseID(
        owner=item.owner, dseq=item.dseq, gseq=item.gseq, oseq=item.oseq, provider=item.provider
    )


def lease_id_from_pb(item: Any) -> LeaseId:
    """The lease id in a BidID or a LeaseID; bseq is always 0 on chain."""
    return LeaseId(item.owner, item.dseq, item.gseq, item.oseq, item.provider)


def attributes_to_pb(items: Iterable[Attribute]) -> list[Any]:
    return [attributes_pb.Attribute(key=item.key, value=item.value) for item in items]


def attributes_from_pb(items: Iterable[Any]) -> tuple[Attribute, ...]:
    return tuple(Attribute(item.key, item.value) for item in items)


def resources_to_pb(item: Resources) -> Any:
    """The resources as protobuf. GPU is always present, also with 0 units (chain.md §4.3)."""
    return resources_pb.Resources(
        id=item.id,
        cpu=resources_pb.CPU(units=_value(item.cpu_milli), attributes=attributes_to_pb(item.cpu_attributes)),
        memory=resources_pb.Memory(
            quantity=_value(item.memory_bytes), attributes=attributes_to_pb(item.memory_attributes)
        ),
        storage=[
            resources_pb.Storage(
                name=one.name, quantity=_value(one.size_bytes), attributes=attributes_to_pb(one.attributes)
            )
            for one in item.storage or ()
        ],
        gpu=resources_pb.GPU(units=_value(item.gpu_units), attributes=attributes_to_pb(item.gpu_attributes)),
        endpoints=[
            resources_pb.Endpoint(kind=one.kind.name, sequence_number=one.sequence_number)
            for one in item.endpoints or ()
        ],
    )


def _endpoint_from_pb(item: Any) -> Endpoint:
    if item.kind not in [*EndpointKind]:  # what it would cost is not known, so such an order is declined
        raise ValueError(f"unknown endpoint kind {item.kind}")
    return Endpoint(EndpointKind(item.kind), item.sequence_number)


def resources_from_pb(item: Any) -> Resources:
    """Raises ValueError for amounts that are not digits or an endpoint kind that does not exist."""
    return Resources(
        id=item.id,
        cpu_milli=_number(item.cpu.units),
        memory_bytes=_number(item.memory.quantity),
        storage=tuple(
            Volume(one.name, _number(one.quantity), attributes_from_pb(one.attributes)) for one in item.storage
        ),
        gpu_units=_number(item.gpu.units),
        endpoints=tuple(_endpoint_from_pb(one) for one in item.endpoints),
        cpu_attributes=attributes_from_pb(item.cpu.attributes),
        memory_attributes=attributes_from_pb(item.memory.attributes),
        gpu_attributes=attributes_from_pb(item.gpu.attributes),
    )


def group_to_pb(spec: GroupSpec) -> Any:
    signed = spec.requirements.signed_by
    return deployment_pb.GroupSpec(
        name=spec.name,
        requirements=attributes_pb.PlacementRequirements(
            signed_by=attributes_pb.SignedBy(all_of=signed.all_of or (), any_of=signed.any_of or ()),
            attributes=attributes_to_pb(spec.requirements.attributes or ()),
        ),
        resources=[
            deployment_pb.ResourceUnit(
                resource=resources_to_pb(one.resources), count=one.count, price=price_to_pb(one.price)
            )
            for one in spec.units
        ],
    )


def group_from_pb(spec: Any) -> GroupSpec:
    """The group. An empty and an absent list are the same on the wire; both become None in the requirements."""
    signed = spec.requirements.signed_by
    return GroupSpec(
        name=spec.name,
        requirements=Requirements(
            signed_by=SignedBy(all_of=tuple(signed.all_of) or None, any_of=tuple(signed.any_of) or None),
            attributes=attributes_from_pb(spec.requirements.attributes) or None,
        ),
        units=tuple(
            ResourceUnit(resources=resources_from_pb(one.resource), count=one.count, price=price_from_pb(one.price))
            for one in spec.resources
        ),
    )


def counted_group_from_pb(spec: Any) -> GroupSpec:
    """The group as `group_from_pb`; an empty one with its reason when it is larger than an order may be."""
    if reason := oversize(spec):
        return GroupSpec(name="", requirements=Requirements(), units=(), oversize=reason)
    return group_from_pb(spec)


def _value(amount: int) -> Any:
    return resources_pb.ResourceValue(val=str(amount).encode())


def _number(value: Any) -> int:
    raw: bytes = value.val
    if raw and not (raw.isdigit() and len(raw) <= 80):
        raise ValueError(f"resource value {raw[:40]!r} is not a whole number")
    return int(raw or b"0")
