"""The status document over the socket, and what `lessor status` prints of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lease.exit_codes import UNAVAILABLE
from lease.ids import LeaseId
from lease.resources import Price
from provider.chain.nodes import NodeView
from provider.chain.tx.journal import Fate, MemoryJournal, SentTx
from provider.cli import build_app
from provider.cli.status import status_rows
from provider.errors import StoreError
from provider.funds.wallet import Wallet, WalletLevel
from provider.inventory.capacity import Capacity
from provider.inventory.snapshot import ScheduledPod
from provider.lifecycle.state import LeaseStatus, Phase
from provider.local_socket import status_socket
from provider.market.bidding import consider
from provider.market.book import Placed
from provider.market.pricing.quote import Quote
from provider.metrics import CHAIN_HEIGHT, CHAIN_TIME
from provider.observe.findings import with_findings
from provider.observe.operator_status import (
    CertificateEnd,
    StatusSources,
    day_fees,
    operator_status,
    serve_status,
)
from provider.store import Database, open_database
from tests.provider.market.world import RECORD, US, World, make_inventory, make_order, make_world, order_id

NODES = (
    NodeView("http://127.0.0.1:26657", True, 500, 1, False, ""),
    NodeView("https://far.example", False, 480, 300, True, "behind by 20 blocks"),
    NodeView("https://away.example", False, 0, 1, False, "connection refused"),
    NodeView("https://next.example", False, 0, 1, False, ""),
)


@dataclass
class Daemon:
    world: World
    journal: MemoryJournal
    observed: StatusSources


async def make_daemon(database: Database) -> Daemon:
    world, journal = make_world(database), MemoryJournal()
    now = world.clock.now()
    for number, (ago, fee, fate) in enumerate(
        [(90_000, 900, Fate.DONE), (80_000, 2500, Fate.DONE), (60, 500, Fate.SENT), (50, 7, Fate.LAPSED)]
    ):
        await journal.begin(SentTx(f"H{number}", f"sim-1/{US}", (), (), fee, "uakt", 9, now - ago))
        await journal.end(f"H{number}", fate)
    world.market.book.record = RECORD
    world.market.book.placed = {order_id(7): Placed(now), order_id(8): Placed(now)}
    world.market.book.leased = {order_id(8)}
    leases = {
        LeaseId("akash1tenant", dseq, 1, 1, US): LeaseStatus(LeaseId("akash1tenant", dseq, 1, 1, US), phase, "", 0.0)
        for dseq, phase in ((8, Phase.RUNNING), (9, Phase.RUNNING), (10, Phase.FAILED))
    }
    CHAIN_HEIGHT.set(501)
    CHAIN_TIME.set(now - 3)
    observed = StatusSources(
        chain_id="sim-1",
        fee_denom="uakt",
        budget=lambda: 10_000,
        granter="",
        market=world.market,
        paid=day_fees(journal, chain_id="sim-1", address=US, denom="uakt"),
        nodes=lambda: NODES,
        wallet=lambda: Wallet({"uakt": 5, "uact": 7}, WalletLevel.ENOUGH),
        leases=lambda: leases,
        braked=lambda: 0,
        cluster=lambda: {"address": "https://api", "seconds_ago": 4.2, "problem": ""},
    )
    return Daemon(world, journal, observed)


@pytest.fixture
async def daemon(tmp_path: Path):
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
    yield await make_daemon(database)
    await database.close()


async def test_the_status_has_nodes_heights_fees_wallet_bids_and_leases(daemon: Daemon) -> None:
    told = await operator_status(daemon.observed)
    assert told["chain"]["height"] == 501
    assert told["chain"]["seconds_ago"] == 3
    assert [node["address"] for node in told["chain"]["nodes"]] == [node.address for node in NODES]
    assert told["keys"] == [US]
    assert told["fees"] == {
        "denom": "uakt",
        "budget": 10_000,
        "paid_by": "",
        "refused": "",
        "spent": 3000,
        "left": {"bids": 4000, "withdrawals": 6000, "closing": 7000},
    }
    assert told["bids"] == {
        "open": 1,
        "under_way": 0,
        "registered": True,
        "paused": "",
        "problem": "",
        "deposits": {},
        "lost": 0,
        "lost_deposits": {},
    }
    assert told["pricing"] == {"unpriced": 0}
    assert told["overcommitted"] == {}
    assert told["leases"] == {"running": 2, "failed": 1}
    assert json.loads(json.dumps(told)) == told


async def test_the_status_without_a_store_lacks_the_fees_and_shows_that_the_wallet_is_unread(daemon: Daemon) -> None:
    async def fails(since: float):
        raise StoreError("the database cannot be read: disk I/O error")

    told = await operator_status(replace(daemon.observed, paid=fails, wallet=lambda: None))
    assert told["fees"]["problem"] == "the database cannot be read: disk I/O error"
    assert told["wallet"] is None
    assert told["bids"]["open"] == 1


@pytest.mark.parametrize(
    ("orders", "begins"), [(3, "no price for 3 orders"), (20, "failing, so there are no bids: no ")]
)
async def test_a2_the_status_shows_that_pricing_fails_since_when_and_with_which_error(
    daemon: Daemon, orders: int, begins: str
) -> None:
    market = daemon.world.market
    for number in range(orders):
        quote = Quote("shellScript", problem="the price script printed 'debug'")
        market.book.pricing_outage.note(order_id(number), quote, now=market.clock.now() - 100 + number)
    told = await operator_status(daemon.observed)
    assert json.loads(json.dumps(told)) == told
    (line,) = (text for name, text in status_rows(told) if name == "pricing")
    assert line.startswith(begins)
    assert line.endswith(f"price for {orders} orders in a row, for 100 s; the last: the price script printed 'debug'")


async def test_a9_the_status_counts_deposits_and_those_of_lost_bids_apart(daemon: Daemon) -> None:
    akt, act = Price("uakt", Decimal(500_000)), Price("uact", Decimal("1.5"))
    daemon.world.market.book.deposits = {order_id(7): (akt,), order_id(5): (akt, act), order_id(6): (akt,)}
    told = await operator_status(daemon.observed)
    assert json.loads(json.dumps(told)) == told
    assert [text for name, text in status_rows(told) if name == "bids"] == [
        "1 open, 0 under way, deposits 1.5uact, 1500000uakt",
        "2 lost bids still hold 1.5uact, 1000000uakt: every full pass tries to close them",
    ]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("", "https://api: answered 4 s ago, 1 nodes take tenants"),
        ("the API server has not answered for more than 60 s: 401", "https://api: the API server has not answered for"),
    ],
)
async def test_the_status_shows_the_cluster_as_it_shows_the_chain(daemon: Daemon, problem: str, words: str) -> None:
    cluster = {"address": "https://api", "seconds_ago": 4.2, "problem": problem}
    told = await operator_status(replace(daemon.observed, cluster=lambda: cluster))
    assert json.loads(json.dumps(told)) == told
    (line,) = (text for name, text in status_rows(told) if name == "cluster")
    assert line.startswith(words)


@pytest.mark.parametrize(
    ("days", "level", "text"),
    [
        (3.5, "warning", "certificates: the kubeconfig's certificate ends in 3.5 days: renew it"),
        (-1.0, "trouble", "certificates: the kubeconfig's certificate ended 1.0 days ago: renew it"),
        (15.0, None, ""),
    ],
)
async def test_the_status_shows_every_certificate_and_warns_two_weeks_before_the_end(
    daemon: Daemon, days: float, level: str | None, text: str
) -> None:
    ends = CertificateEnd("the kubeconfig's certificate", days * 86400, "renew it")
    told = await operator_status(replace(daemon.observed, certificates=lambda: [ends]))
    rows = list(status_rows(told))
    assert [row for row in rows if "certificates: " in row[1]] == ([(level.upper(), text)] if level else [])
    assert [shown for name, shown in rows if name == "certificate"] == [
        f"the kubeconfig's certificate: {f'ends in {days:.0f} days' if days > 0 else 'has ended'}"
    ]


async def test_a_certificate_that_the_chain_calls_revoked_is_trouble(daemon: Daemon) -> None:
    end = CertificateEnd("the account certificate", 90 * 86400, "restart", "the chain calls it revoked")
    told = await operator_status(replace(daemon.observed, certificates=lambda: [end]))
    assert ("TROUBLE", "certificates: the account certificate: the chain calls it revoked: restart") in list(
        status_rows(told)
    )


@pytest.mark.parametrize(
    ("process", "level", "text"),
    [
        ({"ends": 0, "exit_code": 1, "running": True}, None, ""),
        ({"ends": 1, "exit_code": -9, "running": True}, "WARNING", "has ended 1 times in a row, the last time with -9"),
        ({"ends": 1, "exit_code": 1, "running": False}, "TROUBLE", "has ended 1 times in a row, the last time with 1"),
        ({"ends": 7, "exit_code": 1, "running": True}, "TROUBLE", "has ended 7 times in a row, the last time with 1"),
        ({"ends": 0, "exit_code": 0, "running": False, "absent": True}, "TROUBLE", "no gateway is connected"),
    ],
)
async def test_a_gateway_process_that_ends_again_and_again_is_named(
    daemon: Daemon, process: dict[str, Any], level: str | None, text: str
) -> None:
    told = await operator_status(replace(daemon.observed, gateway=lambda: {"process": process}))
    rows = [(name, shown) for name, shown in status_rows(told) if "gateway: " in shown]
    assert [name for name, _ in rows] == ([level] if level else [])
    assert all(text in shown for _, shown in rows)


@pytest.mark.parametrize(("urgent", "level"), [(False, "WARNING"), (True, "TROUBLE")])
async def test_an_order_of_a_certificate_that_fails_is_named_with_the_remedy(
    daemon: Daemon, urgent: bool, level: str
) -> None:
    issuer = {
        "names": ["provider.example.com"],
        "problem": "the CA is away",
        "remedy": "wait",
        "failures": 2,
        "next_try_s": 120.0,
        "urgent": urgent,
    }
    told = await operator_status(replace(daemon.observed, gateway=lambda: {"issuer": issuer}))
    text = "the CA's certificate for provider.example.com is not issued: the CA is away: wait; the next try is in 120 s"
    assert (level, f"certificates: {text}") in list(status_rows(told))
    told = await operator_status(replace(daemon.observed, gateway=lambda: {"issuer": {**issuer, "problem": ""}}))
    assert not [shown for _, shown in status_rows(told) if "not issued" in shown]


async def test_a_certificate_of_days_is_no_warning_while_it_is_renewed_in_time(daemon: Daemon) -> None:
    end = CertificateEnd("the CA's certificate", 3 * 86400.0, "wait", soon=86400.0)
    told = await operator_status(replace(daemon.observed, certificates=lambda: [end]))
    assert not [shown for name, shown in status_rows(told) if "certificates: " in shown]


async def test_orders_of_the_last_hour_are_shown_by_the_check_that_they_failed(daemon: Daemon) -> None:
    world = daemon.world
    market = replace(world.market, rules=replace(world.market.rules, denoms=("uakt",)))
    for dseq in (21, 22, 23):
        await consider(market, make_order(dseq))
    told = await operator_status(replace(daemon.observed, market=market))
    assert told["market"]["declined"] == 3
    assert [text for name, text in status_rows(told) if name in ("orders", "declined")] == [
        "in the last hour 0 bids and 3 declined",
        "3 by denom, the last: the order pays in uact, this provider bids in uakt (LESSOR_BID_DENOMS)",
    ]


async def test_the_lease_that_is_in_trouble_longest_is_named_those_of_the_provider_first(daemon: Daemon) -> None:
    now = daemon.world.clock.now()
    ids = [LeaseId("akash1tenant", dseq, 1, 1, US) for dseq in (1, 2, 3, 4)]
    states = {
        ids[0]: LeaseStatus(ids[0], Phase.RUNNING, "", now - 9000),
        ids[1]: LeaseStatus(ids[1], Phase.DEGRADED, "the pod ends", now - 8000),
        ids[2]: LeaseStatus(ids[2], Phase.APPLYING, "connection lost", now - 700, attempts=4),
        ids[3]: LeaseStatus(ids[3], Phase.APPLYING, "connection lost", now - 50, attempts=2),
    }
    told = await operator_status(replace(daemon.observed, leases=lambda: states))
    (row,) = (text for name, text in status_rows(told) if name == "oldest")
    assert row == f"lease {ids[2]} is applying for 700 s: connection lost"
    assert told["level"] == "trouble"
    del states[ids[2]], states[ids[3]]
    told = await operator_status(replace(daemon.observed, leases=lambda: states, nodes=tuple))
    assert told["level"] == "ok", "a tenant's own trouble is none of the provider"


async def test_a_lease_that_waits_for_the_provider_longer_than_ten_minutes_is_a_warning(daemon: Daemon) -> None:
    """Its node is dead, or no address is free: no call fails, so that nothing else says it."""
    now, one, two = daemon.world.clock.now(), *(LeaseId("akash1tenant", dseq, 1, 1, US) for dseq in (1, 2))
    states = {
        one: LeaseStatus(one, Phase.DEGRADED, "the pod ends", now - 8000),
        two: LeaseStatus(two, Phase.DEGRADED, "node n1 does not report", now - 700, of_the_provider=True),
    }
    told = await operator_status(replace(daemon.observed, leases=lambda: states, nodes=tuple))
    assert told["level"] == "warning"
    assert [each["text"] for each in told["findings"]] == [
        f"lease {two} is degraded for 700 s: node n1 does not report"
    ]
    states[two] = replace(states[two], since=now - 500)
    told = await operator_status(replace(daemon.observed, leases=lambda: states, nodes=tuple))
    assert told["level"] == "ok", "a pod may take its time to be made"


async def test_a_full_disk_is_trouble_and_one_that_fills_up_a_warning(daemon: Daemon, tmp_path: Path) -> None:
    told = await operator_status(replace(daemon.observed, nodes=tuple, home=tmp_path))
    gib = 2**30
    disk = {"path": "/home", "size": 100 * gib, "free": 50 * gib, "free_files": 0.5}
    for free, files, level in ((50, 0.5, "ok"), (0.9, 0.5, "warning"), (0.1, 0.5, "trouble"), (50, 0.05, "warning")):
        found = with_findings(told | {"disk": disk | {"free": int(free * gib), "free_files": files}})
        assert found["level"] == level
    assert told["disk"]["size"] > told["disk"]["free"] > 0
    gone = await operator_status(replace(daemon.observed, home=tmp_path / "gone"))
    assert "No such file" in gone["disk"]["problem"] and gone["level"] == "trouble"


@pytest.mark.parametrize(
    ("change", "level", "subject"),
    [
        ({"chain": {"seconds_ago": None, "nodes": []}}, "warning", "chain"),
        ({"chain": {"seconds_ago": 121.0, "nodes": []}}, "trouble", "chain"),
        ({"cluster": {"problem": "401", "nodes": 1}}, "trouble", "cluster"),
        ({"cluster": {"problem": "", "nodes": 0}}, "trouble", "cluster"),
        ({"wallet": {"level": "stop", "problem": "empty"}}, "trouble", "money"),
        ({"wallet": {"level": "low", "problem": "low"}}, "warning", "money"),
        ({"funds_problem": "the wallet cannot be read: x"}, "warning", "money"),
        ({"bids": {"registered": True, "paused": "", "problem": "x", "lost": 0}}, "warning", "market"),
        ({"fees": {"problem": "disk I/O error"}}, "trouble", "store"),
        ({"fees": {"refused": "absurd gas"}}, "trouble", "money"),
        ({"fees": {"left": {"bids": 0, "closing": 5}}}, "warning", "money"),
        ({"fees": {"left": {"bids": 0, "closing": 0}}}, "trouble", "money"),
        ({"market": {"problem": "disk I/O error"}}, "trouble", "store"),
        ({"unmatched": ["GPU x is advertised and no node has it"]}, "warning", "market"),
        ({"overcommitted": {"n0": "5 pods"}}, "warning", "cluster"),
        ({"store": {"problem": "Read-only file system"}}, "trouble", "store"),
        ({"store": {"losses": ["the file is gone"]}}, "warning", "store"),
        ({"store": {"set_aside": ["/home/lessor.db.damaged-2", "/home/lessor.db.damaged-1"]}}, "warning", "store"),
        ({"braked": 3}, "trouble", "leases"),
        ({"suspects": 1}, "warning", "leases"),
        ({"unknown_stacks": 1}, "warning", "leases"),
        ({"bids": {"registered": False, "paused": "", "problem": "", "lost": 0}}, "trouble", "market"),
        ({"bids": {"registered": True, "paused": "a reason", "problem": "", "lost": 0}}, "trouble", "market"),
        ({"bids": {"registered": True, "paused": "", "problem": "", "lost": 2}}, "warning", "market"),
        ({"pricing": {"unpriced": 20, "failing": True, "problem": "x"}}, "trouble", "market"),
        ({"pricing": {"unpriced": 3, "failing": False, "problem": "x"}}, "ok", ""),
    ],
)
async def test_every_cause_of_concern_is_a_finding_of_its_level(
    daemon: Daemon, change: dict[str, object], level: str, subject: str
) -> None:
    well = await operator_status(replace(daemon.observed, nodes=tuple))
    assert (well["level"], well["findings"]) == ("ok", [])
    found = with_findings(well | change)
    assert found["level"] == level
    assert [each["subject"] for each in found["findings"]] == ([subject] if subject else [])


async def test_while_the_provider_is_drained_a_planned_outage_is_no_trouble(daemon: Daemon) -> None:
    well = await operator_status(replace(daemon.observed, nodes=tuple))
    bids = {"registered": True, "paused": "drained; `lessor undrain` ends it", "problem": "", "lost": 0}
    away = {"cluster": {"problem": "no answer", "nodes": 0}, "bids": bids, "maintenance": {"provider": {"since": 1.0}}}
    found = with_findings(well | away)
    assert [(each["level"], each["subject"]) for each in found["findings"]] == [
        ("warning", "maintenance"),
        ("warning", "cluster"),
        ("warning", "cluster"),
    ]
    nodes = with_findings(well | {"maintenance": {"nodes": {"n1": {"since": 1.0}}}})
    assert [each["text"] for each in nodes["findings"]] == ["node n1 is drained and takes no new lease"]


async def test_a_pause_with_a_cause_that_is_named_already_is_one_finding(daemon: Daemon) -> None:
    well = await operator_status(replace(daemon.observed, nodes=tuple))
    bids = {"registered": True, "paused": "the wallet is empty", "problem": "", "lost": 0}
    found = with_findings(well | {"bids": bids, "wallet": {"level": "stop", "problem": "the wallet is empty"}})
    assert [each["subject"] for each in found["findings"]] == ["money"]


async def test_c5_the_status_names_the_node_whose_pods_exceed_its_capacity(daemon: Daemon) -> None:
    pods = (ScheduledPod("x", "p", "n0", Capacity(4500, 0, 0, 1)),)
    market = replace(daemon.world.market, inventory=lambda: replace(make_inventory(), pods=pods))
    told = await operator_status(replace(daemon.observed, market=market))
    lines = [text for name, text in status_rows(told) if name == "capacity"]
    assert lines == ["node n0 lacks 500 milli-CPU for the pods on it: it has nothing free"]


@contextmanager
def answering(home: Path, **changes: object) -> Iterator[None]:
    """A daemon in a thread of its own, as the command is a process of its own."""
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        made = await make_daemon(database)
        task = asyncio.create_task(serve_status(replace(made.observed, **changes), status_socket(home)))  # type: ignore[arg-type]
        while not status_socket(home).exists():
            await asyncio.sleep(0.01)
        ready.set()
        await asyncio.to_thread(stop.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await database.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    return tmp_path


def status(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["status", *arguments])  # type: ignore[return-value]


def test_lessor_status_prints_the_status_line_by_line(home: Path) -> None:
    with answering(home):
        found, document = status(), json.loads(status("--json").output)
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "status    2 warnings",
        "WARNING   chain: node https://far.example: behind by 20 blocks",
        "WARNING   chain: node https://away.example: connection refused",
        "provider  akash1provider on sim-1",
        "blocks    height 501, 3 s ago",
        "node      http://127.0.0.1:26657: in use, height 500, 1 blocks behind this provider",
        "node      https://far.example: height 480, catching up, 21 blocks behind this provider, has blocks from 300 "
        "on, behind by 20 blocks",
        "node      https://away.example: connection refused",
        "node      https://next.example: not asked yet",
        "cluster   https://api: answered 4 s ago, 1 nodes take tenants",
        "free      2768 of 2768 node ports",
        "bids      1 open, 0 under way",
        "orders    in the last hour 0 bids and 0 declined",
        "leases    1 failed, 2 running",
        "oldest    lease akash1tenant/10/1/1/akash1provider is failed for 0 s",
        "wallet    7uact, 5uakt: enough",
        "fees      3000uakt in the last 24 hours of 10000uakt; left: 4000 for bids, 6000 for withdrawals, "
        "7000 for closing",
    ]
    assert (document["ok"], document["provider"]) == (True, US)


def test_lessor_status_prints_problems_and_none_controls_the_terminal(home: Path) -> None:
    stopped = Wallet({}, WalletLevel.STOP, "the wallet has 0uakt: no more bids until it is topped up")
    evil = (replace(NODES[2], problem="\x1b[31mred"),)
    changes = {"budget": lambda: 0, "granter": "akash1granter", "wallet": lambda: stopped, "braked": lambda: 2}
    with answering(home, nodes=lambda: evil, leases=dict, **changes):
        found = status()
    output = found.output
    assert found.exit_code == 2
    assert "\x1b" not in output
    for words in (
        "fees      3000uakt in the last 24 hours, no budget (LESSOR_FEE_BUDGET)",
        "fees      paid by akash1granter",
        "status    2 trouble, 1 warning",
        "TROUBLE   money: the wallet has 0uakt: no more bids until it is topped up",
        "wallet    nothing: the wallet has 0uakt: no more bids until it is topped up",
        "leases    none",
        "brake     2 leases are held: `lessor lease release-brake` deletes them",
    ):
        assert words in output


@pytest.mark.usefixtures("home")
def test_without_a_provider_lessor_status_prints_one_line() -> None:
    found = status()
    assert found.exit_code == UNAVAILABLE
    assert "start `lessor run` with this AP_HOME" in found.output
    assert "Traceback" not in found.output


async def test_the_status_says_why_nothing_is_signed(daemon: Daemon) -> None:
    problem = "the node asks 999999999999 gas: nothing is signed"
    told = await operator_status(replace(daemon.observed, fee_problem=lambda: problem))
    assert told["fees"]["refused"] == problem
