"""A lease whose new hostname waits for the proof that its tenant owns it (`LESSOR_HOSTNAME_PROOF`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lease.build import SpecSettings
from lease.ids import LeaseId
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError, HostnameRules
from provider.claims.ownership import OwnershipProofs
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import PROVIDER_HOST
from provider.settings.kinds import ProofKind
from tests.provider.lifecycle.world import OTHER, OWNER, World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

MINE, MINE_TOO, THEIRS = a_lease(1), a_lease(2), a_lease(3, owner=OTHER)
HOST = "shop.example.com"


class ProvingWorld(World):
    """`records`: the accounts that the TXT records of a hostname name."""

    def __init__(self, **config: object) -> None:
        self.records: dict[str, list[str]] = {}
        self.asked: list[str] = []
        super().__init__(**config)  # type: ignore[arg-type]
        self.proofs = OwnershipProofs(ProofKind.DNS, self.read, self.read, self.clock)
        self.restart()

    async def read(self, hostname: str) -> Sequence[str]:
        self.asked.append(hostname)
        if hostname not in self.records:
            raise OSError("DNS has nothing")
        return self.records[hostname]

    async def end(self, lease: LeaseId) -> None:
        self.chain.put_lease(lease, LeaseState.CLOSED)
        await self.converge(lease)


async def test_a_lease_runs_without_a_hostname_until_its_owner_is_proved() -> None:
    world = ProvingWorld()
    await world.run(MINE, a_group(hosts=[HOST, "other.example.com"]))
    outcome = await world.converge(MINE)
    assert outcome.phase is Phase.RUNNING and world.cluster.named(PROVIDER_HOST) == []
    assert "publish a TXT record of _akash-owner.shop.example.com with the text " + OWNER in outcome.remark
    assert outcome.again_in is not None and outcome.again_in <= 15
    world.records[HOST] = [OWNER]
    await world.elapse(15)
    outcome = await world.converge(MINE)
    assert world.cluster.named(PROVIDER_HOST) == [HOST]
    assert HOST not in outcome.remark and "other.example.com" in outcome.remark


async def test_what_is_claimed_is_asked_about_no_more() -> None:
    world = ProvingWorld()
    world.records[HOST] = [OWNER]
    await world.run(MINE, a_group(hosts=[HOST]))
    world.records.clear()
    asked = len(world.asked)
    world.restart()
    await world.send(MINE, a_group("nginx:2", hosts=[HOST]))
    assert (await world.converge(MINE)).phase is Phase.RUNNING
    await world.elapse(3600)
    await world.converge(MINE)
    assert len(world.asked) == asked and world.cluster.named(PROVIDER_HOST) == [HOST]


async def test_a_proof_of_one_account_is_none_of_another() -> None:
    world = ProvingWorld()
    world.records[HOST] = [OWNER]
    await world.run(THEIRS, a_group(hosts=[HOST]))
    assert world.cluster.named(PROVIDER_HOST) == []
    await world.run(MINE, a_group(hosts=[HOST]))
    claim = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert claim is not None and claim["spec"]["owner"] == OWNER
    outcome = await world.converge(THEIRS)
    assert outcome.phase is Phase.RUNNING and OWNER not in outcome.remark
    await world.end(MINE)
    world.records[HOST].append(OTHER)
    await world.elapse(15)
    await world.converge(THEIRS)
    claim = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert claim is not None and claim["spec"]["owner"] == OTHER


async def test_automatic_names_need_no_proof() -> None:
    world = ProvingWorld(hostnames=HostnameRules(domain="in.example.net", static=True))
    world.settings = SpecSettings(static_hosts=True, ingress_domain="in.example.net")
    spec = await world.run(MINE, a_group())
    assert [host.hostname.endswith(".in.example.net") for host in spec.hostnames] == [True] and world.asked == []


async def test_a_migration_of_an_unclaimed_hostname_needs_the_proof_and_one_of_a_claimed_hostname_does_not() -> None:
    world = ProvingWorld()
    await world.run(MINE, a_group(hosts=[HOST]))
    with pytest.raises(HostnameRefusedError, match="its owner is not proved"):
        await world.parts.claims.migrate_hosts(MINE, [HostnameClaim(HOST, MINE, "web", 80)])
    assert world.cluster.named(PROVIDER_HOST) == []
    world.records[HOST] = [OWNER]
    await world.elapse(15)
    await world.converge(MINE)
    world.records.clear()
    await world.run(MINE_TOO, a_group(hosts=[HOST]))
    await world.parts.claims.migrate_hosts(MINE_TOO, [HostnameClaim(HOST, MINE_TOO, "web", 80)])
    claim = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert claim is not None and claim["spec"]["dseq"] == MINE_TOO.dseq
