"""Limits are real: the kernel gives a service what it asked for, and what it sees of the node is a short list."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lease.ids import namespace_name
from tests.whole.conftest import Rented, deploy, rent
from tests.whole.node.conftest import END_OTHERS, MARKS, Site
from tests.whole.node.documents import Fields, document, expose, service
from tests.world.patience import PATIENCE_S

pytestmark = MARKS

MIB = 1 << 20
ENDED_BY_EVICTION = 137
"""The status of a command in a pod that the kubelet evicts meanwhile: SIGKILL."""
WAITS = 'trap "exit 0" TERM; until [ -f /tmp/go ]; do sleep 0.1; done; exec standin "$0" "$@"'
"""A shell script that becomes the program in its arguments once /tmp/go is there."""
LOOK = r"""
ls /dev | sed "s/^/device /"
sed -n -E "s/^(CapEff|CapBnd|NoNewPrivs|Seccomp):\t/\1 /p" /proc/self/status
awk '$2 ~ "^/(proc|sys/firmware)" && $3 == "tmpfs" {print "hidden", $2; next}
  $2 ~ "^/(proc|sys|dev)" {print "mount", $2, $3, substr($4, 1, 2)}' /proc/mounts
for p in /proc/[0-9]*; do read -r name < $p/comm && [ $p != /proc/self ] && echo "process $name"; done 2>/dev/null
echo "user $(id -u)"
echo "shm $(df -k /dev/shm | awk 'END {print $2}') KiB"
[ -e /var/run/secrets ] && echo "token of the API server"
"""
"""A shell script that prints what a container sees of its node, a fact a line."""
SEEN = """
CapBnd 00000000a00405fb
CapEff 00000000a00405fb
NoNewPrivs 1
Seccomp 2
mount /dev tmpfs rw
mount /dev/mqueue mqueue rw
mount /dev/pts devpts rw
mount /dev/shm tmpfs rw
mount /proc proc rw
mount /proc/bus proc ro
mount /proc/fs proc ro
mount /proc/irq proc ro
mount /proc/sys proc ro
mount /sys sysfs ro
process standin
shm 65536 KiB
user 0
"""
"""containerd's fourteen capabilities without NET_RAW and MKNOD, and the runtime's filter of system calls."""
DEVICES = "fd full mqueue null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero"
HIDDEN = (
    *(f"/proc/{name}" for name in ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "scsi")),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware"),
)
"""Where the kernel has them."""
DEPENDENT = ("mount /sys/fs/cgroup", "mount /dev/termination-log", "mount /sys/devices", "process sh")
"""On the node's kernel and file system, and on this look itself."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The lease of these tests. `evicted`: whether the pod of its service `disk`, in which too much was written, was
    evicted.
    """

    rented: Rented
    evicted: bool


async def ahead(site: Site) -> Begun:
    """One lease with a service for each limit; `disk` is filled at once: the kubelet measures every ten seconds."""
    ram = {"attributes": {"persistent": False, "class": "ram"}}
    rams: list[Fields] = [{"name": "shm", "size": "16Mi"} | ram, {"name": "cache", "size": "8Mi"} | ram]
    mounts = {"shm": {"mount": "/dev/shm"}, "cache": {"mount": "/cache"}}
    services = {
        "web": service(expose(80, accept=["limits.example.com"])),
        "eater": service(expose(80, "web"), cpu="50m", command=["sh", "-c", WAITS], args=["eat", "200"]),
        "crowd": service(expose(80, "web"), cpu="120m", memory="512Mi"),
        "ram": service(expose(80, "web"), cpu="30m", storage=[{"size": "128Mi"}, *rams], params={"storage": mounts}),
        "disk": service(expose(80, "web"), cpu="30m", storage=[{"size": "32Mi"}]),
    }
    rented = await rent(site.world, document(services))
    await deploy(site.world, site.provider, rented)
    pod = await site.pod(namespace_name(rented.lease), "disk")
    done = await site.inside(namespace_name(rented.lease), "disk", "standin", "write", "/tmp/big", "64")
    assert done.status in (0, ENDED_BY_EVICTION), done
    return Begun(rented, await _is_evicted(site, namespace_name(rented.lease), pod))


async def _is_evicted(site: Site, namespace: str, pod: str) -> bool:
    """Whether the kubelet evicts the pod. Asked at once: the event is kept for a quarter of an hour only."""
    question = ("get", "events", "--field-selector", f"reason=Evicted,involvedObject.name={pod}", "-o", "name")
    deadline = time.monotonic() + PATIENCE_S
    while not (found := (await site.kubectl("-n", namespace, *question)).stdout) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    return bool(found)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def begun(site: Site) -> AsyncIterator[Begun]:
    begun: Begun = await site.ahead[__name__]
    yield begun
    site.close(begun.rented)


@pytest.fixture
def namespace(begun: Begun) -> str:
    """The namespace of the lease."""
    return namespace_name(begun.rented.lease)


async def test_a_service_that_eats_more_memory_than_it_asked_for_is_killed_and_its_neighbours_are_not(
    site: Site, namespace: str
) -> None:
    await site.inside(namespace, "eater", "touch", "/tmp/go")
    container = await _eventually(site, namespace, "eater", lambda container: container["restartCount"])
    last = container["lastState"]["terminated"]
    assert (last["reason"], last["exitCode"]) == ("OOMKilled", 137)
    assert (await _container(site, namespace, "web"))["restartCount"] == 0


async def test_a_container_sees_of_its_node_what_this_list_says_and_no_more(site: Site, namespace: str) -> None:
    done = await site.inside(namespace, "web", "sh", "-c", LOOK)
    seen = {line for line in done.stdout.splitlines() if not line.startswith(DEPENDENT)}
    hidden = {f"hidden {path}" for path in HIDDEN if Path(path).exists()}
    expected = {*SEEN.strip().splitlines(), *(f"device {name}" for name in DEVICES.split()), *hidden}
    assert seen == expected, f"new: {sorted(seen - expected)}; gone: {sorted(expected - seen)}"


async def test_a_service_that_writes_more_than_its_disk_is_evicted_and_starts_afresh(
    site: Site, begun: Begun, namespace: str
) -> None:
    assert begun.evicted
    rolled = ("rollout", "status", "deployment/disk", "--timeout=30s")
    assert (await site.kubectl("-n", namespace, *rolled)).status == 0
    assert (await _container(site, namespace, "web"))["restartCount"] == 0


async def test_a_service_burns_no_more_processor_time_than_it_asked_for(site: Site, namespace: str) -> None:
    done = await site.inside(namespace, "web", "standin", "burn", "2")
    burnt = float(re.findall(r"burnt ([\d.]+) s", done.stdout)[0])
    assert burnt < 0.5, f"{burnt} s in 2 s with 100m"


async def test_a_pod_starts_no_more_processes_than_the_node_allows(site: Site, namespace: str) -> None:
    done = await site.inside(namespace, "crowd", "sh", "-c", f"standin forks 1100; {END_OTHERS}")
    assert "resource temporarily unavailable" in done.stdout, done
    assert "ok" in (await site.inside(namespace, "web", "sh", "-c", "echo ok | cat")).stdout


async def test_a_volume_in_memory_and_shared_memory_hold_what_was_asked_for_and_no_more(
    site: Site, namespace: str
) -> None:
    for folder, size in {"/dev/shm": 16, "/cache": 8}.items():
        done = await site.inside(namespace, "ram", "standin", "write", f"{folder}/file", str(size + 1))
        assert "no space left on device" in done.stdout, f"{folder}: {done}"
        listed = await site.inside(namespace, "ram", "stat", "-c", "%s", f"{folder}/file")
        assert int(listed.stdout) == size * MIB
        await site.inside(namespace, "ram", "rm", f"{folder}/file")


async def _container(site: Site, namespace: str, service: str) -> Any:
    """The status of the container in the first pod of a service."""
    listed = await site.kubectl("-n", namespace, "get", "pod", await site.pod(namespace, service), "-o", "json")
    return json.loads(listed.stdout)["status"]["containerStatuses"][0]


async def _eventually(site: Site, namespace: str, service: str, done: Callable[[Any], object]) -> Any:
    """The container's status once `done` says so."""
    deadline = time.monotonic() + 30
    while not done(container := await _container(site, namespace, service)):
        assert time.monotonic() < deadline, container
        await asyncio.sleep(0.2)
    return container
