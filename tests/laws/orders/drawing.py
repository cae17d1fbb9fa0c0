"""Random nodes and random orders, most of which fit barely or nearly."""

from __future__ import annotations

from decimal import Decimal
from random import Random

from lease.groups import GroupSpec, Requirements, ResourceUnit, SignedBy
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import Node

__all__ = ["ATTRIBUTES", "CLASSES", "draw_node", "draw_spec"]

MI, GI = 2**20, 2**30
CLASSES = ("beta2", "beta3")
_CARDS = (
    Card("nvidia", "a100", "40Gi", "pcie"),
    Card("nvidia", "a100", "80Gi", "sxm4"),
    Card("nvidia", "h100", "80Gi", "sxm5"),
    Card("nvidia", "t4"),
    Card("amd", "mi300x", "192Gi", "pcie"),
)
_ASKED = (
    "vendor/nvidia/model/a100",
    "vendor/nvidia/model/a100/ram/80Gi",
    "vendor/nvidia/model/a100/ram/40Gi/interface/pcie",
    "vendor/nvidia/model/h100/interface/sxm",
    "vendor/nvidia/model/*",
    "vendor/nvidia/model/t4",
    "vendor/amd/model/mi300x",
)
ATTRIBUTES = (
    Attribute("region", "us-west"),
    *(Attribute(f"capabilities/storage/{n}/class", name) for n, name in enumerate(CLASSES, start=1)),
    *(Attribute(f"capabilities/storage/{n}/persistent", "true") for n in (1, 2)),
    *(Attribute(f"capabilities/gpu/vendor/{card.vendor}/model/{card.model}", "true") for card in _CARDS),
)


def draw_node(random: Random, name: str) -> Node:
    """From a small machine without a card to a large one with eight cards of two models."""
    room = Capacity(
        random.choice((2000, 4000, 8000)), random.choice((8, 32)) * GI, random.choice((20, 100)) * GI,
        random.choice((5, 20, 110)),
    )  # fmt: skip
    cards: list[Card] = []
    for _ in range(random.choice((0, 0, 1, 2))):
        cards += [random.choice(_CARDS)] * random.choice((1, 2, 4))
    classes = tuple(name for name in CLASSES if random.random() < 0.7)
    return Node(name, room, tuple(cards), classes)


def draw_spec(random: Random) -> GroupSpec:
    units = tuple(_draw_unit(random, number) for number in range(1, random.choice((1, 1, 1, 2, 3)) + 1))
    return GroupSpec("group", Requirements(SignedBy(), None), units)


def _draw_unit(random: Random, number: int) -> ResourceUnit:
    gpus = random.choice((0, 0, 0, 1, 1, 2))
    asked = random.sample(_ASKED, random.choice((1, 1, 2))) if gpus else []
    resources = Resources(
        id=number,
        cpu_milli=random.choice((100, 100, 500, 1000, 3000)),
        memory_bytes=random.choice((128 * MI, 512 * MI, 4 * GI)),
        storage=_draw_volumes(random),
        gpu_units=gpus,
        endpoints=tuple(Endpoint(EndpointKind.LEASED_IP, n) for n in range(1, random.choice((0, 0, 0, 1, 2)) + 1)),
        gpu_attributes=tuple(Attribute(key, "true") for key in sorted(asked)),
    )
    return ResourceUnit(resources, random.choice((1, 1, 1, 2, 4)), Price("uact", Decimal(10**6)))


def _draw_volumes(random: Random) -> tuple[Volume, ...]:
    volumes = [Volume("default", random.choice((64 * MI, 512 * MI, 8 * GI)))]
    if random.random() < 0.2:
        volumes.append(Volume("shm", 256 * MI, (Attribute("class", "ram"), Attribute("persistent", "false"))))
    if random.random() < 0.25:
        chosen = (Attribute("class", random.choice(CLASSES)), Attribute("persistent", "true"))
        volumes.append(Volume("data", random.choice((1, 4)) * GI, chosen))
    return tuple(volumes)
