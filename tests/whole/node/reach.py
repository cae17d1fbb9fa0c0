"""What can be reached from where: targets, who opens them, and tables to compare that with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from devnet.node.edges import EDGE_SERVICE
from devnet.node.network import NODE_ADDRESS, NODE_PUBLIC_ADDRESS, OUTSIDE
from devnet.world import World
from tests.whole.conftest import Rented
from tests.whole.node.conftest import Site

__all__ = [
    "PROBE_MS",
    "UDP",
    "Party",
    "Probe",
    "compare",
    "lease_targets",
    "provider_targets",
    "read_probes",
    "read_table",
    "seen_from",
    "seen_outside",
]

UDP = 5353
"""The port outside that answers datagrams."""
PROBE_MS = 100
Seen = Mapping[str, str]
Table = Mapping[str, Mapping[str, str]]
"""Row to column to `open` or `closed`."""


@dataclass(frozen=True)
class Party:
    """A tenant with a lease: `world` is the tenant's own view."""

    world: World
    rented: Rented
    namespace: str


async def lease_targets(site: Site, party: Party) -> Mapping[str, str]:
    """Row to the address that `standin dial` takes, or `ping:` and an address."""
    namespace = party.namespace
    (web,), (db,) = await asyncio.gather(*(site.pod_addresses(namespace, name) for name in ("web", "db")))
    status = await site.lease_status(party.world, party.rented.deployment)
    node_port = status["forwarded_ports"]["web"][0]["externalPort"]
    leased = status["ips"]["web"][0]["IP"]
    services = await site.service_addresses(namespace)
    return {
        "web pod, port 80 of its hostname": f"{web}:80",
        "web pod, port 9000 of its node port": f"{web}:9000",
        "web pod, port 8443 of its address": f"{web}:8443",
        "web pod, port 3000 that is not in SDL": f"{web}:3000",
        "web pod, UDP 53 that is not in SDL": f"udp:{web}:53",
        "web pod, ping": f"ping:{web}",
        "db pod, port 5432": f"{db}:5432",
        "db pod, UDP 53": f"udp:{db}:53",
        "db pod, ping": f"ping:{db}",
        "web Service, port 80": f"{services['web']}:80",
        "db Service, port 5432": f"{services['db']}:5432",
        "db Service, UDP 53": f"udp:{services['db']}:53",
        "web by name": "web:80",
        "db by name": "db:5432",
        "its node port, node's address": f"{NODE_ADDRESS}:{node_port}",
        "its node port, node's public address": f"{NODE_PUBLIC_ADDRESS}:{node_port}",
        "its leased address, port 443": f"{leased}:443",
        "its leased address, port 80": f"{leased}:80",
    }


async def provider_targets(site: Site, plain: str) -> Mapping[str, str]:
    api = site.world.plane.api_server.rpartition(":")[2]
    names = await site.pod_addresses("kube-system", label="k8s-app=kube-dns")
    victim = (await site.kubectl("-n", plain, "get", "pod", "victim", "-o", "jsonpath={.status.podIP}")).stdout
    shown = {"gateway": "gateway", "lan": "LAN", "metadata": "metadata", "cgnat": "CGNAT", "internet": "internet"}
    world: dict[str, str] = {}
    for name, text in shown.items():
        address = OUTSIDE[name]
        world |= {text: f"{address}:80", f"{text}, UDP": f"udp:{address}:{UDP}", f"{text}, ping": f"ping:{address}"}
    return {
        "API server, its Service": "10.96.0.1:443",
        "API server, node's address": f"{NODE_ADDRESS}:{api}",
        "API server, node's public address": f"{NODE_PUBLIC_ADDRESS}:{api}",
        "kubelet, node's address": f"{NODE_ADDRESS}:10250",
        "kubelet, node's public address": f"{NODE_PUBLIC_ADDRESS}:10250",
        "the node, ping": f"ping:{NODE_ADDRESS}",
        "provider's gateway, node's address": f"{NODE_ADDRESS}:{site.world.gateway_port}",
        "provider's gateway, public address": f"{NODE_PUBLIC_ADDRESS}:{site.world.gateway_port}",
        "edge, its Service": f"{EDGE_SERVICE}:80",
        "edge, node's address": f"{NODE_ADDRESS}:80",
        "edge, node's public address": f"{NODE_PUBLIC_ADDRESS}:80",
        "name service, TCP 53": "10.96.0.10:53",
        "name service, port 8080 of its pod": f"{names[0]}:8080",
        "a pod without policies, port 80": f"{victim}:80",
        "a pod without policies, UDP 53": f"udp:{victim}:53",
        "a pod without policies, ping": f"ping:{victim}",
        "public neighbour of the node": f"{OUTSIDE['neighbour']}:80",
        **world,
    }


