"""`lessor earnings` over a store as a provider leaves it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from lease.ids import LeaseId
from provider.cli import earnings as command
from provider.store import open_database
from provider.store.money import Earned, LeaseMoney, save_money

TODAY = datetime.now(UTC).date()
A, B = LeaseId("akash1owner", 7, 1, 1, "akash1us"), LeaseId("akash1owner", 8, 1, 1, "akash1us")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    return tmp_path


def lessor(*arguments: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(arguments))


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
        await database.close()

    asyncio.run(work())


def test_a_line_a_day_and_the_sum_of_each_denom(home: Path) -> None:
    fill(home)
    found = lessor()
    assert found.exit_code == 0
    assert [line.split() for line in found.output.splitlines()] == [
        [(TODAY - timedelta(days=1)).isoformat(), "1.500000", "ACT"],
        [TODAY.isoformat(), "12", "ibc/12C6"],
        [TODAY.isoformat(), "1.000000", "ACT"],
        ["in", "all", "12", "ibc/12C6"],
        ["in", "all", "2.500001", "ACT"],
    ]


def test_a_line_a_lease_over_more_days(home: Path) -> None:
    fill(home)
    lines = lessor("--by", "lease", "--days", "60").output.splitlines()
    assert lines[0].split() == [str(A), "2.500100", "ACT"]


def test_json_has_exact_micro_units(home: Path) -> None:
    fill(home)
    found = json.loads(lessor("--json", "--days", "1").output)
    assert {(item["lease"], item["amount"]) for item in found} == {(str(A), "1000000.25"), (str(B), "12")}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--days", "0"), 2), (("--days", "x"), 2), (("--by", "owner"), 2), ((), 1)],
)
def test_what_cannot_be_answered_is_one_line_and_an_exit_code(
    home: Path, arguments: tuple[str, ...], code: int
) -> None:
    found = lessor(*arguments)
    assert found.exit_code == code
    assert "Traceback" not in found.output
