"""The dashboard: who may read it, what its pages show, what hostile texts do there."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography.fernet import Fernet
from typer.testing import CliRunner

from lease.exit_codes import UNAVAILABLE
from lease.ids import LeaseId, namespace_name
from lease.spec import HostnameSpec
from policies.book import RuleBook
from provider.bus import MemoryBus
from provider.claims.hostnames import host_object
from provider.cli import build_app
from provider.dashboard.access import cookie_name, link_file, token_of
from provider.dashboard.pages import duration, size, visible
from provider.dashboard.server import dashboard_app, serve_dashboard
from provider.dashboard.views import Sources
from provider.errors import ClusterError, SettingsError
from provider.lifecycle.state import LEASE_STATE, LeaseStatus, Phase
from provider.market.bidding import consider
from provider.observe.operator_status import operator_status
from provider.records.accepted import AcceptedManifest
from provider.runs.log import RunOutcome, RunReason, StoredRun, begin_run, end_run
from provider.runs.versions import save_version
from provider.store import Database, open_database
from provider.store.claims import Claim, ClaimKind, note_claims
from provider.store.leases import save_status
from provider.store.manifests import save_manifest
from provider.store.money import Earned, LeaseMoney, save_money
from provider.store.sealing import KeyRing
from stacks.common import Operation, StackResult
from stacks.common.results import PropertyChange, ResourceChange
from tests.components.specs import everything
from tests.provider.market.world import US, World, make_order
from tests.provider.observe.test_operator_status import make_daemon
from tests.world.cluster import FakeCluster
from tests.world.patience import PATIENCE_S

TOKEN = "t" * 32
LEASE = LeaseId("akash1tenant", 8, 1, 1, US)
EVIL = "<script>alert(1)</script>\x1b[2J\u202egpj"
PAGES = ("/", "/leases", "/leases?closed=1", f"/leases/{namespace_name(LEASE)}", "/orders", "/orders/1", "/inventory",
         "/addresses", "/money", "/policies")  # fmt: skip


@dataclass
class Dashboard:
    world: World
    database: Database
    cluster: FakeCluster
    bus: MemoryBus
    sources: Sources
    address: str = ""

    def client(self, *, token: str = TOKEN) -> aiohttp.ClientSession:
        jar = aiohttp.CookieJar(unsafe=True)
        session = aiohttp.ClientSession(self.address, cookie_jar=jar, timeout=aiohttp.ClientTimeout(PATIENCE_S))
        if token:
            session.headers["Cookie"] = f"{cookie_name(TOKEN)}={token}"
        return session

    async def text(self, path: str, *, status: int = 200) -> str:
        async with self.client() as client, client.get(path) as answer:
            assert answer.status == status
            return await answer.text()


@pytest.fixture
async def dashboard(tmp_path: Path) -> AsyncIterator[Dashboard]:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    daemon = await make_daemon(database)
    market, cluster, bus = daemon.world.market, FakeCluster(), MemoryBus()
    ring = KeyRing.of([Fernet.generate_key().decode()])
    sources = Sources(
        status=lambda: operator_status(daemon.observed),
        inventory=market.inventory,
        free=lambda: market.ledger.free(market.inventory()),
        stale=lambda: "",
        policies=RuleBook(),
        database=database,
        ring=ring,
        cluster=cluster,  # type: ignore[arg-type]
        records="lease",
        bus=bus,
        clock=market.clock,
    )
    await _fill(daemon.world, database, ring)
    found = Dashboard(daemon.world, database, cluster, bus, sources)
    async with _running(found):
        yield found
    await database.close()


async def _fill(world: World, database: Database, ring: KeyRing) -> None:
    """A lease with a run, an order that was declined, and money; texts of the tenant and of the cluster are hostile."""
    now = world.clock.now()
    await save_status(database, LeaseStatus(LEASE, Phase.DEGRADED, f"service web: {EVIL}", now - 90_061))
    run = StoredRun(namespace_name(LEASE), Operation.UP, now - 50, RunReason.MANIFEST_UPDATE, "s", "m")
    change = ResourceChange(
        "update", "kubernetes:apps/v1:Deployment", "web", diff=("spec",),
        properties=(PropertyChange("spec.replicas", old="1", new=EVIL),),
    )  # fmt: skip
    result = StackResult(Operation.UP, run.stack, ok=False, seconds=2.5, changes=(change,), error=EVIL)
    await save_manifest(database, AcceptedManifest(LEASE, now, "v" * 64, "m" * 64, size=65536, services=3))
    claims = (Claim(ClaimKind.HOSTNAME, "app.example.com", "", LEASE, "web:80"),
              Claim(ClaimKind.ADDRESS, "203.0.113.7", "53/UDP", LEASE, "dns:53"))  # fmt: skip
    await note_claims(database, [(claim, now) for claim in claims], [])
    number = await begin_run(database, run)
    failed = replace(run, id=number, ended_at=now - 47, outcome=RunOutcome.FAILED, error=EVIL, result=result)
    await end_run(database, ring, failed)
    await consider(world.market, make_order(cpu=8_000))
    day = datetime.fromtimestamp(now, UTC).date()
    money = LeaseMoney(LEASE, "uact", Decimal(2_500_000), now, now, rate=Decimal(10), unpaid=Decimal(500_000))
    await save_money(database, [money], [Earned(day, LEASE, "uact", Decimal(2_500_000))])


@asynccontextmanager
async def _running(found: Dashboard) -> AsyncIterator[None]:
    runner = web.AppRunner(dashboard_app(found.sources, token=TOKEN, host="127.0.0.1"), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        await runner.cleanup()


class Shape(HTMLParser):
    """Elements that must be closed and are, headings, ids and scripts of a page."""

    VOID = frozenset({"meta", "link", "br", "line"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.inline += [name for name in values if name.startswith("on") or name == "style"]
        if tag == "script" and "src" not in values:
            self.inline.append("script")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> inside {self.open[-3:]}"
        self.open.pop()


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_whole_accessible_and_without_inline_code(dashboard: Dashboard, path: str) -> None:
    text = await dashboard.text(path)
    shape = Shape(text)
    assert not shape.open and not shape.inline
    assert shape.tags.count("h1") == shape.tags.count("main") == shape.tags.count("nav") == 1
    assert len(shape.ids) == len(set(shape.ids)) and 'lang="en"' in text
    assert text.count('aria-current="page"') == 1
    assert "<script>" not in text and "\x1b" not in text and "\u202e" not in text


async def test_a_hostile_text_is_shown_as_what_it_is(dashboard: Dashboard) -> None:
    text = await dashboard.text(f"/leases/{namespace_name(LEASE)}")
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J\\u202egpj") == 4, "reason, error, diff and state"


async def test_pages_show_state_decision_and_money(dashboard: Dashboard) -> None:
    leases = await dashboard.text("/leases")
    assert "degraded" in leases and "1 d 1 h" in leases
    lease = await dashboard.text(f"/leases/{namespace_name(LEASE)}")
    assert "spec.replicas: 1 →" in lease and "manifest" in lease and "in 3.0 s" in lease
    assert "<code>vvvvvvvvvvvv</code>" in lease and ">65536<" in lease
    assert "app.example.com" in lease and "203.0.113.7" in lease and ">53/UDP<" in lease and ">held<" in lease
    order = await dashboard.text("/orders/1")
    assert "capacity" in order and "failed" in order
    inventory = await dashboard.text("/inventory")
    assert "4.0 of 4.0" in inventory
    money = await dashboard.text("/money")
    assert "2.5 ACT" in money and "0.5 ACT" in money and "<svg" in money
    now = await dashboard.text("/")
    assert "501" in now and "connection refused" in now


async def test_the_objects_of_the_newest_version_are_shown_by_service(dashboard: Dashboard) -> None:
    assert dashboard.sources.ring is not None
    spec = everything().model_copy(update={"lease": LEASE})
    await save_version(dashboard.database, dashboard.sources.ring, spec, manifest_hash="m", now=0.0)
    text = await dashboard.text(f"/leases/{namespace_name(LEASE)}")
    for item in ("the lease itself", "Namespace", "service web", "Deployment web", "Service web"):
        assert item in text


async def test_addresses_come_from_the_cluster_and_its_silence_is_shown(dashboard: Dashboard) -> None:
    host = HostnameSpec.model_construct(hostname="shop.example", service="web", external_port=80)  # type: ignore[call-arg]
    await dashboard.cluster.apply(host_object(LEASE, host, namespace="lease"))
    text = await dashboard.text("/addresses")
    assert "shop.example" in text and "web:80" in text and "8/1/1 of akash1tenant" in text

    def away(operation: str, kind: str, name: str) -> None:
        raise ClusterError("https://fake", f"away {EVIL}")

    dashboard.cluster.before = away
    text = await dashboard.text("/addresses")
    assert "away &lt;script&gt;" in text and "No lease has a hostname" in text


async def test_what_is_not_there_is_a_page_with_the_reason(dashboard: Dashboard) -> None:
    assert "there is no lease" in await dashboard.text("/leases/nothing-here", status=404)
    assert "there is no decision" in await dashboard.text("/orders/999999999999999999", status=404)
    for path in ("/orders/" + "9" * 40, "/leases/..%2f..%2fetc", "/static/../access.py", "/static/base.html", "/x"):
        await dashboard.text(path, status=404)


async def test_only_the_token_opens_it_and_the_link_sets_a_strict_cookie(dashboard: Dashboard) -> None:
    for token in ("", "wrong", TOKEN[:-1], "é" * 32):
        async with dashboard.client(token=token) as client:
            for path in (*PAGES, "/events", "/static/live.js"):
                async with client.get(path) as answer:
                    assert answer.status == 401, "the styles too: nothing tells strangers what runs here"
    async with dashboard.client(token="") as client:
        async with client.get(f"/?token={TOKEN}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        async with client.get("/") as answer:
            assert answer.status == 200, "the cookie is enough from then on"


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"Host": "evil.example"}, "GET", 421),
        ({"Host": "evil.example:80@127.0.0.1"}, "GET", 200),
        ({"Host": ""}, "GET", 421),
        ({"Host": "127.0.0.1/evil"}, "GET", 421),
        ({"Host": "192.0.2.1"}, "GET", 421),
        ({"Host": "localhost:1"}, "GET", 200),
        ({"Origin": "http://evil.example"}, "GET", 403),
        ({"Origin": "null"}, "GET", 403),
        ({}, "POST", 405),
        ({}, "DELETE", 405),
        ({}, "HEAD", 200),
    ],
)
async def test_other_names_other_sites_and_other_methods_are_refused(
    dashboard: Dashboard, headers: dict[str, str], method: str, status: int
) -> None:
    async with dashboard.client() as client, client.request(method, "/policies", headers=headers) as answer:
        assert answer.status == status
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]


async def test_a_change_of_a_lease_reaches_an_open_page(dashboard: Dashboard) -> None:
    async with dashboard.client() as client, client.get("/events") as answer:
        assert answer.content_type == "text/event-stream"
        assert await answer.content.readline() == b"retry: 3000\n"
        await answer.content.readline()
        dashboard.bus.publish(LEASE_STATE, LeaseStatus(LEASE, Phase.RUNNING, "", 0.0))
        assert await answer.content.readline() == b"event: changed\n"


async def test_open_pages_are_bounded_and_a_closed_one_frees_its_place(dashboard: Dashboard) -> None:
    async with dashboard.client() as client:
        streams = [await client.get("/events") for _ in range(16)]
        async with client.get("/events") as answer:
            assert answer.status == 503
        for stream in streams:
            stream.close()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                dashboard.bus.publish(LEASE_STATE, LeaseStatus(LEASE, Phase.RUNNING, "", 0.0))
                async with client.get("/events") as answer:
                    if answer.status == 200:
                        break


async def test_of_many_leases_those_in_trouble_are_shown_and_the_rest_is_counted(dashboard: Dashboard) -> None:
    for dseq in range(1000, 1501):
        await save_status(dashboard.database, LeaseStatus(replace(LEASE, dseq=dseq), Phase.RUNNING, "", 0.0))
    text = await dashboard.text("/leases")
    assert text.count("<tr>") == 501 and "the 500 first of 502" in text
    assert text.index("degraded") < text.index("running")


@asynccontextmanager
async def served(dashboard: Dashboard, home: Path, listen: str = "127.0.0.1:0") -> AsyncIterator[str]:
    task = asyncio.create_task(serve_dashboard(dashboard.sources, listen=listen, home=home))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (link_file(home).exists() and link_file(home).read_text().endswith("\n")):
                await asyncio.sleep(0)
        yield link_file(home).read_text().strip()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_link_is_in_the_home_for_its_user_only_and_goes_with_the_provider(
    dashboard: Dashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    app = build_app()
    async with served(dashboard, tmp_path) as link:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", link)
        for path in (link_file(tmp_path), tmp_path / "dashboard.token"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        printed = await asyncio.to_thread(CliRunner().invoke, app, ["dashboard"])
        assert printed.stdout.strip() == link
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
            client.get(link) as answer,
        ):
            assert answer.status == 200
    gone = await asyncio.to_thread(CliRunner().invoke, app, ["dashboard"])
    assert gone.exit_code == UNAVAILABLE and "start `lessor run`" in gone.output
    async with served(dashboard, tmp_path) as again:
        assert again.partition("token=")[2] == link.partition("token=")[2], "bookmarks stay good"


async def test_a_port_that_is_taken_is_replaced(dashboard: Dashboard, tmp_path: Path) -> None:
    (other := tmp_path / "other").mkdir()
    async with served(dashboard, tmp_path) as link:
        taken = re.findall(r"127\.0\.0\.1:\d+", link)[0]
        async with served(dashboard, other, taken) as second:
            assert taken not in second


def test_a_token_that_cannot_be_read_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "dashboard.token").mkdir()
    with pytest.raises(SettingsError, match="remove the file"):
        token_of(tmp_path)


def test_texts_sizes_and_times() -> None:
    assert visible("a\tb\u0085\ud800") == "a\tb\\x85\\ud800"
    assert (size(1536), size(0), size(2**80)) == ("1.5 KiB", "0 B", "1073741824 PiB")
    assert (duration(0.4), duration(None), duration(93_784)) == ("0 s", "", "1 d 2 h")
