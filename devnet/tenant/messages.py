"""The messages that a tenant signs (chain.md §4.3), made from the SDL's groups."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import akash  # noqa: F401  (registers cosmpy's messages first)
from akash.base.attributes.v1.types_pb2 import Attribute as AttributeMessage
from akash.base.attributes.v1.types_pb2 import PlacementRequirements
from akash.base.attributes.v1.types_pb2 import SignedBy as SignedByMessage
from akash.base.deposit.v1.types_pb2 import Deposit, Source
from akash.base.resources.v1beta4.types_pb2 import CPU, GPU, Endpoint, Memory, ResourceValue, Storage
from akash.base.resources.v1beta4.types_pb2 import Resources as ResourcesMessage
from akash.deployment.v1.types_pb2 import DeploymentID
from akash.deployment.v1beta4.msg_pb2 import MsgCloseDeployment, MsgCreateDeployment, MsgUpdateDeployment
from akash.deployment.v1beta4.types_pb2 import GroupSpec as GroupMessage
from akash.deployment.v1beta4.types_pb2 import ResourceUnit as UnitMessage
from akash.market.v1.types_pb2 import BidID, LeaseID
from akash.market.v1beta5.msg_pb2 import MsgCloseLease, MsgCreateLease
from cosmos.base.v1beta1.coin_pb2 import Coin, DecCoin

from lease.groups import GroupSpec, ResourceUnit
from lease.ids import DeploymentId, LeaseId
from lease.resources import Attribute, Resources

__all__ = ["close_deployment", "close_lease", "create_deployment", "create_lease", "update_deployment"]

_DEC_ONE = 10**18
"""A DecCoin's amount is encoded as the value times 10^18 (chain.md §2)."""


def create_deployment(
    deployment: DeploymentId, *, groups: Iterable[GroupSpec], version: bytes, deposit: tuple[int, str]
) -> MsgCreateDeployment:
    """Publish `groups` with the manifest hash `version`. `deposit` is (amount, denom) from the owner's balance."""
    amount, denom = deposit
    return MsgCreateDeployment(
        id=_deployment_id(deployment),
        groups=[_group(group) for group in groups],
        hash=version,
        deposit=Deposit(amount=Coin(denom=denom, amount=str(amount)), sources=[Source.balance]),
    )


def update_deployment(deployment: DeploymentId, version: bytes) -> MsgUpdateDeployment:
    """Publish a new manifest hash; the groups never change."""
    return MsgUpdateDeployment(id=_deployment_id(deployment), hash=version)


def close_deployment(deployment: DeploymentId) -> MsgCloseDeployment:
    return MsgCloseDeployment(id=_deployment_id(deployment))


def create_lease(bid: LeaseId) -> MsgCreateLease:
    """Take a bid."""
    return MsgCreateLease(
        bid_id=BidID(owner=bid.owner, dseq=bid.dseq, gseq=bid.gseq, oseq=bid.oseq, provider=bid.provider)
    )


def close_lease(lease: LeaseId) -> MsgCloseLease:
    """End one lease; the group stays open and orders again at once (chain.md §3)."""
    return MsgCloseLease(
        id=LeaseID(owner=lease.owner, dseq=lease.dseq, gseq=lease.gseq, oseq=lease.oseq, provider=lease.provider)
    )


def _deployment_id(deployment: DeploymentId) -> DeploymentID:
    return DeploymentID(owner=deployment.owner, dseq=deployment.dseq)


def _attributes(attributes: Iterable[Attribute] | None) -> list[AttributeMessage]:
    return [AttributeMessage(key=item.key, value=item.value) for item in attributes or ()]


def _value(number: int) -> ResourceValue:
    return ResourceValue(val=str(number).encode())


def _resources(resources: Resources) -> ResourcesMessage:
    return ResourcesMessage(
        id=resources.id,
        cpu=CPU(units=_value(resources.cpu_milli), attributes=_attributes(resources.cpu_attributes)),
        memory=Memory(quantity=_value(resources.memory_bytes), attributes=_attributes(resources.memory_attributes)),
        storage=[
            Storage(name=volume.name, quantity=_value(volume.size_bytes), attributes=_attributes(volume.attributes))
            for volume in resources.storage or ()
        ],
        gpu=GPU(units=_value(resources.gpu_units), attributes=_attributes(resources.gpu_attributes)),
        endpoints=[
            Endpoint(kind=item.kind.name, sequence_number=item.sequence_number) for item in resources.endpoints or ()
        ],
    )


def _unit(unit: ResourceUnit) -> UnitMessage:
    amount = int(unit.price.amount * Decimal(_DEC_ONE))
    return UnitMessage(
        resource=_resources(unit.resources), count=unit.count, price=DecCoin(denom=unit.price.denom, amount=str(amount))
    )


def _group(group: GroupSpec) -> GroupMessage:
    signed_by = group.requirements.signed_by
    return GroupMessage(
        name=group.name,
        requirements=PlacementRequirements(
            signed_by=SignedByMessage(all_of=signed_by.all_of or (), any_of=signed_by.any_of or ()),
            attributes=_attributes(group.requirements.attributes),
        ),
        resources=[_unit(unit) for unit in group.units],
    )