async def seen_from(site: Site, namespace: str, pod: str, rows: Mapping[str, str]) -> Seen:
    """Row to what a pod opens. It pings by a datagram socket, since a tenant's pod has no raw one."""
    done = await site.kubectl("-n", namespace, "exec", pod, "--", "standin", "dial", *rows.values())
    return _states(rows, done.stdout)


async def seen_outside(site: Site, rows: Mapping[str, str]) -> Seen:
    standin = str(site.world.plane.toolbox.program("standin"))
    done, pings = await asyncio.gather(
        site.outside(standin, "dial", *_dialled(rows)),
        site.outside("busybox", "sh", "-c", _ping_script(rows)),
    )
    return _states(rows, done.stdout + pings.stdout)


def _dialled(rows: Mapping[str, str]) -> list[str]:
    return [address for address in rows.values() if not address.startswith("ping:")]


def _ping_script(rows: Mapping[str, str]) -> str:
    pings = [address.removeprefix("ping:") for address in rows.values() if address.startswith("ping:")]
    each = "(busybox ping -c 1 -W 2 $a >/dev/null 2>&1 && echo OPEN ping:$a || echo CLOSED ping:$a) &"
    return f"for a in {' '.join(pings)}; do {each} done; wait"


def _states(rows: Mapping[str, str], printed: str) -> Seen:
    """A refusal is as closed as silence: the controller answers for what it does not let through."""
    said = {address: word for word, address in re.findall(r"^(OPEN|REFUSED|CLOSED) (\S+)$", printed, re.M)}
    missing = [address for address in rows.values() if address not in said]
    assert not missing, f"no answer about {missing} in:\n{printed}"
    return {row: "open" if said[address] == "OPEN" else "closed" for row, address in rows.items()}


class Probe(NamedTuple):
    """What a prober saw of one address: `seconds` from the first time that it opened to the last."""

    asked: int
    opened: int
    seconds: float


def read_probes(printed: str) -> Mapping[str, Probe]:
    lines = re.findall(r"^asked (\d+) opened (\d+) first (\S+) last (\S+) (\S+)$", printed, re.M)
    return {address: Probe(int(asked), int(n), _between(first, last)) for asked, n, first, last, address in lines}


def _between(first: str, last: str) -> float:
    if first == "never":
        return 0.0
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() + PROBE_MS / 1000


def read_table(text: str) -> Table:
    head, *lines = (re.split(r"  +", line) for line in text.strip().splitlines())
    return {line[0]: dict(zip(head[1:], line[1:], strict=True)) for line in lines}


def compare(expected: Table, seen: Mapping[str, Seen]) -> None:
    """Fail with the whole table, what differs marked, when a cell is not as expected."""
    lines, wrong = [], 0
    for row, columns in expected.items():
        cells = []
        for column, states in seen.items():
            want, got = columns[column], states[row]
            differs = want not in ("-", got)
            wrong += differs
            cells.append(f"{got} INSTEAD OF {want}" if differs else got if want != "-" else "-")
        lines.append(f"{row:40}" + "".join(f"{cell:26}" for cell in cells))
    head = f"{'':40}" + "".join(f"{column:26}" for column in seen)
    assert not wrong, "\n".join([f"{wrong} cells are not as they should be", head, *lines])
