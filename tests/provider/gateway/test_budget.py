"""What is rented bounds what is made: the hostile manifests of issue H, section 2, are refused before 200."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from components.lease import lease_objects
from lease.manifest import Expose, Group, Params, Service, StorageMount
from lease.manifest_json import canonical_manifest
from lease.resources import Attribute, Resources, Volume
from provider.gateway import budget
from provider.gateway.budget import budget_of
from provider.gateway.trial_build import trial_build
from provider.lifecycle.spec_maker import SpecInputs
from provider.records.manifests import ManifestRecord
from tests.provider.gateway.manifests import lease
from tests.provider.gateway.world import SPECS

RENTED = Resources(1, 10, 2**27, (Volume("default", 2**29),))
WEB = Service("web", "nginx", RENTED, 1, expose=(Expose(80, global_=True, hosts=("a.example",)),))
RAM = Volume("shm", 2**20, (Attribute("class", "ram"), Attribute("persistent", "false")))


async def problem(*services: Service) -> str:
    return await trial_build(SPECS)(ManifestRecord(lease(), Group("dc", services), {}))


def noise(size: int) -> str:
    """Text that does not compress below three quarters."""
    return "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=size))


async def test_three_thousand_services_without_replicas_are_refused_unbuilt() -> None:
    more = [replace(WEB, name=f"a{n}", count=0, expose=()) for n in range(3000)]
    assert "services; what the lease rents allows 1" in await problem(*more, WEB)


async def test_one_service_without_replicas_is_refused() -> None:
    assert await problem(replace(WEB, count=0), replace(WEB, name="x")) != ""
    assert "count is 0" in await problem(replace(WEB, count=2), replace(WEB, name="x", count=0, expose=()))


async def test_eighteen_thousand_internal_ports_are_refused() -> None:
    ports = tuple(Expose(80, external_port=number) for number in range(1, 18001))
    assert "ports; what the lease rents allows 65" in await problem(replace(WEB, expose=(*ports, *(WEB.expose or ()))))


async def test_hostnames_have_no_endpoint_of_their_own_and_are_bounded_too() -> None:
    many = tuple(f"h{n}.example" for n in range(2000))
    answer = await problem(replace(WEB, expose=(Expose(80, global_=True, hosts=many),)))
    assert "Kubernetes objects; what the lease rents allows 64" in answer


async def test_a_record_that_would_not_fit_is_refused_before_200() -> None:
    assert "bytes in the record" in await problem(replace(WEB, env=(f"A={noise(400_000)}",)))
    assert await problem(replace(WEB, env=(f"A={'x' * 400_000}",))) == ""  # it is stored compressed


async def test_an_object_that_etcd_would_not_take_is_refused_before_200() -> None:
    assert "bytes in its Deployment web" in await problem(replace(WEB, env=(f"A={'x' * 800_000}",)))


def _filled(service: Callable[[int], Service]) -> Group:
    """As many services as a small group holds."""
    services: list[Service] = []
    while len(canonical_manifest((Group("dc", (*services, service(len(services)))),))) <= budget.SMALL_GROUP:
        services.append(service(len(services)))
    return Group("dc", tuple(services))


_PORTS = tuple(Expose(80, external_port=number, hosts=()) for number in range(1, 9))
_SERVED = tuple(Expose(80, external_port=80, global_=True, hosts=(f"h{n}.example",)) for n in range(4))
LARGEST = {
    "services": _filled(lambda n: replace(WEB, name=f"a{n}", expose=())),
    "internal ports": _filled(lambda n: replace(WEB, name=f"a{n}", expose=_PORTS)),
    "hostnames": _filled(lambda n: replace(WEB, name=f"a{n}", expose=_SERVED)),
    "escaped variables": Group("dc", (replace(WEB, env=tuple(f"V{n}=" + "\x01" * 40 for n in range(25))),)),
    "variables": Group("dc", (replace(WEB, env=tuple(f"V{n}=" for n in range(700))),)),
    "arguments": Group("dc", (replace(WEB, args=("",) * 2000, command=("x",) * 100),)),
    "wide letters": Group("dc", (replace(WEB, env=("V=" + "\U0001f600" * 1500,)),)),
}


@pytest.mark.parametrize("group", LARGEST.values(), ids=LARGEST)
async def test_what_becomes_of_a_small_group_stays_below_half_of_every_bound_of_size(group: Group) -> None:
    assert budget.SMALL_GROUP / 4 < len(canonical_manifest((group,))) <= budget.SMALL_GROUP
    record = ManifestRecord(lease(), group, {}, "0")
    spec = SPECS.make(SpecInputs(record, addresses={}))
    found = budget.sizes(record, spec, lease_objects(spec))
    assert all(2 * count < most for _, count, most in found), found


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [(1, (1, 65, 64, 128 << 10)), (4, (4, 257, 100, 320 << 10)), (500, (500, 1025, 6052, 768 << 10))],
)
def test_the_budget_grows_with_what_is_rented_up_to_what_a_cluster_takes(
    replicas: int, expected: tuple[int, ...]
) -> None:
    found = budget_of(Group("dc", (replace(WEB, count=replicas),)))
    assert (found.services, found.ports, found.objects, found.record_bytes) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/.",
        "/proc",
        "/proc/",
        "//proc/sys",
        "/./proc",
        "/dev",
        "/dev/",
        "/dev/sda",
        "/sys/fs",
        "/a/../proc",
        "/..",
        "/dev/shm/..",
    ],
)
async def test_a_mount_that_hides_the_kernels_files_is_refused(path: str) -> None:
    assert "mount path" in await problem(_mounted(path))


@pytest.mark.parametrize("path", ["/data", "/dev/shm", "/dev/shm/x", "/procs", "/a..b", "/devices", "/var/lib/"])
async def test_every_other_absolute_path_can_be_mounted(path: str) -> None:
    assert await problem(_mounted(path)) == ""


def _mounted(path: str) -> Service:
    params = Params(storage=(StorageMount("shm", path),))
    return replace(WEB, resources=replace(RENTED, storage=(*(RENTED.storage or ()), RAM)), params=params)


@pytest.mark.parametrize(("length", "taken"), [(260, False), (200, False), (150, True), (10, True)])
async def test_the_name_of_an_ip_endpoint_must_fit_into_the_names_of_its_claims(*, length: int, taken: bool) -> None:
    expose = Expose(443, global_=True, ip="a" * length, endpoint_sequence_number=1)
    answer = await problem(replace(WEB, expose=(expose,)))
    assert (answer == "") is taken, answer
