"""Who is served and how much, in which denoms, with which notice (bidding.md §1.4–1.5, §3.4; field problems A9, A11,
A12, A15).
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lease.groups import SignedBy
from lease.resources import Attribute
from provider.chain import events
from provider.errors import ChainError, SettingsError
from provider.inventory.ledger import Ledger
from provider.market.audits import AuditCache
from provider.market.bidding import consider
from provider.market.decision import BidDecision, DecisionInputs, Declined, decide
from provider.market.owner_lists import owner_rules, read_owners
from provider.market.rules import rules_from
from provider.market.terms import Notice, OwnerRules, TenantHoldings
from provider.protocols.chain import Event, MarketParams
from provider.settings import Settings
from tests.provider.market.world import RECORD, RULES, TENANT, US, World, make_inventory, make_order, order_id, running

pytestmark = pytest.mark.virtual_time

FREE = Ledger(US).free(make_inventory(nodes=2))
SECOND = 10**9
HOUR = 3600 * SECOND
ONE, TWO = "akash1" + "q" * 38, "akash1" + "p" * 38


def outcome(order=None, *, rules=RULES, tenant: TenantHoldings | None = None, audits=None):
    tenant = tenant or TenantHoldings()
    return decide(
        DecisionInputs(order or make_order(), RECORD, snapshot=FREE, rules=rules, audits=audits or {}, tenant=tenant)
    )


@pytest.mark.parametrize(
    ("owners", "tenant", "words"),
    [
        (OwnerRules(denied=frozenset({TENANT})), TenantHoldings(), "is on this provider's deny list"),
        (OwnerRules(allowed=frozenset({ONE})), TenantHoldings(), "is not on this provider's allow list"),
        (OwnerRules(allowed=frozenset()), TenantHoldings(), "not on this provider's allow list"),
        (OwnerRules(allowed=frozenset({TENANT}), denied=frozenset({TENANT})), TenantHoldings(), "deny list"),
        (OwnerRules(open_bids=2), TenantHoldings(open_bids=2), "has 2 open bids, the limit is 2"),
        (OwnerRules(leases=1), TenantHoldings(leases=3), "has 3 leases, the limit is 1"),
        (
            OwnerRules(bids_an_hour=9),
            TenantHoldings(bids_lately=9),
            "9 bids of the last hour that did not",
        ),
        (OwnerRules(allowed=frozenset({TENANT}), open_bids=2), TenantHoldings(open_bids=1), ""),
        (OwnerRules(), TenantHoldings(99, 99, 99), ""),
    ],
)
def test_a_tenant_is_served_as_the_operator_says(owners: OwnerRules, tenant: TenantHoldings, words: str) -> None:
    found = outcome(rules=replace(RULES, owners=owners), tenant=tenant)
    assert isinstance(found, Declined if words else BidDecision)
    if isinstance(found, Declined):
        assert words in " | ".join(found.reasons)
        assert not [reason for reason in found.reasons if "replicas" in reason or "price" in reason]


@pytest.mark.parametrize(
    ("window_s", "asked", "bounds", "words"),
    [
        (0, None, (0, 720 * HOUR), ""),
        (3600, None, (HOUR, 720 * HOUR), ""),
        (0, HOUR, (HOUR, 720 * HOUR), "asks for a reclamation window of 3600 s, this provider offers none"),
        (
            86400,
            72 * HOUR,
            (HOUR, 720 * HOUR),
            "window of 259200 s, this provider offers 86400 s",
        ),
        (86400, 24 * HOUR, (HOUR, 720 * HOUR), ""),
        (86400, 24 * HOUR + 1, (HOUR, 720 * HOUR), "this provider offers 86400 s"),
        (60, None, (HOUR, 720 * HOUR), "outside the chain's bounds of 3600 s to 2.592e+06 s"),
        (721 * 3600, None, (HOUR, 720 * HOUR), "outside the chain's bounds"),
        (0, 0, (0, 720 * HOUR), "this provider offers none"),
    ],
)
def test_a_reclamation_window_is_offered_as_the_chain_and_the_order_take_it(window_s, asked, bounds, words) -> None:
    rules = replace(RULES, notice=Notice(window_s, *bounds))
    found = outcome(replace(make_order(), reclamation_ns=asked), rules=rules)
    if words:
        assert isinstance(found, Declined)
        assert words in " | ".join(found.reasons)
    else:
        assert isinstance(found, BidDecision)
        assert found.reclamation_s == window_s


def test_an_order_that_asks_for_notice_pays_the_premium() -> None:
    rules = replace(RULES, notice=Notice(86400, premium=Decimal("12.5")))
    plain, asked = outcome(rules=rules), outcome(replace(make_order(), reclamation_ns=HOUR), rules=rules)
    assert isinstance(plain, BidDecision)
    assert isinstance(asked, BidDecision)
    assert (plain.price.amount, asked.price.amount) == (10, Decimal("11.25"))
    short = outcome(replace(make_order(price="11"), reclamation_ns=HOUR), rules=rules)
    assert isinstance(short, Declined)
    assert "the bid price 11.25uact is above" in short.reasons[0]


def test_only_the_denoms_that_are_set_are_bid_in() -> None:
    rules = replace(RULES, denoms=("uact",))
    assert isinstance(outcome(rules=rules), BidDecision)
    found = outcome(make_order(denom="uakt"), rules=rules)
    assert isinstance(found, Declined)
    assert "the order pays in uakt, this provider bids in uact" in found.reasons[0]


def test_the_terms_come_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "denied").write_text(f"# bad payers\n{ONE}\n\n{TWO}  # since May\n")
    settings = Settings(
        cpu_scale=1,
        owners_denied=(f"@{tmp_path}/denied",),
        owner_leases=3,
        bid_denoms=("uact",),
        reclamation_window=86400,
        reclamation_premium=Decimal(10),
    )
    rules = rules_from(settings)
    assert rules.owners == OwnerRules(None, frozenset({ONE, TWO}), leases=3)
    assert rules.denoms == ("uact",)
    assert (rules.notice.window_s, rules.notice.premium) == (86400, 10)


def test_a_list_that_breaks_stays_as_it_was_and_a_new_one_counts_at_once(tmp_path: Path) -> None:
    """A server's error page in place of the list changes neither list (field problem A12)."""
    path = tmp_path / "allowed"
    path.write_text(ONE)
    rules = owner_rules(Settings(cpu_scale=1, owners_allowed=(f"@{path}",)))
    assert rules().allowed == {ONE}
    assert rules() is rules()
    for broken in ("<html>500 Internal Server Error</html>", "", "akash1short"):
        if broken:
            path.write_text(broken)
        else:
            path.unlink()
        assert rules().allowed == {ONE}
    path.write_text(f"{TWO}\n")
    assert rules().allowed == {TWO}
    path.write_text("")
    assert rules().allowed == frozenset()


