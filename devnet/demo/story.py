"""The eight steps of the demo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from devnet.demo.borrowing import borrowed, refuse_addresses
from devnet.demo.interrupts import Interrupts
from devnet.demo.leftovers import leftovers
from devnet.demo.processes import programs_started
from devnet.demo.telling import Telling
from devnet.errors import DevnetError
from devnet.tenant import OpenBid
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools, voice
from devnet.world import Event, ProviderProcess, World
from lease.groups import GroupSpec
from lease.ids import DeploymentId, LeaseId
from lease.manifest import Group, Service
from lease.manifest_json import manifest_version
from lease.sdl import Sdl, read_sdl

__all__ = ["Borrow", "DemoOptions", "run_demo"]

_WATCH_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Borrow:
    """Somebody's cluster: a context of a kubeconfig (empty: its current one); `agree` asks the person."""

    kubeconfig: Path
    context: str
    agree: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`denom`: rewrite the SDL's prices to this denom. `keep`: leave everything running until Ctrl-C. `borrow`: on that
    cluster instead of one of our own.
    """

    sdl: Path
    data: Path
    keep: bool = False
    denom: str = ""
    borrow: Borrow | None = None
    real_node: bool = False


@dataclass(frozen=True, slots=True)
class _Rented:
    deployment: DeploymentId
    leases: Sequence[LeaseId]


def run_demo(options: DemoOptions, console: Console, interrupts: Interrupts) -> None:
    """Tell the whole story; raises `DevnetError` (or the SDL's `SdlInvalid`) where it cannot go on, `Interrupted`."""
    sdl = _priced_in(read_sdl(options.sdl.read_bytes(), file=str(options.sdl)), options.denom)
    telling = Telling(console)
    if options.borrow is not None:
        refuse_addresses(sdl)
        _on_a_borrowed_cluster(options, options.borrow, sdl, telling=telling, interrupts=interrupts)
    else:
        with voice(console, indent="   ") as told:
            toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *(NODE if options.real_node else ())], voice=told)
        title = "The devnet: a Kubernetes control plane and a simulated chain, on loopback"
        start = World.start_real if options.real_node else World.start
        world = start(options.data, toolbox)
        asyncio.run(_run(world, sdl, title=title, keep=options.keep, telling=telling, interrupts=interrupts))
    interrupts.check()
    telling.good(f"everything is stopped; the demo took {telling.seconds:.0f} s")


def _on_a_borrowed_cluster(
    options: DemoOptions, borrow: Borrow, sdl: Sdl, *, telling: Telling, interrupts: Interrupts
) -> None:
    with borrowed(
        options.data, kubeconfig=borrow.kubeconfig, context=borrow.context, agree=borrow.agree, telling=telling
    ) as cluster:
        title = "A simulated chain beside your cluster, on loopback"
        world = World.around(options.data, cluster, cluster.terms())
        asyncio.run(_run(world, sdl, title=title, keep=options.keep, telling=telling, interrupts=interrupts))


async def _run(
    making: AbstractAsyncContextManager[World],
    sdl: Sdl,
    *,
    title: str,
    keep: bool,
    telling: Telling,
    interrupts: Interrupts,
) -> None:
    async with AsyncExitStack() as stack:
        with telling.step(title):
            world = await stack.enter_async_context(making)
            telling.line(f"API server {world.plane.api_server}, kubeconfig {world.plane.kubeconfig}")
            telling.line(
                f"chain {world.chain.chain_id}: RPC {world.chain.rpc_address}, gRPC {world.chain.grpc_address}"
            )
        await interrupts.guard(_story(world, sdl, keep=keep, telling=telling))


async def _story(world: World, sdl: Sdl, *, keep: bool, telling: Telling) -> None:
    provider = await _provider(world, telling)
    await _tell(world, provider, sdl, telling=telling)
    if keep:
        await _keep(world, telling)


