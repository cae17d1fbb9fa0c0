"""`lessor earnings` over a store as a provider leaves it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lease.exit_codes import TROUBLE, USAGE
from lease.ids import LeaseId
from provider.chain.tx.journal import Fate, SentTx
from provider.cli import build_app
from provider.cli.earnings import By, print_earnings
from provider.cli.output import Output
from provider.store import open_database
from provider.store.money import Earned, LeaseMoney, save_money
from provider.store.transactions import StoredJournal

TODAY = date(2026, 11, 28)
"""The day of the printed earnings, whenever the tests run."""
NOON = datetime.combine(TODAY, time(12), UTC).timestamp()
A, B = LeaseId("akash1owner", 7, 1, 1, "akash1us"), LeaseId("akash1owner", 8, 1, 1, "akash1us")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    return tmp_path


def lessor(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["earnings", *arguments])  # type: ignore[return-value]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns what the command prints at noon of the day."""

    def printing(**how: Any) -> str:
        capsys.readouterr()
        print_earnings(datetime.fromtimestamp(NOON, UTC), **how)
        return capsys.readouterr().out

    return printing


def sent(number: int, days_ago: float, fee: int, denom: str = "uakt") -> SentTx:
    return SentTx(f"HASH{number}", "sim-1/akash1us", (), (), fee, denom, 100, NOON - days_ago * 86400)


async def pay(journal: StoredJournal) -> None:
    """What is older than a week is dropped when the next transaction is written down."""
    fates = [(41, Fate.DONE), (20, Fate.DONE), (20, Fate.FAILED), (20, Fate.LAPSED), (20, Fate.SENT), (1, Fate.DONE)]
    for number, (days_ago, fate) in enumerate(fates):
        await journal.begin(sent(number, days_ago, 2500))
        if fate is not Fate.SENT:
            await journal.end(f"HASH{number}", fate, height=9)
    await journal.begin(sent(98, 0, 300_000, "uact"))
    await journal.begin(sent(99, 0, 2500))
    await journal.end("HASH99", Fate.REFUSED)


def fill(home: Path) -> None:
    async def work() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        rows = [LeaseMoney(item, "uact", Decimal(0), 0.0, 0.0) for item in (A, B)]
        shares = [
            Earned(TODAY - timedelta(days=40), A, "uact", Decimal(99)),
            Earned(TODAY - timedelta(days=1), A, "uact", Decimal("1500000.75")),
            Earned(TODAY, A, "uact", Decimal("0.25")),
            Earned(TODAY, B, "ibc/12C6", Decimal(12)),
        ]
        await save_money(database, rows, shares)
        await save_money(database, rows, [Earned(TODAY, A, "uact", Decimal(1_000_000))])
        await pay(StoredJournal(database))
        await database.close()

    asyncio.run(work())


def test_a_line_a_day_and_the_sum_of_each_denom_with_what_fees_left_of_it(
    home: Path, printed: Callable[..., str]
) -> None:
    fill(home)
    found = printed()
    yesterday, long_ago = ((TODAY - timedelta(days=days)).isoformat() for days in (1, 20))
    assert [line.split() for line in found.splitlines()[:-1]] == [
        ["earned", "fees", "left"],
        [long_ago, "0.000000", "0.007500", "-0.007500", "AKT"],
        [yesterday, "1.500000", "0.000000", "1.500000", "ACT"],
        [yesterday, "0.000000", "0.002500", "-0.002500", "AKT"],
        [TODAY.isoformat(), "12", "0", "12", "ibc/12C6"],
        [TODAY.isoformat(), "1.000000", "0.300000", "0.700000", "ACT"],
        ["in", "all", "12", "0", "12", "ibc/12C6"],
        ["in", "all", "2.500001", "0.300000", "2.200001", "ACT"],
        ["in", "all", "0.000000", "0.010000", "-0.010000", "AKT"],
    ]


def test_fees_stay_by_day_when_their_transactions_are_dropped(home: Path) -> None:
    """Those whose fate is not known stay themselves; what was in no block cost nothing."""
    fill(home)
    with closing(sqlite3.connect(home / "lessor.db")) as database:
        kept = database.execute("SELECT hash FROM transactions ORDER BY hash").fetchall()
        days = database.execute("SELECT day, denom, amount FROM fees ORDER BY day").fetchall()
    assert [hash_ for (hash_,) in kept] == ["HASH4", "HASH5", "HASH98", "HASH99"]
    early, late = ((TODAY - timedelta(days=ago)).isoformat() for ago in (41, 20))
    assert days == [(early, "uakt", "2500"), (late, "uakt", "5000")]


