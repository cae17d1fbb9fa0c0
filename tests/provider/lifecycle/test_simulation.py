"""A seeded simulation: tenants, chain, engine, cluster and daemon do what they do in a random order, with everything
going wrong that can; after every step the rules of docs/architecture.md §2 are checked.

When the faults stop, everything must converge. A failing seed prints its trace; `-k 'seed and 17'` runs it again.
"""

from __future__ import annotations

from random import Random

import pytest

from lease.ids import LeaseId, namespace_name
from lease.manifest import Group
from provider.errors import ChainError, ClusterError
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseAnswer, LeaseState
from provider.protocols.cluster import INGRESS, IP_ADDRESS_POOL, PROVIDER_HOST
from tests.provider.lifecycle.world import OTHER, OWNER, World, a_group, a_lease, closed, on_chain, unknown
from tests.world.cluster import unreachable
from tests.world.engine import Fault, Killed

pytestmark = pytest.mark.virtual_time

LEASES = [a_lease(1), a_lease(2), a_lease(3, owner=OTHER), a_lease(4)]
STEPS = 60
BAD = "bad:1"


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(ip_ranges=("203.0.113.1-203.0.113.3",))
        self.world.engine.refused[BAD] = "is invalid: no"
        self.accepted: dict[LeaseId, Group] = {}
        self.complete: set[LeaseId] = set()
        self.trace: list[str] = []

    async def step(self) -> None:
        actions = [
            *[self.check_one] * 12,
            *[self.settle] * 4,
            self.win,
            self.send,
            self.send,
            self.close,
            self.crash,
            self.lose_disk,
            self.engine_fault,
            self.cluster_fault,
            self.chain_lies,
            self.delete_by_hand,
        ]
        action = self.random.choice(actions)
        self.trace.append(action.__name__)
        try:
            await action()
        except Killed:
            self.trace.append("killed")
            self.world.restart()
        self.world.cluster.before = lambda *_: None
        self.check()

    async def check_one(self) -> None:
        lease = self.random.choice(LEASES)
        outcome = await self.world.check(lease)
        self.trace[-1] += f" {lease.dseq}: {outcome.phase.value}; {outcome.reason}"
        if outcome.phase is Phase.RUNNING:
            self.complete.add(lease)
        assert "unexpected" not in outcome.reason, outcome.reason

    async def settle(self) -> None:
        self.world.cluster.settle(ready=self.random.random() < 0.8)

    async def win(self) -> None:
        lease = self.random.choice(LEASES)
        if lease not in self.world.chain.lease_states:
            self.world.chain.put_lease(lease, LeaseState.ACTIVE)

    async def send(self) -> None:
        """The gateway accepts manifests of leases that are alive."""
        lease = self.random.choice(LEASES)
        if lease in self.alive:
            group = self.group()
            await self.world.send(lease, group)
            self.accepted[lease] = group

    def group(self) -> Group:
        image = self.random.choice(["nginx:1", "nginx:2", BAD])
        hosts = self.random.sample(["a.example.com", "b.example.com", "c.example.com"], self.random.randint(0, 2))
        return a_group(
            image, hosts=hosts, ip=self.random.choice(["", "meow", "purr"]), ip_port=self.random.choice([80, 81])
        )

    async def close(self) -> None:
        if self.alive and self.random.random() < 0.5:
            ends = [LeaseState.CLOSED, LeaseState.INSUFFICIENT_FUNDS]
            self.world.chain.put_lease(self.random.choice(sorted(self.alive)), self.random.choice(ends))

    async def crash(self) -> None:
        """Die at a random call of the next look."""
        left = self.random.randint(0, 15)

        def die(operation: str, kind: str, name: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        self.world.cluster.before = die
        await self.check_one()
        self.world.restart()

    async def lose_disk(self) -> None:
        self.world.engine.lose_state()
        self.world.restart()

    async def engine_fault(self) -> None:
        error = self.random.choice(["connection refused", "currently locked", ""])
        self.world.engine.faults.append(Fault(error=error, objects=self.random.randint(0, 6), kill=not error))

    async def cluster_fault(self) -> None:
        chance = self.random.random()
        random = self.random

        def fail(operation: str, kind: str, name: str) -> None:
            if random.random() < chance:
                raise unreachable() if random.random() < 0.5 else ClusterError("https://fake", "boom", status=500)

        self.world.cluster.before = fail
        await self.check_one()

    async def chain_lies(self) -> None:
        lease, height = self.random.choice(LEASES), self.world.chain.height
        lies: list[LeaseAnswer | Exception] = [
            ChainError("http://node", "no answer"),
            unknown(height + 1),
            closed(lease, max(1, height - 5)),
            closed(lease, height + 1, "othernet-1"),
            LeaseAnswer(on_chain(lease, LeaseState.ACTIVE), max(1, height - 1), "akashnet-2"),
        ]
        self.world.chain.lies = [self.random.choice(lies)]
        await self.check_one()
        self.world.chain.lies = []

    async def delete_by_hand(self) -> None:
        """An operator deletes something of a lease, be it the whole namespace."""
        ours = [key for key in self.world.cluster.objects if key[1] in ("Deployment", "Namespace", "ProviderHost")]
        names = {namespace_name(lease) for lease in LEASES}
        ours = [key for key in ours if key[2] in names or key[3] in names or key[1] == "ProviderHost"]
        if ours and self.random.random() < 0.4:
            key = self.random.choice(ours)
            self.trace[-1] += f" {key[1]} {key[3]}"
            self.world.cluster.remove(key)
            self.complete.clear()

    @property
    def alive(self) -> set[LeaseId]:
        return {lease for lease, found in self.world.chain.lease_states.items() if not found.state.ended}

    def check(self) -> None:
        """What must hold at every moment."""
        for lease in self.complete & self.alive:
            assert self.runs(lease), f"rule 1: {lease.dseq} was running and is alive, but its workload is gone"
        ended = {lease for lease in LEASES if lease not in self.alive}
        assert set(self.world.released) <= {lease.order for lease in ended}, "rule 2: released alive"
        self.check_addresses()

    def live_image(self, lease: LeaseId) -> str:
        workload = self.world.cluster.objects["apps/v1", "Deployment", namespace_name(lease), "web"]
        return str(workload["spec"]["template"]["spec"]["containers"][0]["image"])

    def check_hostnames(self) -> None:
        """A name is served for one lease only, and that one holds the claim."""
        holders: dict[str, str] = {}
        for lease in self.alive:
            for host in self.world.cluster.named(INGRESS, namespace_name(lease)):
                claim = self.world.cluster.find(PROVIDER_HOST, host, "lease")
                assert holders.setdefault(host, str(lease)) == str(lease), f"two leases serve {host}"
                assert claim is not None and claim["spec"]["dseq"] == lease.dseq, f"{host} is served without a claim"

    def runs(self, lease: LeaseId) -> bool:
        return ("apps/v1", "Deployment", namespace_name(lease), "web") in self.world.cluster.objects

    def check_addresses(self) -> None:
        pools = [
            self.world.cluster.find(IP_ADDRESS_POOL, n, "metallb-system")
            for n in self.world.cluster.named(IP_ADDRESS_POOL)
        ]
        addresses = [address for pool in pools if pool for address in pool["spec"]["addresses"]]
        assert len(addresses) == len(set(addresses)), f"two pools hold one address: {addresses}"

    async def calm(self) -> None:
        """No more faults: everything converges, ended leases to nothing."""
        self.world.engine.faults.clear()
        self.world.restart()
        for _ in range(12):
            for lease in LEASES:
                await self.world.check(lease)
                self.world.cluster.settle()
        for lease in LEASES:
            if lease not in self.alive:
                assert self.world.leftovers(lease) == [], f"rule 2: {lease.dseq}"
            elif lease in self.accepted:
                self.check_converged(lease, self.accepted[lease])
        self.check_hostnames()
        if not self.alive:
            assert self.world.pools() == []

    def check_converged(self, lease: LeaseId, group: Group) -> None:
        status = self.world.reconciler.statuses[lease]
        image = group.services[0].image if group.services else ""
        applied = self.world.applied(lease)
        if applied.spec is not None:
            assert self.live_image(lease) == applied.spec.services[0].image, "rule 5: not the last complete version"
        if image == BAD:
            assert status.phase in (Phase.UPDATE_FAILED, Phase.FAILED, Phase.BLOCKED), status
            assert status.reason
        elif status.phase is not Phase.RUNNING:
            assert status.phase is Phase.BLOCKED and ("in use" in status.reason or "no free address" in status.reason)
        else:
            spec = self.world.applied(lease).spec
            assert spec is not None and spec.services[0].image == image
            assert self.runs(lease)


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_goes_wrong_the_rules_hold(seed: int) -> None:
    simulation = Simulation(seed)
    try:
        for _ in range(STEPS):
            await simulation.step()
        await simulation.calm()
    except Exception:
        print("\n".join([f"seed {seed}", *simulation.trace]))
        raise


def test_the_simulation_has_two_owners() -> None:
    assert {lease.owner for lease in LEASES} == {OWNER, OTHER}
