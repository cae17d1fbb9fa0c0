"""The `profiles` section: compute (CPU, memory, GPU, storage) and placement (attributes, auditors, prices)."""

from __future__ import annotations

from typing import NamedTuple

from yaml.nodes import Node, ScalarNode

from lease.attributes import attribute_keys_valid
from lease.gpus import GpuRequest, gpu_key
from lease.groups import SignedBy
from lease.resources import Attribute, Price, Volume
from lease.sdl.quantities import byte_size, cpu_milli, price
from lease.sdl.reader import Reader, is_null
from lease.sdl.storage import quantity, read_storage

__all__ = ["Compute", "Placement", "read_compute", "read_placement"]

_INTERFACES = ("pcie", "sxm")
_WILDCARD = Attribute("vendor/nvidia/model/*", "true")


class Compute(NamedTuple):
    """A compute profile. `members` are the nodes of its resources; `absent` names those of cpu, memory and storage that
    are not given.
    """

    node: Node
    members: dict[str, Node]
    has_resources: bool
    cpu_milli: int
    cpu_attributes: tuple[Attribute, ...]
    memory_bytes: int
    storage: tuple[Volume, ...] | None
    gpu_units: int
    gpu_attributes: tuple[Attribute, ...]
    absent: frozenset[str]


class Placement(NamedTuple):
    """`pricing` by profile name, without prices that could not be read."""

    node: Node
    attributes: tuple[Attribute, ...] | None
    signed_by: SignedBy
    pricing: dict[str, Price]
    pricing_nodes: dict[str, Node]


def _pairs(node: Node) -> bool:
    """Whether the node has content: Go walks over the content, and a scalar or [] has none."""
    return type(node) is not ScalarNode and bool(node.value)


def _cpu(reader: Reader, node: Node | None) -> tuple[int, tuple[Attribute, ...]]:
    found = reader.entries(node)
    attributes: tuple[Attribute, ...] = ()
    if "attributes" in found and _pairs(found["attributes"]):
        given = reader.strict(found["attributes"], ("arch",), 'unsupported cpu attribute "{}"')
        attributes = tuple([Attribute(name, reader.text(value)) for name, value in given.items()])
    units = found.get("units")
    if units is None or is_null(units):
        return 0, attributes
    try:
        return cpu_milli(reader.raw_text(units)), attributes
    except ValueError as error:
        reader.problem(units, str(error), allowed="cores (0.5, 2) or thousandths (500m)")
        return 0, attributes


def _gpu_memory(reader: Reader, node: Node | None) -> str:
    """The memory of a card in whole Gi; "" when none is requested. The same numbers as for sizes, with binary suffixes
    only.
    """
    if node is None or is_null(node):
        return ""
    text = reader.raw_text(node)
    try:
        if text[-1:] in tuple("kMGTPE"):
            raise ValueError(f'parsing "{text[:40]}": invalid syntax')
        return f"{byte_size(text) // 2**30}Gi"
    except ValueError as error:
        reader.problem(node, str(error), allowed="a number with Ki Mi Gi Ti Pi Ei")
        return ""


def _gpu_item(reader: Reader, node: Node) -> Attribute:
    """One model of the `nvidia` list as an attribute key."""
    found = reader.entries(node)
    size, interface = _gpu_memory(reader, found.get("ram")), found.get("interface")
    name = "" if interface is None or is_null(interface) else reader.raw_text(interface)
    if interface is not None and not is_null(interface) and name not in _INTERFACES:
        text = f'invalid GPU interface {name[:40]}. expected "pcie|sxm"'
        reader.problem(interface, text, allowed=", ".join(_INTERFACES))
    return Attribute(gpu_key(GpuRequest("nvidia", reader.text(found.get("model")), size, name)), "true")


