"""When a hostname counts as proved, what a tenant reads until then, and how often anybody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from provider.claims.ownership import OwnershipProofs, record_name
from provider.settings.kinds import ProofKind
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

ME, OTHER = "akash1me", "akash1other"
HOST = "shop.example.com"


@dataclass
class Published:
    """One way of publishing: lines by hostname. `seconds`: how long an answer takes."""

    lines: dict[str, Sequence[str]] = field(default_factory=dict)
    seconds: float = 0.0
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most: int = 0

    async def __call__(self, hostname: str) -> Sequence[str]:
        self.asked.append(hostname)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        if hostname not in self.lines:
            raise OSError("DNS has nothing")
        return self.lines[hostname]


class Proofs:
    def __init__(self, kind: ProofKind) -> None:
        self.txt, self.file = Published(), Published()
        self.proofs = OwnershipProofs(kind, self.txt, self.file, VirtualClock())

    async def problem(self, hostname: str = HOST, owner: str = ME) -> str:
        return (await self.proofs.unproved(owner, [hostname])).get(hostname, "")


@pytest.mark.parametrize("kind", ProofKind)
@pytest.mark.parametrize("published", ["", "dns", "http", "both"])
async def test_a_hostname_is_proved_in_the_ways_that_the_operator_takes(kind: ProofKind, published: str) -> None:
    world = Proofs(kind)
    for way, source in (("dns", world.txt), ("http", world.file)):
        if published in (way, "both"):
            source.lines[HOST] = ["# who owns it", f" {ME} "]
    taken = {"off": True, "dns": published in ("dns", "both"), "http": published in ("http", "both")}
    assert (await world.problem() == "") is taken.get(kind, published != "")


async def test_another_account_is_no_proof_and_the_tenant_reads_what_to_publish() -> None:
    world = Proofs(ProofKind.EITHER)
    world.txt.lines[HOST] = [OTHER, f"{ME}x", f"v=spf1 {ME}", ""]
    assert await world.problem() == (
        "its owner is not proved: the account is not there and DNS has nothing; "
        "publish a TXT record of _akash-owner.shop.example.com with the text akash1me "
        "or serve http://shop.example.com/.well-known/akash-owner with the line akash1me"
    )
    assert await world.problem(owner=OTHER) == ""


@pytest.mark.parametrize("kind", [ProofKind.DNS, ProofKind.HTTP, ProofKind.EITHER])
async def test_a_wildcard_is_proved_by_dns_only(kind: ProofKind) -> None:
    world = Proofs(kind)
    world.file.lines["*.example.com"] = [ME]
    assert "_akash-owner.example.com" in await world.problem("*.example.com")
    assert record_name("*.example.com") == record_name("example.com") == "_akash-owner.example.com"
    assert world.file.asked == []


async def test_a_proof_that_appears_is_found_and_nobody_is_asked_more_than_once_in_ten_seconds() -> None:
    world = Proofs(ProofKind.DNS)
    for _ in range(20):
        assert await world.problem()
    assert len(world.txt.asked) == 1
    world.txt.lines[HOST] = [ME]
    await asyncio.sleep(11)
    assert await world.problem() == ""
    assert len(world.txt.asked) == 2


async def test_a_slow_answer_keeps_a_check_for_two_seconds_and_counts_at_the_next_one() -> None:
    world = Proofs(ProofKind.DNS)
    world.txt.lines[HOST], world.txt.seconds = [ME], 5.0
    begun = VirtualClock().monotonic()
    assert "has not ended yet" in await world.problem()
    assert VirtualClock().monotonic() - begun == pytest.approx(2.0)
    await asyncio.sleep(4)
    assert await world.problem() == ""


async def test_an_answer_that_never_comes_ends() -> None:
    world = Proofs(ProofKind.DNS)
    world.txt.seconds = 1e6
    await world.problem()
    await asyncio.sleep(12)
    assert "no answer in time" in await world.problem()
    assert world.txt.at_once == 0


async def test_one_tenant_s_slow_names_keep_no_other_tenant_waiting() -> None:
    world = Proofs(ProofKind.DNS)
    slow = [f"{number}.slow.example.com" for number in range(200)]
    world.txt.seconds = 9.0
    await world.proofs.unproved(OTHER, slow)
    assert world.txt.most == 4
    world.txt.seconds, world.txt.lines[HOST] = 0.0, [ME]
    assert await world.problem() == ""
