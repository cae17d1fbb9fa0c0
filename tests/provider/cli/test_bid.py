"""`lessor bid` beside a store and a running provider."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lease.exit_codes import FINDING, TROUBLE, UNAVAILABLE, USAGE
from lease.ids import OrderId
from provider.cli import build_app
from provider.market.bidding import consider
from provider.market.question_socket import market_socket, serve_questions
from provider.market.screening import Screening
from provider.store import open_database
from tests.provider.market.world import make_order, make_spec, make_world

SDL = """
version: "2.0"
services:
  web:
    image: nginx
    expose: [{port: 80, as: 80, to: [{global: true}]}]
profiles:
  compute:
    web: {resources: {cpu: {units: 1}, memory: {size: 128Mi}, storage: {size: 512Mi}}}
  placement:
    here: {pricing: {web: {denom: uact, amount: 5}}}
deployment: {web: {here: {profile: web, count: 1}}}
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), ["bid", *arguments])
    return result.exit_code, result.output


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def decided(home: Path) -> Path:
    async def fill() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        world = make_world(database)
        for order in (make_order(7), make_order(8, cpu=9000, price="1"), make_order(8, oseq=2)):
            world.chain.orders[order.id] = order
            await consider(world.market, order)
        evil = replace(
            make_order(9), id=OrderId("akash1tenant", 9, 1, 1), spec=replace(make_spec(), name="\x1b[31mred")
        )
        await consider(world.market, evil)
        await database.close()

    asyncio.run(fill())
    return home


@pytest.mark.usefixtures("decided")
def test_decisions_are_listed_the_newest_first_and_by_verdict() -> None:
    code, text = run("list")
    assert code == 0
    head, *lines = text.splitlines()
    assert head.split() == ["TIME", "ORDER", "DECISION"]
    assert len(lines) == 4
    assert "akash1tenant/7/1/1  bid 10uact: sent " in lines[-1]
    assert "akash1tenant/8/1/1  declined: unit 1: 0 of 1 replicas fit on 1 nodes" in text
    assert "(and 1 more)" in text
    assert len(run("list", "--declined")[1].splitlines()) == 2
    assert len(run("list", "--bids", "--limit", "1")[1].splitlines()) == 2
    assert json.loads(run("list", "--json")[1])[-1]["price"] == "10uact"
    assert run("list", "--owner", "akash1nobody") == (0, "no decisions are kept\n")
    assert run("list", "--bids", "--declined")[0] == USAGE


@pytest.mark.usefixtures("decided")
def test_a_past_decision_is_explained_check_by_check_line_by_line_node_by_node() -> None:
    code, text = run("explain", "akash1tenant/8/1/1")
    assert code == 0
    for words in (
        "no bid; the order's maximum is 1uact per block",
        "NO  capacity",
        "ok  attributes",
        "the bid price 90uact is above the order's maximum 1uact",
        "90  9000 milli-CPU × 0.01",
        "0 of 1 nodes take one replica of every unit",
        "n0: unit 1: cpu: ",
    ):
        assert words in text
    code, text = run("explain", "7")
    assert code == 0
    assert "bid 10uact per block" in text
    assert "unit 1 on n0" in text
    assert "became: sent " in text
    assert len(json.loads(run("explain", "8", "--json")[1])) == 2
    assert len(json.loads(run("explain", "8/1/2", "--json")[1])) == 1
    assert all(one["same_verdict"] for one in json.loads(run("explain", "akash1tenant/8", "--json")[1]))


def test_a_decline_with_the_text_of_an_older_version_shows_that_text_and_the_same_verdict(decided: Path) -> None:
    with sqlite3.connect(decided / "lessor.db") as database:
        database.execute("UPDATE decisions SET reasons = ? WHERE verdict = 'declined'", ('["too dear by far"]',))
    code, text = run("explain", "akash1tenant/8/1/1")
    assert (code, "decides otherwise" in text) == (0, False)
    assert "recorded reason: too dear by far" in text
    assert "recorded reason" not in run("explain", "7")[1]


@pytest.mark.usefixtures("decided")
def test_what_a_tenant_wrote_does_not_steer_the_terminal() -> None:
    code, text = run("explain", "9")
    assert code == 0
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["explain", "77"], TROUBLE, "no decision about 77 is kept"),
        (["explain", "akash1tenant/7/9/1"], TROUBLE, "no decision about"),
        (["explain", "not an order"], USAGE, "is no order"),
        (["explain", "1/2/3/4/5/6"], USAGE, "is no order"),
        (["explain"], USAGE, "name an order, or --sdl"),
        (["explain", "7", "--price", "1uact"], USAGE, "name an order, or --sdl"),
    ],
)
@pytest.mark.usefixtures("decided")
def test_what_cannot_be_told_is_a_line_and_a_code(arguments: list[str], code: int, words: str) -> None:
    assert run(*arguments)[0] == code
    assert words in run(*arguments)[1]


def test_without_a_store_or_a_provider_it_says_so(home: Path) -> None:
    code, text = run("list")
    assert code == TROUBLE
    assert "there is no database" in text
    (home / "web.yaml").write_text(SDL)
    code, text = run("explain", "--sdl", str(home / "web.yaml"))
    assert code == UNAVAILABLE
    assert "no provider answers" in text
    (home / "bad.yaml").write_text("version: [")
    assert run("explain", "--sdl", str(home / "bad.yaml"))[0] == FINDING
    assert run("explain", "--sdl", str(home / "none.yaml"))[0] == TROUBLE
    code, text = run("explain", "--sdl", str(home / "web.yaml"), "--price", "much")
    assert (code, "--price 'much'" in text) == (USAGE, True)


@pytest.fixture
def provider_running(home: Path) -> Iterator[Path]:
    """The market's socket in a thread of its own, as a daemon's."""
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        task = asyncio.ensure_future(serve_questions(Screening(make_world(database).market), market_socket(home)))
        while not market_socket(home).exists():
            await asyncio.sleep(0.01)
        started.set()
        await asyncio.to_thread(stop.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await database.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(60)
    yield home
    stop.set()
    thread.join(60)


def test_what_if_an_sdl_were_an_order_now(provider_running: Path) -> None:
    (provider_running / "web.yaml").write_text(SDL)
    file = str(provider_running / "web.yaml")
    code, text = run("explain", "--sdl", file)
    assert code == 0
    assert "group here" in text
    assert "the bid price 10uact is above the order's maximum 5uact" in text
    assert "bid 10uact per block" in run("explain", "--sdl", file, "--price", "12uact")[1]
    assert "bid 10uact per block" in run("explain", "--sdl", file, "--price", "12.5")[1]
    owner = f"akash1{'q' * 38}"
    told = json.loads(run("explain", "--sdl", file, "--price", "12uact", "--owner", owner, "--json")[1])
    assert [one["verdict"] for one in told] == ["bid"]
    assert told[0]["lines"][0] == {"what": "milli-CPU", "quantity": "1000", "each": "0.01", "amount": "10"}
