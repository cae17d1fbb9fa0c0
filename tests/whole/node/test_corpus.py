"""Every SDL of the corpus that can be bid on runs once on the real node, from its order to its close."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from devnet.controlplane.contents import node_object
from devnet.node.configuration import NODE_NAME
from devnet.node.members import kill_member
from lease.ids import LeaseId, namespace_name
from lease.manifest import Service
from lease.sdl import Sdl
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.corpus.documents import NEVER_BID, valid_names
from tests.whole.node.conftest import CARDS, MARKS, Site
from tests.whole.node.scaled import STAND_IN_COMMAND, expanded, scaled_document

pytestmark = [*MARKS, pytest.mark.long]
PARTS = 8
"""The corpus in so many tests, so that each has a limit of time that shows a hang."""
AT_ONCE = 8
READY_S = 180
SEPARATOR = "--- the command line ---"
LOOK = f"cat /proc/1/environ; echo {SEPARATOR}; cat /proc/1/cmdline; touch "
"""A shell script: environment and command line of the container's first process, and a file in each volume."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cards(site: Site) -> AsyncIterator[None]:
    """The node has cards of each model that the corpus can get, with the labels of Akash's inventory operator."""
    assert site.world.node is not None
    prefix = "akash.network/capabilities.gpu."
    labels = {
        key: value
        for spec in CARDS
        for key, value in node_object(spec)["metadata"]["labels"].items()
        if key.startswith(prefix)
    }
    site.world.node.start_gpus(sum(spec.gpus for spec in CARDS))
    await site.kubectl("label", "node", NODE_NAME, *(f"{key}={value}" for key, value in labels.items()))
    yield
    kill_member("gpus")
    await site.kubectl("label", "node", NODE_NAME, *(f"{key}-" for key in labels))


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_sdl_that_can_be_bid_on_runs_with_its_arguments_environment_and_volumes(
    site: Site, cards: None, part: int
) -> None:
    names, start = [name for name in valid_names() if name not in NEVER_BID][part::PARTS], time.monotonic()
    places, wrong = asyncio.Semaphore(AT_ONCE), dict[str, str]()

    async def run(number: int, name: str) -> None:
        async with places:
            try:
                await _run(site, scaled_document(name, number=part + PARTS * number))
            except Exception as error:
                wrong[name] = f"{type(error).__name__}: {error}"

    await asyncio.gather(*(run(number, name) for number, name in enumerate(names)))
    print(f"{len(names)} documents ran on the node, {AT_ONCE} at once, in {time.monotonic() - start:.0f} s")
    assert not wrong, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())


async def _run(site: Site, sdl: Sdl) -> None:
    """Rent, deploy, look into each service, close."""
    rented = await rent(site.world, sdl)
    try:
        await deploy(site.world, site.provider, rented, seconds=READY_S)
        for lease, service in _services(rented):
            await _look(site, lease, service)
    finally:
        await close(site.world, site.provider, rented, seconds=READY_S)


def _services(rented: Rented) -> Iterator[tuple[LeaseId, Service]]:
    """Each service with its lease: groups and leases have one order."""
    by_name = {group.name: group for group in rented.sdl.manifest}
    for lease, spec in zip(rented.leases, rented.sdl.groups, strict=True):
        yield from ((lease, service) for service in by_name[spec.name].services or ())


async def _look(site: Site, lease: LeaseId, service: Service) -> None:
    """The container has the arguments and variables of its document, expanded, and may write its volumes."""
    mounts = [mount for mount in (service.params and service.params.storage) or () if not mount.read_only]
    files = ["/tmp/lessor", *(f"{mount.mount}/lessor" for mount in mounts)]
    done = await site.inside(namespace_name(lease), service.name, "sh", "-c", f'{LOOK} "$@"', "look", *files)
    assert done.status == 0, done
    environment, _, command = done.stdout.partition(f"{SEPARATOR}\n")
    seen = environment.split("\0")
    values = dict(text.split("=", 1) for text in seen if "=" in text)
    missing = {expanded(text, values) for text in service.env or () if "=" in text} - set(seen)
    assert not missing, f"{service.name} has no {missing} in {seen}"
    assert command.rstrip("\0").split("\0") == [
        *STAND_IN_COMMAND,
        *(expanded(text, values) for text in service.args or ()),
    ]