async def _provider(world: World, telling: Telling) -> ProviderProcess:
    with telling.step("`pulumi up` on the top-level project: what a cluster needs once"):
        await world.apply_cluster_stack(lambda line: telling.line(line, style="dim") if " created" in line else None)
        telling.line(f"outputs: {dict(world.outputs)}")
    with telling.step("A provider is registered on the chain, and `lessor run` starts"):
        uri = await world.register_provider()
        telling.line(f"{world.provider} at {uri}")
        provider = await world.run_provider(LESSOR_PREVIEW_UPDATES="true")
        telling.line(f"process {provider.pid}; its log is {world.data / 'provider.log'}")
    provider.listen = telling.provider_event
    return provider


async def _tell(world: World, provider: ProviderProcess, sdl: Sdl, *, telling: Telling) -> None:
    with telling.step(
        "A tenant publishes a deployment; the provider decides, reserves and bids; the tenant takes the bid"
    ):
        rented = await _rent(world, provider, sdl, telling=telling)
    with telling.step("The tenant sends the manifest; the lease becomes a Pulumi stack; the workloads become ready"):
        await _deploy(world, provider, rented, sdl, telling=telling)
    what, changed = (
        ("a variable", _with_a_variable(sdl)) if world.terms.real else ("an image", _with_another_image(sdl))
    )
    with telling.step(f"The tenant changes {what}; Pulumi previews the difference, then applies it"):
        await _update(world, provider, rented, changed, telling=telling)
    with telling.step("The same manifest again: no Pulumi process starts"):
        await _send_again(world, provider, rented, changed, telling=telling)
    with telling.step("The tenant closes the deployment; nothing is left"):
        await _close(world, provider, rented, telling=telling)
    telling.line(f"memory of the provider's daemon: {provider.resident_mb():.0f} MB resident")


async def _rent(world: World, provider: ProviderProcess, sdl: Sdl, *, telling: Telling) -> _Rented:
    mark = len(provider.events)
    deployment = await world.tenant.publish(sdl)
    telling.line(f"tenant: deployment {deployment}, {len(sdl.groups)} group(s)")
    bids = await _bids(world, provider, deployment, groups=len(sdl.groups), after=mark)
    world.terms.expect([bid.id for bid in bids])
    leases = await world.tenant.take(bids)
    for bid in bids:
        telling.line(f"tenant: took the bid of {bid.price.normalize():f}{bid.denom} a block for group {bid.id.gseq}")
    return _Rented(deployment, leases)


async def _bids(
    world: World, provider: ProviderProcess, deployment: DeploymentId, *, groups: int, after: int
) -> Sequence[OpenBid]:
    """One bid a group. A group that was declined ends the wait, with the provider's reasons: nobody else bids here."""
    bids = asyncio.create_task(world.tenant.wait_for_bids(deployment, groups=groups))
    try:
        while not bids.done():
            for event in provider.events[after:]:
                if event.get("event") in ("market.declined", "market.bid_refused"):
                    raise DevnetError(_no_bid(event))
            await asyncio.sleep(0.1)
        return await bids
    finally:
        bids.cancel()


def _no_bid(event: Event) -> str:
    reasons = event.get("reasons") or [event.get("log", "")]
    told = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"there will be no bid for order {event['order']}:\n{told}\n"
        "The simulated nodes and their cards are in devnet/controlplane, the provider's prices in devnet/world."
    )


async def _deploy(world: World, provider: ProviderProcess, rented: _Rented, sdl: Sdl, *, telling: Telling) -> None:
    mark = len(provider.events)
    await _put(world, rented, sdl, telling)
    await _running(world, provider, rented.leases, after=mark)
    gateway = await world.tenant.gateway(world.provider)
    for lease in rented.leases:
        answer = await gateway.lease_status(lease.dseq, gseq=lease.gseq, oseq=lease.oseq)
        telling.line(f"tenant: lease status {answer.status}: {answer.body}")


async def _put(world: World, rented: _Rented, sdl: Sdl, telling: Telling) -> None:
    answer = await world.tenant.send_manifest(rented.leases[0], sdl)
    telling.line(f"tenant: PUT /deployment/{rented.deployment.dseq}/manifest → {answer.status} {answer.body}".rstrip())
    if answer.status != 200:
        raise DevnetError(f"the provider refused the manifest: {answer.status} {answer.body}")