def test_fees_without_earnings_are_told_too(home: Path, printed: Callable[..., str]) -> None:
    async def work() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        await StoredJournal(database).begin(sent(1, 0, 2500))
        await database.close()

    asyncio.run(work())
    lines = printed(by=By.LEASE).splitlines()
    assert lines[1].split() == ["in", "all", "0.000000", "0.002500", "-0.002500", "AKT"]


def test_a_line_a_lease_over_more_days(home: Path, printed: Callable[..., str]) -> None:
    fill(home)
    lines = printed(by=By.LEASE, days=60).splitlines()
    assert lines[1].split() == [str(A), "2.500100", "ACT"]
    assert lines[-5].split() == ["in", "all", "0.000000", "0.012500", "-0.012500", "AKT"]


def test_each_living_lease_says_its_rate_and_what_is_withdrawn_and_owed(
    home: Path, printed: Callable[..., str]
) -> None:
    async def work() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        rate, unpaid = Decimal("12.5"), Decimal("500000.5")
        rows = [
            LeaseMoney(A, "uact", Decimal("1500000.75"), NOON, 0.0, rate=rate, unpaid=unpaid),
            LeaseMoney(B, "uact", Decimal(5), NOON, 0.0),
        ]
        await save_money(database, rows, [Earned(TODAY, A, "uact", Decimal(5))])
        await database.close()

    asyncio.run(work())
    lines = [line.split() for line in printed(by=By.LEASE).splitlines()]
    assert ["a", "block", "withdrawn", "owed"] in lines
    assert [str(A), "0.0000125", "1.000000", "0.500000", "ACT"] in lines
    assert [str(B), *["not", "read", "yet"] * 3, "ACT"] in lines
    assert json.loads(printed(output=Output.JSON))["leases"] == [
        {
            "lease": str(A),
            "denom": "uact",
            "rate": "12.5",
            "earned": "1500000.75",
            "withdrawn": "1000000.25",
            "owed": "500000.5",
        },
        {"lease": str(B), "denom": "uact", "rate": None, "earned": "5", "withdrawn": None, "owed": None},
    ]
    assert "withdrawn" not in printed()


def test_the_figures_say_how_old_they_are(home: Path, printed: Callable[..., str]) -> None:
    """The oldest reading of a living lease; one that ended is read no more."""

    async def work(ended: bool) -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        now = NOON
        rows = [
            LeaseMoney(A, "uact", Decimal(5), now - 7 * 60, 0.0, ended),
            LeaseMoney(B, "uact", Decimal(5), now - 86400, 0.0, ended=True),
        ]
        await save_money(database, rows, [Earned(TODAY, A, "uact", Decimal(5))])
        await database.close()

    asyncio.run(work(ended=False))
    last = printed().splitlines()[-1]
    assert last.startswith("earnings as of 20") and last.endswith("Z, 7 minutes ago")
    assert json.loads(printed(output=Output.JSON))["read_at"] in last
    asyncio.run(work(ended=True))
    assert "as of" not in printed() and json.loads(printed(output=Output.JSON))["read_at"] is None


def test_json_has_exact_micro_units(home: Path, printed: Callable[..., str]) -> None:
    fill(home)
    found = json.loads(printed(output=Output.JSON, days=1))
    assert {(item["lease"], item["amount"]) for item in found["earned"]} == {(str(A), "1000000.25"), (str(B), "12")}
    assert found["fees"] == [{"day": TODAY.isoformat(), "denom": "uact", "amount": "300000"}]


def test_the_command_prints_the_earnings_until_today(home: Path) -> None:
    async def work() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        row = LeaseMoney(A, "uact", Decimal(0), 0.0, 0.0)
        await save_money(database, [row], [Earned(datetime.now(UTC).date(), A, "uact", Decimal(5_000_000))])
        await database.close()

    asyncio.run(work())
    found = lessor("--days", "2", "--by", "lease", "--json")
    assert found.exit_code == 0 and json.loads(found.output)["earned"][0]["amount"] == "5000000"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--days", "0"), USAGE), (("--days", "x"), USAGE), (("--by", "owner"), USAGE), ((), TROUBLE)],
)
def test_what_cannot_be_answered_is_one_line_and_an_exit_code(
    home: Path, arguments: tuple[str, ...], code: int
) -> None:
    found = lessor(*arguments)
    assert found.exit_code == code
    assert "Traceback" not in found.output
