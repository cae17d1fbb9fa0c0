"""The valid SDL documents of the corpus as leases: placed by the real matcher, built by the real builder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from bech32 import bech32_encode, convertbits

from devnet.controlplane import NodeSpec
from devnet.controlplane.contents import STORAGE_CLASSES, node_object
from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.groups import GroupSpec
from lease.ids import OrderId
from lease.manifest import Group
from lease.sdl import Sdl, read_sdl
from lease.spec import ClusterFacts, GpuPlacement, LeaseSpec
from provider.inventory.capacity import Overcommit
from provider.inventory.matcher import place
from provider.inventory.reading import node
from provider.inventory.reservation import Shortage
from provider.inventory.snapshot import Node, Snapshot
from tests.data import document, names

__all__ = ["NEVER_BID", "NODES", "SAMPLE", "NoRoom", "all_nodes", "leases_of", "valid_names"]

PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
SETTINGS = SpecSettings(static_hosts=True, ingress_domain="ingress.corpus.example")
_BYTES = 2**60
_READY = {"conditions": [{"type": "Ready", "status": "True"}]}

NODES = (
    *(NodeSpec(f"node-{n}", cpus=256, memory_gib=2048, storage_gib=16384) for n in range(1, 4)),
    NodeSpec("card-a100-80", cpus=512, memory_gib=4096, storage_gib=65536, gpus=64, gpu_model="a100"),
    NodeSpec("card-h200", cpus=512, memory_gib=4096, storage_gib=65536, gpus=64, gpu_model="h200", gpu_ram="141Gi"),
    *(
        NodeSpec(
            f"card-{model}", cpus=512, memory_gib=4096, gpus=32, gpu_model=model, gpu_ram=ram, gpu_interface="pcie"
        )
        for model, ram in (("rtx3080", "10Gi"), ("rtx3090", "24Gi"), ("rtx4090", "24Gi"))
    ),
    # one document rents 50 × 384 CPU, 2 TiB and 24 cards, the most that a group may have
    *(
        NodeSpec(f"card-h100-{n}", cpus=12_000, memory_gib=2**16, storage_gib=2**16, gpus=720, gpu_model="h100")
        for n in (1, 2)
    ),
)
"""Simulated nodes cost nothing, so nothing of a document is scaled down."""

SAMPLE = (
    "args-literal-backticks",  # a card of any model
    "base-credentials-v2.1",
    "base-pricing-v2.0",  # two leases
    "edge-env-control-characters",  # values that no plain text of an apply can carry
    "edge-expose-forty-mixed",
    "edge-permissions-read",
    "edge-storage-persistent-default-class",
    "edge-storage-ram-shm",
    "ip-endpoint-five-ports-persistent",
    "reclamation-window",  # hostnames, UDP, two replicas
    "services-five-http-chat",
)
"""What every run of the tests applies: each kind of object at least once, on the nodes every devnet has."""

NEVER_BID = {
    "edge-gpu-model-missing": "the GPU attributes cannot be read",
    "edge-storage-persistent-yes-no-class": "a persistent volume cannot have the class ''",
}
"""Valid documents that no cluster can serve, with the reason why this provider, like the Go one, never bids on them.

A test fails when one of them finds a place after all.
"""


def all_nodes() -> list[Node]:
    """The corpus' nodes as the provider reads them, without a cluster."""
    objects = (node_object(spec) for spec in NODES)
    found = (node(obj | {"status": obj["status"] | _READY}) for obj in objects)
    return [item for item in found if item is not None]


class NoRoom(Exception):
    """The matcher found no place; the text has its reasons."""


def valid_names() -> list[str]:
    """Names of the valid documents, in order."""
    return [name for name in names("sdl", ending=".expected.json") if document(f"sdl/{name}.expected.json")["valid"]]


def leases_of(name: str, text: bytes, *, number: int, nodes: Sequence[Node], api_server: str) -> list[LeaseSpec]:
    """One spec a placement. `number`: the document's place in the corpus, which gives it a tenant and addresses of its
    own. Raises `NoRoom`.
    """
    sdl = read_sdl(text, file=name)
    facts = ClusterFacts(public_hostname="node.corpus.example", api_server_endpoints=(api_server,))
    return [
        lease_spec(
            lease=order.bid_by(PROVIDER),
            group=group,
            resource_version=str(1000 + number),
            placements=_placements(order, wanted, nodes),
            addresses=_addresses(sdl, order.owner, number),
            cluster=facts,
            settings=SETTINGS,
        )
        for order, wanted, group in _orders(sdl, number)
    ]


def _orders(sdl: Sdl, number: int) -> Iterator[tuple[OrderId, GroupSpec, Group]]:
    """What the chain would ask for each placement, with the manifest's group of the same name."""
    by_name = {group.name: group for group in sdl.manifest}
    for gseq, wanted in enumerate(sdl.groups, 1):
        yield OrderId(_tenant(number), 1 + number, gseq, 1), wanted, by_name[wanted.name]


def _placements(order: OrderId, wanted: GroupSpec, nodes: Sequence[Node]) -> Mapping[int, GpuPlacement | None]:
    pools = dict.fromkeys(STORAGE_CLASSES, _BYTES)
    room = Snapshot(tuple(nodes), pools, free_addresses=100)
    found = place(order, wanted, snapshot=room, overcommit=Overcommit())
    if isinstance(found, Shortage):
        raise NoRoom("; ".join(found.reasons))
    return found.placements


def _addresses(sdl: Sdl, owner: str, number: int) -> dict[str, str]:
    """One for each leased IP of the whole deployment: placements that name the same one share it."""
    keys = dict.fromkeys(key for group in sdl.manifest for key in sharing_keys(owner, group))
    return {key: _address(number, index) for index, key in enumerate(keys)}


def _tenant(number: int) -> str:
    """An account a document, so that no two share a leased address."""
    digest = hashlib.sha256(f"tenant of document {number}".encode()).digest()[:20]
    groups = convertbits(digest, 8, 5)
    assert groups is not None
    return str(bech32_encode("akash", groups))


def _address(number: int, place_in_document: int) -> str:
    """From the range for benchmarks (RFC 2544), the half that other tests leave alone; never dialled."""
    return f"198.19.{number}.{1 + place_in_document}"
