"""Group specs as protobuf bytes: small on the wire, large once converted."""

from __future__ import annotations

from akash.base.attributes.v1 import types_pb2 as attributes_pb
from akash.base.resources.v1beta4 import types_pb2 as resources_pb
from akash.deployment.v1beta4 import types_pb2 as deployment_pb

from tests.hostile.corpus import HostileInput

__all__ = ["INPUTS"]


def _units(count: int) -> bytes:
    """`count` empty units: two bytes each (field 3 of GroupSpec, length 0)."""
    return b"\x1a\x00" * count


def _one_unit(**parts: object) -> bytes:
    resource = resources_pb.Resources(id=1, **parts)  # type: ignore[arg-type]
    spec = deployment_pb.GroupSpec(name="g", resources=[deployment_pb.ResourceUnit(resource=resource, count=1)])
    return bytes(spec.SerializeToString())


def _attributes(count: int, *, length: int = 1) -> list[attributes_pb.Attribute]:
    return [attributes_pb.Attribute(key="k" * length) for _ in range(count)]


def _requirements(**parts: object) -> bytes:
    wanted = attributes_pb.PlacementRequirements(**parts)  # type: ignore[arg-type]
    return bytes(deployment_pb.GroupSpec(name="g", requirements=wanted).SerializeToString())


def _signed(count: int, length: int) -> bytes:
    names = [f"akash1{number:0{length - 6}d}" for number in range(count)]
    return _requirements(signed_by=attributes_pb.SignedBy(any_of=names))


def _volumes(count: int, *, attributes: int = 0) -> bytes:
    return _one_unit(storage=[resources_pb.Storage(attributes=_attributes(attributes)) for _ in range(count)])


def _many_volumes_in_many_units() -> bytes:
    volumes = [resources_pb.Storage(name="v") for _ in range(50)]
    unit = deployment_pb.ResourceUnit(resource=resources_pb.Resources(storage=volumes))
    return bytes(deployment_pb.GroupSpec(resources=[unit] * 100).SerializeToString())


INPUTS = (
    HostileInput("400,000 empty units", "group", lambda: _units(400_000)),
    HostileInput("32,000 empty units", "group", lambda: _units(32_000)),
    HostileInput("one unit more than allowed", "group", lambda: _units(101)),
    HostileInput("as many units as allowed", "group", lambda: _units(100)),
    HostileInput("20,000 attributes of the group", "group", lambda: _requirements(attributes=_attributes(20_000))),
    HostileInput("a text of a megabyte", "group", lambda: _requirements(attributes=_attributes(1, length=1_000_000))),
    HostileInput("a name of a megabyte", "group", lambda: b"\x0a\xc0\x84\x3d" + b"n" * 1_000_000),
    HostileInput("invented auditors as many as allowed", "group", lambda: _signed(32, 44)),
    HostileInput("10,000 invented auditors", "group", lambda: _signed(10_000, 44)),
    HostileInput("20,000 empty volumes", "group", lambda: _volumes(20_000)),
    HostileInput("10 volumes of 2,000 attributes", "group", lambda: _volumes(10, attributes=2_000)),
    HostileInput("5,000 volumes in 100 units", "group", _many_volumes_in_many_units),
    HostileInput("20,000 endpoints", "group", lambda: _one_unit(endpoints=[resources_pb.Endpoint()] * 20_000)),
    HostileInput("a number of 100,000 digits", "group", lambda: _one_unit(cpu=_digits(100_000))),
)


def _digits(count: int) -> object:
    return resources_pb.CPU(units=resources_pb.ResourceValue(val=b"9" * count))
