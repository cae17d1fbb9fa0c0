"""The steps of the demo, from the start of the world to the end of a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from devnet.demo.interrupts import Interrupts
from devnet.demo.leftovers import leftovers
from devnet.demo.output import DemoOutput
from devnet.demo.processes import programs_started
from devnet.demo.user_cluster import borrowed_cluster
from devnet.errors import DevnetError
from devnet.node import missing_requirements
from devnet.tenant import OpenBid
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools, progress_output, survey
from devnet.world import PROVIDER_LOG, Event, ProviderProcess, World
from lease.groups import GroupSpec
from lease.ids import DeploymentId, LeaseId
from lease.manifest import Group, Service
from lease.manifest_json import manifest_version
from lease.sdl import Sdl

__all__ = ["Borrow", "DemoOptions", "real_node_hint", "run_demo"]

_WATCH_S = 3.0


@dataclass(frozen=True, slots=True)
class Borrow:
    """The user's cluster: a context of a kubeconfig (empty: the current one). `agree` asks the user."""

    kubeconfig: Path
    context: str
    agree: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`denom`: rewrite the SDL's prices to this denom. `keep`: leave everything running until Ctrl-C. `borrow`: use
    that cluster in place of the devnet's own. `real_node`: run containers on a real node.
    """

    sdl: Sdl
    data: Path
    keep: bool = False
    denom: str = ""
    borrow: Borrow | None = None
    real_node: bool = False


@dataclass(frozen=True, slots=True)
class _Scene:
    """The running world, its provider, and where the demo prints."""

    world: World
    provider: ProviderProcess
    output: DemoOutput

    @property
    def mark(self) -> int:
        """The number of events of the provider so far; a wait counts only those after its mark."""
        return len(self.provider.events)


@dataclass(frozen=True, slots=True)
class _Rental:
    deployment: DeploymentId
    leases: Sequence[LeaseId]


def run_demo(options: DemoOptions, console: Console, interrupts: Interrupts) -> None:
    """Run all steps. Raises `DevnetError` when a step fails, and `Interrupted`."""
    sdl = _priced_in(options.sdl, options.denom)
    output = DemoOutput(console, lost=interrupts.hang_up)
    with _world(options, console, output=output, interrupts=interrupts) as (title, starting):
        asyncio.run(_run(starting, sdl, title=title, keep=options.keep, output=output, interrupts=interrupts))
    interrupts.check()
    output.success(f"everything is stopped; the demo took {output.seconds:.0f} s")
    if options.borrow is None and not options.real_node:
        not_built = any(row.path is None for row in survey(NODE))
        output.line(real_node_hint(missing_requirements(build=not_built)))


def real_node_hint(problems: Sequence[str]) -> str:
    """The demo's last line: how to run the containers too, or what keeps this machine (`problems`) from doing so."""
    how = "the pods of this demo ran nothing; `make demo NODE=real` runs their containers on a real node"
    return f"{how}, but not on this machine yet: {'; '.join(problems)}" if problems else how


@contextmanager
def _world(
    options: DemoOptions, console: Console, *, output: DemoOutput, interrupts: Interrupts
) -> Iterator[tuple[str, AbstractAsyncContextManager[World]]]:
    """The title of the first step, and the world that is not started yet."""
    if (borrow := options.borrow) is not None:
        with borrowed_cluster(
            options.data,
            kubeconfig=borrow.kubeconfig,
            context=borrow.context,
            agree=borrow.agree,
            output=output,
            interrupts=interrupts,
        ) as cluster:
            title = "A simulated chain starts beside your cluster, on loopback"
            yield title, World.around(options.data, cluster, cluster.terms())
        return
    with progress_output(console, indent="   ") as progress:
        toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *(NODE if options.real_node else ())], progress=progress)
    start = World.start_real if options.real_node else World.start
    yield (
        "The devnet starts: a Kubernetes control plane and a simulated chain, on loopback",
        start(options.data, toolbox),
    )


async def _run(
    starting: AbstractAsyncContextManager[World],
    sdl: Sdl,
    *,
    title: str,
    keep: bool,
    output: DemoOutput,
    interrupts: Interrupts,
) -> None:
    async with AsyncExitStack() as stack:
        with output.step(title):
            world = await stack.enter_async_context(starting)
            output.line(f"API server {world.plane.api_server}, kubeconfig {world.plane.kubeconfig}")
            output.line(f"chain {world.chain.chain_id}: RPC {world.chain.rpc_address}, gRPC {world.chain.grpc_address}")
        await interrupts.guard(_story(world, sdl, keep=keep, output=output))