@pytest.mark.parametrize("text", [b"akash1nobody", b"\xff\xfe", b"a" * 100_000, b"\x00", f"{ONE},{TWO}".encode()])
def test_a_list_that_is_none_is_refused_with_its_place(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "list").write_bytes(text)
    with pytest.raises(SettingsError, match="LESSOR_OWNERS_DENIED") as caught:
        read_owners(tmp_path / "list", "LESSOR_OWNERS_DENIED")
    assert len(str(caught.value)) < 300
    with pytest.raises(SettingsError, match="No such file"):
        owner_rules(Settings(cpu_scale=1, owners_denied=(f"@{tmp_path}/none",)))
    with pytest.raises(SettingsError, match="not an akash address"):
        owner_rules(Settings(cpu_scale=1, owners_allowed=("everybody",)))


async def test_orders_of_a_tenant_who_is_not_served_never_touch_what_is_free(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        market = replace(world.market, rules=replace(RULES, owners=OwnerRules(denied=frozenset({TENANT}))))
        before = world.ledger.free(world.inventory)
        for dseq in range(1, 61):
            await consider(market, make_order(dseq))
            assert world.ledger.free(world.inventory) is before
        assert world.chain.sent == []


async def test_one_tenant_gets_no_more_bids_at_a_time_than_the_limit(tmp_path: Path) -> None:
    """Also when all of his orders come in one block."""
    async with running(tmp_path, inventory=make_inventory(cpu=20_000)) as world:
        market = replace(world.market, rules=replace(RULES, owners=OwnerRules(open_bids=3)))
        orders = [make_order(dseq) for dseq in range(1, 9)]
        for order in orders:
            world.chain.orders[order.id] = order
        await asyncio.gather(*(consider(market, order) for order in orders))
        assert world.chain.sent_kinds() == ["MsgCreateBid"] * 3


def tried(world: World) -> int:
    return world.market.tenant_holdings(order_id(99)).bids_lately


async def test_bids_that_became_no_lease_count_for_an_hour(tmp_path: Path) -> None:
    async with running(tmp_path, inventory=make_inventory(cpu=20_000)) as world:
        for dseq in (7, 8):
            world.chain.add_order(make_order(dseq))
        await world.block()
        assert tried(world) == 2
        world.chain.create_lease(world.ours(7))
        world.chain.close_order(order_id(8))
        await world.block()
        assert tried(world) == 1
        await world.later(3601)
        assert tried(world) == 0
        assert world.market.book.bid_at == {}


async def test_a_restart_does_not_give_a_tenant_the_bids_of_an_hour_anew(tmp_path: Path) -> None:
    async with running(tmp_path, inventory=make_inventory(cpu=20_000)) as world:
        for dseq in (7, 8, 9):
            world.chain.add_order(make_order(dseq))
        await world.block()
        world.chain.create_lease(world.ours(7))
        world.chain.close_order(order_id(8))
        await world.block()
        assert tried(world) == 2
        chain, later = world.chain, world.clock.now()
    async with running(tmp_path, chain=chain, inventory=make_inventory(cpu=20_000)) as world:
        assert tried(world) == 2
        at = dict(world.market.book.bid_at[order_id(8).owner])
        assert set(at) == {order_id(8), order_id(9)} and all(each <= later for each in at.values())
        await world.later(3700)
        assert tried(world) == 0


async def test_the_bid_carries_the_window_and_its_bounds_are_the_chains(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        market = replace(world.market, rules=replace(RULES, notice=Notice(3600)))
        order = replace(make_order(), reclamation_ns=HOUR)
        world.chain.orders[order.id] = order
        market.book.params = MarketParams({}, 20, 2 * HOUR, 720 * HOUR)
        await consider(market, order)
        assert world.chain.sent == []
        assert world.free_cpu() == 4000
        market.book.params = MarketParams({}, 20, HOUR, 720 * HOUR)
        await consider(market, order)
        assert [message.reclamation_window.seconds for message in world.chain.sent] == [3600]  # type: ignore[attr-defined]


WANTED = (Attribute("region", "us-west"),)


def auditor_event(kind: str, *, owner: str = US, auditor: str = "akash1auditor") -> Event:
    return Event(kind, {"owner": owner, "auditor": auditor})


async def test_vector_35_an_auditors_word_is_asked_again_when_the_chain_tells_of_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(attributes=WANTED, signed_by=SignedBy(all_of=("akash1auditor",))))
        await world.block()
        assert world.chain.sent == []
        await world.later(125)
        assert world.chain.calls.count("audited_attributes") == 1  # two passes later, and vector 30
        world.chain.audits[(US, "akash1auditor")] = WANTED
        await world.block(auditor_event(events.AUDITOR_CREATED, owner="akash1other"))
        await world.later(125)
        assert world.chain.sent == []
        await world.block(auditor_event(events.AUDITOR_CREATED))
        await world.later(3)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        await world.block(auditor_event(events.AUDITOR_DELETED))
        world.chain.audits.clear()
        world.chain.add_order(make_order(8, attributes=WANTED, signed_by=SignedBy(all_of=("akash1auditor",))))
        await world.block()
        assert len(world.chain.sent) == 1
        assert world.chain.calls.count("audited_attributes") == 3


async def test_an_update_of_our_own_record_counts_for_the_very_next_order(tmp_path: Path) -> None:
    """The Go provider goes by its start-up record until it is restarted (bidding.md §3.4)."""
    async with running(tmp_path) as world:
        world.chain.providers[US] = replace(RECORD, attributes=())
        world.chain.add_order(make_order(attributes=WANTED))
        await world.block(Event(events.PROVIDER_UPDATED, {"owner": US}))
        assert world.chain.sent == []
        (decision,) = await world.decisions()
        assert "requires attribute region=us-west" in decision.reasons[0]


async def test_a_record_is_never_older_than_its_age(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        market = replace(world.market, attributes_age=30.0)
        await world.clock.advance(31)
        world.chain.providers[US] = replace(RECORD, attributes=())
        await consider(market, make_order(attributes=WANTED))
        assert world.chain.sent == []


class Asks:
    """Counts the queries; `answer` may be an error."""

    def __init__(self) -> None:
        self.count, self.now, self.answer = 0, 0.0, WANTED
        self.gate: asyncio.Event | None = None

    async def __call__(self, auditor: str):
        self.count += 1
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def cache() -> tuple[Asks, AuditCache]:
    asks = Asks()
    return asks, AuditCache(asks, lambda: asks.now, 100.0)


async def test_vectors_30_to_34_an_answer_is_kept_for_its_age_and_an_error_is_not() -> None:
    asks, audits = cache()
    assert [await audits.signed_by("a"), await audits.signed_by("a")] == [WANTED, WANTED]
    assert asks.count == 1  # 30
    asks.now = 100.0
    await audits.signed_by("a")
    assert asks.count == 2  # 32
    asks.answer = ()  # type: ignore[assignment]
    assert await audits.signed_by("b") == ()  # 31: not audited is an answer
    asks.answer = ChainError("fake", "no answer")  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(ChainError):  # 34
            await audits.signed_by("c")
    assert asks.count == 5


async def test_vector_33_hostile_orders_do_not_fill_the_memory() -> None:
    asks, audits = cache()
    asks.answer = tuple(Attribute(f"k{index}", "v") for index in range(1001))  # type: ignore[assignment]
    for number in range(52):
        await audits.signed_by(f"auditor{number}")
    assert sum(len(answer.attributes) for answer in audits._known.values()) <= 50_000
    await audits.signed_by("auditor51")
    await audits.signed_by("auditor0")
    assert asks.count == 53


async def test_an_answer_that_was_read_again_is_the_newest_when_answers_are_dropped() -> None:
    asks, audits = cache()
    asks.answer = tuple(Attribute(f"k{index}", "v") for index in range(20_000))  # type: ignore[assignment]
    for name, now in (("a", 0.0), ("b", 50.0), ("a", 101.0), ("c", 102.0)):
        asks.now = now
        await audits.signed_by(name)
    assert audits.known("b") is None, "60,000 attributes are too many, and this answer is the oldest"
    assert audits.known("a") is not None and audits.known("c") is not None


@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
async def test_a_query_for_which_nobody_waits_any_more_is_no_error_of_the_loop(ends: str) -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    asks, audits = cache()
    asks.gate, asks.answer = asyncio.Event(), ChainError("fake", "no answer")  # type: ignore[assignment]
    caller = asyncio.create_task(audits.signed_by("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    query = audits._asked["a"]
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    asks.gate.set() if ends == "fails" else query.cancel()
    await asyncio.wait([query])
    await asyncio.sleep(0)
    del query
    gc.collect()
    assert problems == [] and audits._asked == {}


async def test_questions_at_one_time_share_a_query_and_a_change_in_between_is_not_lost() -> None:
    asks, audits = cache()
    asks.gate = asyncio.Event()
    both = [asyncio.create_task(audits.signed_by("a")) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    both.pop().cancel()
    audits.forget("a")
    asks.gate.set()
    assert await asyncio.gather(*both) == [WANTED] * 4
    assert asks.count == 1
    asks.answer = ()  # type: ignore[assignment]
    assert await audits.signed_by("a") == ()


def test_an_order_that_names_very_many_auditors_is_declined_without_asking_them() -> None:
    found = outcome(make_order(signed_by=SignedBy(any_of=tuple(f"akash1a{index}" for index in range(33)))))
    assert isinstance(found, Declined)
    assert found.reasons == ("the order names 33 auditors, at most 32 are allowed",)
