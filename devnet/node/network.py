"""The network of an enclosure: the node's interface, and a namespace `outside` that plays the rest of the world."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["LEASED_RANGE", "NODE_ADDRESS", "NODE_PUBLIC_ADDRESS", "OUTSIDE", "PODS", "make_network"]

NODE_ADDRESS = "172.20.0.2"
NODE_PUBLIC_ADDRESS = "203.0.113.5"
PODS = "10.244.0.0/16"
LEASED_RANGE = "203.0.113.10-203.0.113.29"
"""MetalLB's addresses, on the same wire as `203.0.113.1` outside."""

OUTSIDE = {
    "gateway": "172.20.0.1",
    "internet": "198.51.100.10",
    "lan": "192.168.77.1",
    "metadata": "169.254.169.254",
    "cgnat": "100.64.0.1",
    "neighbour": "203.0.113.1",
}
"""Who answers on port 80 in the namespace `outside`: documentation addresses (RFC 5737) and the usual private ones."""
_ON_THE_WIRE = {"gateway": "172.20.0.1/24", "neighbour": "203.0.113.1/24"}
_SETTINGS = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/route_localnet": "1",
    "ipv4/conf/all/rp_filter": "0",
    "bridge/bridge-nf-call-iptables": "1",
}
"""Of the enclosure's network namespace only."""


def make_network(folder: Path) -> None:
    """Make both ends of the wire and start the web server outside. Raises CalledProcessError."""
    for name, value in _SETTINGS.items():
        Path("/proc/sys/net", name).write_text(value)
    _ip("link set lo up")
    _ip("netns add outside")
    _ip("link add eth0 type veth peer name up0 netns outside")
    for address in (f"{NODE_ADDRESS}/24", f"{NODE_PUBLIC_ADDRESS}/24"):
        _ip(f"addr add {address} dev eth0")
    _ip("link set eth0 up")
    _outside()
    _ip(f"route add default via {OUTSIDE['gateway']}")
    # Not ptp's own ipMasq: it would hide a pod's address from the policies of another node.
    rule = f"-t nat -A POSTROUTING -s {PODS} ! -d {PODS} -j MASQUERADE"
    subprocess.run(["iptables", *rule.split()], check=True)
    _serve(folder / "outside")


def _outside() -> None:
    for device in ("lo", "up0"):
        _ip(f"link set {device} up", outside=True)
    for name, address in OUTSIDE.items():
        wired = _ON_THE_WIRE.get(name)
        _ip(f"addr add {wired or address + '/32'} dev {'up0' if wired else 'lo'}", outside=True)


def _serve(pages: Path) -> None:
    pages.mkdir(exist_ok=True)
    (pages / "index.html").write_text("outside\n")
    argv = ["ip", "netns", "exec", "outside", "busybox", "httpd", "-p", "80", "-h", str(pages)]
    subprocess.run(argv, check=True)


def _ip(arguments: str, *, outside: bool = False) -> None:
    where = ["-n", "outside"] if outside else []
    subprocess.run(["ip", *where, *arguments.split()], check=True)