async def _story(world: World, sdl: Sdl, *, keep: bool, output: DemoOutput) -> None:
    await _prepare_cluster(world, output)
    scene = _Scene(world, await _start_provider(world, output), output)
    await _follow_lease(scene, sdl)
    output.line(f"The provider's daemon uses {scene.provider.resident_mb():.0f} MB of resident memory.")
    if keep:
        with output.step("The tenant deploys once more; this lease stays until Ctrl-C"):
            rental = await _rent(scene, sdl)
            await _deploy(scene, rental, sdl)
        await _keep(world, output, lease=rental.leases[0])


async def _prepare_cluster(world: World, output: DemoOutput) -> None:
    with output.step("`pulumi up` on the top-level project creates what a cluster needs once"):
        await world.apply_cluster_stack(output.created_object)
        outputs = world.outputs
        output.line(f"namespaces {outputs['manifest-namespace']} and {outputs['services-namespace']}")
        output.line(f"ingress class {outputs['ingress-class']}, custom resources {outputs['crd-version']}")


async def _start_provider(world: World, output: DemoOutput) -> ProviderProcess:
    with output.step("The operator registers a provider on the chain and starts `lessor run`"):
        uri = await world.register_provider()
        output.line(f"provider {world.provider} at {uri}")
        provider = await world.run_provider(LESSOR_PREVIEW_UPDATES="true")
        output.line(f"process {provider.pid}; log {world.data / PROVIDER_LOG}")
    provider.listen = output.provider_event
    return provider


async def _follow_lease(scene: _Scene, sdl: Sdl) -> None:
    """The life of one deployment, from its order to its end."""
    step = scene.output.step
    with step("A tenant publishes a deployment; the provider reserves resources and bids; the tenant takes the bid"):
        rental = await _rent(scene, sdl)
    with step("The tenant sends the manifest; the lease becomes a Pulumi stack; the workloads become ready"):
        await _deploy(scene, rental, sdl)
    real = scene.world.terms.real
    what, changed = ("a variable", _with_a_variable(sdl)) if real else ("an image", _with_another_image(sdl))
    with step(f"The tenant changes {what}; Pulumi previews the difference, then applies it"):
        await _update(scene, rental, changed)
    with step("The tenant sends the same manifest again: no Pulumi process starts"):
        await _send_again(scene, rental, changed)
    with step("The tenant closes the deployment; nothing is left"):
        await _close(scene, rental)


async def _rent(scene: _Scene, sdl: Sdl) -> _Rental:
    world, mark, groups = scene.world, scene.mark, len(sdl.groups)
    deployment = await world.tenant.publish(sdl)
    scene.output.line(f"tenant: deployment {deployment}, {groups} group{'s' if groups > 1 else ''}")
    bids = await _bids(scene, deployment, groups=groups, after=mark)
    world.terms.expect([bid.id for bid in bids])
    leases = await world.tenant.take(bids)
    for bid in bids:
        price = f"{bid.price.normalize():f}{bid.denom}"
        scene.output.line(f"tenant: took the bid of {price} a block for group {bid.id.gseq}")
    return _Rental(deployment, leases)


async def _bids(scene: _Scene, deployment: DeploymentId, *, groups: int, after: int) -> Sequence[OpenBid]:
    """One bid a group. Raises `DevnetError` with the provider's reasons when it declines a group: no other provider
    bids here.
    """
    bids = asyncio.create_task(scene.world.tenant.wait_for_bids(deployment, groups=groups))
    try:
        while not bids.done():
            for event in scene.provider.events[after:]:
                if event.get("event") in ("market.declined", "market.bid_refused"):
                    raise DevnetError(_no_bid(event))
            await asyncio.sleep(0.1)
        return await bids
    finally:
        bids.cancel()


def _no_bid(event: Event) -> str:
    reasons = event.get("reasons") or [event.get("log", "")]
    lines = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"there will be no bid for order {event['order']}:\n{lines}\n"
        "devnet/controlplane defines the simulated nodes and their cards, devnet/world the provider's prices."
    )


async def _deploy(scene: _Scene, rental: _Rental, sdl: Sdl) -> None:
    mark = scene.mark
    await _put(scene, rental, sdl)
    await _wait_until_running(scene, rental.leases, after=mark)
    gateway = await scene.world.tenant.gateway(scene.world.provider)
    for lease in rental.leases:
        answer = await gateway.lease_status(lease.dseq, gseq=lease.gseq, oseq=lease.oseq)
        scene.output.lease_status(answer.status, answer.body)


