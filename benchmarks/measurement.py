"""The cluster, the leases and the measurements of processes that several benchmarks use."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from devnet.controlplane import ControlPlane
from devnet.tools import CONTROL_PLANE, ENGINE, Toolbox, ensure_tools
from lease.spec import LeaseSpec, RegistryCredentials
from tests.components.specs import hostname, port, service, spec
from tests.stacks.leases import lease_id

__all__ = ["cluster", "lease", "options", "proportional_mb", "spent", "twelve_objects"]

_TICKS = os.sysconf("SC_CLK_TCK")


def options(**numbers: int) -> argparse.ArgumentParser:
    """The parsed options: `--kubeconfig`, and one for each number with its default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig of a running devnet; default: start one")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


@contextlib.contextmanager
def cluster(kubeconfig: Path | None) -> Iterator[tuple[Path, Toolbox]]:
    """A kubeconfig and the tools; starts a control plane if no kubeconfig is given."""
    tools = ensure_tools((*CONTROL_PLANE, *ENGINE), build=False)
    with contextlib.ExitStack() as stack:
        if kubeconfig is None:
            base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            kubeconfig = stack.enter_context(ControlPlane.start(base / "plane", tools)).kubeconfig
        yield kubeconfig, tools


def twelve_objects(image: str, like: LeaseSpec | None = None) -> LeaseSpec:
    """A lease of twelve objects: namespace, a policy, a pull secret, and three services with a route each."""
    identity = like.lease if like else lease_id()
    login = RegistryCredentials(host="registry.example", email="a@b.example", username="u", password="p")
    names = ("web", "api", "docs")
    services = [service(name, image=image, ports=(port(80, global_=True),)) for name in names]
    services[0] = services[0].model_copy(update={"credentials": login})
    hosts = [hostname(f"{name}{identity.dseq}.localhost", service=name) for name in names]
    return spec(*services, lease=identity, hostnames=tuple(hosts))


def lease(image: str, like: LeaseSpec | None = None) -> LeaseSpec:
    """A lease of thirteen objects: the twelve and a second pull Secret."""
    made = twelve_objects(image, like)
    web, api, *others = made.services
    more = api.model_copy(update={"credentials": web.credentials})
    return made.model_copy(update={"services": (web, more, *others)})


def spent(pids: Iterable[int], *, children: bool = True) -> float:
    """CPU seconds of these processes so far, with `children` also those of their ended children."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(value) for value in fields[11 : 15 if children else 13])
    return total / _TICKS


def proportional_mb(pids: Iterable[int]) -> float:
    """The memory of these processes in MB; a shared page counts once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total / 1024