async def _running(world: World, provider: ProviderProcess, leases: Sequence[LeaseId], *, after: int) -> None:
    for lease in leases:
        await provider.wait_for(
            "lease.state", seconds=world.terms.patience, after=after, lease=str(lease), phase="running"
        )


async def _update(world: World, provider: ProviderProcess, rented: _Rented, sdl: Sdl, *, telling: Telling) -> None:
    """The first manifest group changed: its lease is previewed and applied, those of other groups are left alone."""
    await world.tenant.announce_update(rented.deployment, sdl)
    mark = len(provider.events)
    await _put(world, rented, sdl, telling)
    changed = rented.leases[[group.name for group in sdl.groups].index(sdl.manifest[0].name)]
    for operation in ("preview", "up"):
        await provider.wait_for("stack.result", after=mark, lease=str(changed), operation=operation)
    await _running(world, provider, [changed], after=mark)


async def _send_again(world: World, provider: ProviderProcess, rented: _Rented, sdl: Sdl, *, telling: Telling) -> None:
    mark = len(provider.events)
    watch = asyncio.create_task(programs_started(provider.pid, seconds=_WATCH_SECONDS))
    await _put(world, rented, sdl, telling)
    started = await watch
    runs = [event for event in provider.events[mark:] if event.get("event") == "stack.result"]
    if started or runs:
        raise DevnetError(f"an identical manifest started {started or runs}")
    telling.good(f"watched for {_WATCH_SECONDS:.0f} s: no process, no engine run")


async def _close(world: World, provider: ProviderProcess, rented: _Rented, *, telling: Telling) -> None:
    mark = len(provider.events)
    await world.tenant.close_deployment(rented.deployment)
    for lease in rented.leases:
        await provider.wait_for("lease.state", after=mark, lease=str(lease), phase="closed")
    for lease in rented.leases:
        left = await leftovers(world, lease)
        if left:
            raise DevnetError(f"lease {lease} left: {', '.join(left)}")
    telling.good("API server: no namespace, claims, volumes, records, hostnames, addresses of it")
    telling.good("Pulumi's backend: no stack of it")
    telling.good("ledger: no reservation")


async def _keep(world: World, telling: Telling) -> None:
    telling.line("\n   KEEP: everything runs until Ctrl-C. Try for example:", style="bold")
    telling.line(f"export KUBECONFIG={world.plane.kubeconfig}")
    telling.line(f"curl -k https://127.0.0.1:{world.gateway_port}/status")
    telling.line(f"curl {world.chain.rpc_address}/status")
    await asyncio.Event().wait()


def _with_another_image(sdl: Sdl) -> Sdl:
    """The same with the first service's image under another tag: what a tenant's update usually is."""
    return _with_first_service(sdl, lambda service: replace(service, image=_retagged(service.image, "updated")))


def _with_a_variable(sdl: Sdl) -> Sdl:
    """The same with one more variable in the first service: where images are pulled, another tag may not exist."""
    return _with_first_service(sdl, lambda service: replace(service, env=(*(service.env or ()), "DEMO=updated")))


def _with_first_service(sdl: Sdl, change: Callable[[Service], Service]) -> Sdl:
    first, *others = sdl.manifest
    service, *siblings = first.services or ()
    groups: tuple[Group, ...] = (replace(first, services=(change(service), *siblings)), *others)
    return replace(sdl, manifest=groups, version=manifest_version(groups))


def _priced_in(sdl: Sdl, denom: str) -> Sdl:
    """`sdl` with every price in `denom`, if one is given; the manifest and its hash do not depend on prices."""
    return replace(sdl, groups=tuple(_repriced(group, denom) for group in sdl.groups)) if denom else sdl


def _repriced(group: GroupSpec, denom: str) -> GroupSpec:
    return replace(group, units=tuple(replace(unit, price=replace(unit.price, denom=denom)) for unit in group.units))


def _retagged(image: str, tag: str) -> str:
    """`image` with another tag; a colon before the last slash belongs to a registry's port."""
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition('@')[0].partition(':')[0]}:{tag}"