async def _put(scene: _Scene, rental: _Rental, sdl: Sdl) -> None:
    answer = await scene.world.tenant.send_manifest(rental.leases[0], sdl)
    path = f"/deployment/{rental.deployment.dseq}/manifest"
    scene.output.line(f"tenant: PUT {path} → {answer.status} {answer.body}".rstrip())
    if answer.status != 200:
        raise DevnetError(f"the provider refused the manifest: {answer.status} {answer.body}")


async def _wait_until_running(scene: _Scene, leases: Sequence[LeaseId], *, after: int) -> None:
    seconds = scene.world.terms.patience
    for lease in leases:
        await scene.provider.wait_for("lease.state", seconds=seconds, after=after, lease=str(lease), phase="running")


async def _update(scene: _Scene, rental: _Rental, sdl: Sdl) -> None:
    """Send `sdl`, whose first manifest group is new: Pulumi runs for that group's lease only."""
    await scene.world.tenant.announce_update(rental.deployment, sdl)
    mark = scene.mark
    await _put(scene, rental, sdl)
    changed = rental.leases[[group.name for group in sdl.groups].index(sdl.manifest[0].name)]
    for operation in ("preview", "up"):
        await scene.provider.wait_for("stack.result", after=mark, lease=str(changed), operation=operation)
    await _wait_until_running(scene, [changed], after=mark)


async def _send_again(scene: _Scene, rental: _Rental, sdl: Sdl) -> None:
    provider, mark = scene.provider, scene.mark
    watch = asyncio.create_task(programs_started(provider.pid, seconds=_WATCH_S))
    await _put(scene, rental, sdl)
    started = await watch
    runs = [event for event in provider.events[mark:] if event.get("event") == "stack.result"]
    if started or runs:
        raise DevnetError(f"an identical manifest started {started or runs}")
    scene.output.success(f"no process and no Pulumi run in {_WATCH_S:.0f} s")


async def _close(scene: _Scene, rental: _Rental) -> None:
    world, mark = scene.world, scene.mark
    await world.tenant.close_deployment(rental.deployment)
    for lease in rental.leases:
        await scene.provider.wait_for("lease.state", after=mark, lease=str(lease), phase="closed")
    for lease in rental.leases:
        left = await leftovers(world, lease)
        if left:
            raise DevnetError(f"lease {lease} left: {', '.join(left)}")
    scene.output.success("cluster: no namespace, volume, record, hostname or address of the lease")
    scene.output.success("Pulumi's backend: no stack of the lease")
    scene.output.success("ledger: no reservation")


async def _keep(world: World, output: DemoOutput, *, lease: LeaseId) -> None:
    home = world.data / "provider"
    output.line("\n   KEEP: everything runs until Ctrl-C. Open in a browser:", style="bold")
    output.line((home / "dashboard.link").read_text().strip())
    output.line("\n   In another terminal of this checkout, with `source .venv/bin/activate`:", style="bold")
    output.line(f"export AP_HOME={home} KUBECONFIG={world.plane.kubeconfig}")
    for command in ("status", f"lease show {lease.dseq}", f"trace {lease.dseq}", "bid list", "earnings"):
        output.line(f"lessor {command}")
    output.line(f"curl -k https://127.0.0.1:{world.gateway_port}/status")
    output.line(f"curl {world.chain.rpc_address}/status")
    await asyncio.Event().wait()


def _with_another_image(sdl: Sdl) -> Sdl:
    """`sdl` with another tag of the first service's image, the usual update of a tenant."""
    return _with_first_service(sdl, lambda service: replace(service, image=_retagged(service.image, "updated")))


def _with_a_variable(sdl: Sdl) -> Sdl:
    """`sdl` with one more variable in the first service: a node that pulls images may not find another tag."""
    return _with_first_service(sdl, lambda service: replace(service, env=(*(service.env or ()), "DEMO=updated")))


def _with_first_service(sdl: Sdl, change: Callable[[Service], Service]) -> Sdl:
    first, *others = sdl.manifest
    service, *siblings = first.services or ()
    groups: tuple[Group, ...] = (replace(first, services=(change(service), *siblings)), *others)
    return replace(sdl, manifest=groups, version=manifest_version(groups))


def _priced_in(sdl: Sdl, denom: str) -> Sdl:
    """`sdl` with every price in `denom`, if one is given; prices are not part of the manifest or its hash."""
    return replace(sdl, groups=tuple(_repriced(group, denom) for group in sdl.groups)) if denom else sdl


def _repriced(group: GroupSpec, denom: str) -> GroupSpec:
    return replace(group, units=tuple(replace(unit, price=replace(unit.price, denom=denom)) for unit in group.units))


def _retagged(image: str, tag: str) -> str:
    """`image` with another tag; a colon before the last slash belongs to a registry's port."""
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition('@')[0].partition(':')[0]}:{tag}"