def _gpu_attributes(reader: Reader, node: Node) -> tuple[Attribute, ...]:
    """The GPU attributes. Only `vendor.nvidia` counts; without a model in it, any nvidia card will do."""
    before = reader.noted
    given = reader.strict(node, ("vendor",), "unsupported attribute ({}) for GPU resource") if _pairs(node) else {}
    vendor = given.get("vendor")
    if vendor is None or is_null(vendor):
        reader.problem(
            vendor or node, "invalid GPU attributes. at least one vendor must be set", allowed="vendor: {nvidia: ...}"
        )
        return ()
    models = reader.items(reader.entries(vendor).get("nvidia"))
    found = [_gpu_item(reader, item) for item in models or () if not is_null(item)]
    attributes = tuple(sorted(found)) or (_WILDCARD,)
    problem = attribute_keys_valid(attributes)
    if problem and reader.noted == before:
        reader.problem(vendor, f"invalid GPU attributes: {problem}")
    return attributes


def _gpu_units(reader: Reader, node: Node | None) -> int:
    if node is None or is_null(node):
        return 0
    text = reader.raw_text(node)
    if not (text.isascii() and text.isdigit()) or len(text) > 20 or int(text) >= 2**64:
        reader.problem(node, f'parsing "{text[:40]}": invalid syntax', allowed="a whole number")
        return 0
    return int(text)


def _gpu(reader: Reader, node: Node | None) -> tuple[int, tuple[Attribute, ...]]:
    if node is None or not _pairs(node):
        return 0, ()
    found = reader.strict(node, ("units", "attributes"), "unsupported field ({}) for GPU resource")
    units = _gpu_units(reader, found.get("units"))
    given = found.get("attributes")
    attributes = () if given is None or is_null(given) else _gpu_attributes(reader, given)
    if units and (given is None or is_null(given)):
        reader.problem(node, "GPU attributes must be present if units > 0", found="", suffix="attributes")
    return units, attributes


def read_compute(reader: Reader, node: Node) -> Compute:
    """One compute profile."""
    resources = reader.entries(node).get("resources")
    found = reader.entries(resources)
    cpu, memory = found.get("cpu"), found.get("memory")
    milli, cpu_attributes = _cpu(reader, cpu)
    gpu_units, gpu_attributes = _gpu(reader, found.get("gpu"))
    absent = [name for name, value in (("cpu", cpu), ("memory", memory)) if value is None or is_null(value)]
    return Compute(
        node,
        found,
        not is_null(resources),
        milli,
        cpu_attributes,
        quantity(reader, reader.entries(memory).get("size")),
        read_storage(reader, found.get("storage")),
        gpu_units,
        gpu_attributes,
        frozenset(absent),
    )


def _price(reader: Reader, node: Node) -> Price | None:
    if is_null(node):  # Go refuses it where a service uses the profile
        return None
    before = reader.noted
    found = reader.entries(node)
    denom, amount = reader.text(found.get("denom")), reader.text(found.get("amount"))
    if reader.noted != before:
        return None
    try:
        return price(denom, amount)
    except ValueError as error:
        culprit = "denom" if "denom" in str(error) else "amount"
        where = found.get(culprit)
        reader.problem(where or node, str(error), suffix="" if where else culprit)
        return None


def read_placement(reader: Reader, node: Node) -> Placement:
    """One placement. Attributes are sorted by key; no attributes are null, also when written as {}."""
    found = reader.entries(node)
    attributes = reader.mapping_of(found.get("attributes"), Reader.text)
    signed_by = reader.entries(found.get("signedBy"))
    pricing_nodes = reader.entries(found.get("pricing"))
    prices = {name: _price(reader, value) for name, value in pricing_nodes.items()}
    return Placement(
        node,
        tuple([Attribute(key, attributes[key]) for key in sorted(attributes)]) or None,
        SignedBy(reader.texts(signed_by.get("allOf")), reader.texts(signed_by.get("anyOf"))),
        {name: value for name, value in prices.items() if value is not None},
        pricing_nodes,
    )
