"""Words of `lessor lease` to a running provider."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lease.exit_codes import TROUBLE, UNAVAILABLE
from lease.ids import LeaseId
from provider.cli import build_app
from provider.lifecycle.control import control_path, serve_control
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store import open_database
from provider.store.leases import save_status
from provider.volumes.restore import RestoreRequest

OWNER, PROVIDER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
LEASE = LeaseId(OWNER, 1001, 1, 1, PROVIDER)


class Operated:
    """A lease loop that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.suspects: Mapping[LeaseId, str] = {LEASE: "the node does not know it\x1b[2J"}
        self.braked = frozenset({LEASE})
        self.unknown_stacks = ("abc",)
        self.quarantined: list[dict[str, Any]] = []

    def release_brake(self) -> tuple[LeaseId, ...]:
        self.told.append("release")
        return (LEASE,)

    def close(self, lease: LeaseId) -> str:
        self.told.append(f"close {lease.dseq}")
        return ""

    async def recreate(self, lease: LeaseId) -> str:
        self.told.append(f"recreate {lease.dseq}")
        return ""

    async def retry(self, lease: LeaseId) -> str:
        return "nothing was refused"

    async def write_directives(self) -> bool:
        return True

    async def restore(self, request: RestoreRequest) -> str:
        raise NotImplementedError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))

    async def fill() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
        await save_status(database, LeaseStatus(LEASE, Phase.RUNNING, "", 50.0))
        await database.close()

    asyncio.run(fill())
    return tmp_path


@pytest.fixture
def provider(home: Path) -> Iterator[Operated]:
    """A provider that listens in another thread, as it would in another process."""
    operated, loop = Operated(), asyncio.new_event_loop()
    task = loop.create_task(serve_control(operated, control_path(home)))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    while not control_path(home).exists():
        thread.join(0.01)
    yield operated
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    loop.close()


@pytest.fixture
def lessor() -> Callable[..., Result]:
    def run(*arguments: str, answer: str = "") -> Result:
        return CliRunner().invoke(build_app(), ["lease", *arguments], input=answer)

    return run


def test_what_waits_for_a_word_is_listed(provider: Operated, lessor: Callable[..., Result]) -> None:
    text = lessor("list", "--suspect")
    assert text.exit_code == 0
    assert all(word in text.output for word in ("looks closed", "brake", "stack", "does not know it"))
    assert "\x1b" not in text.output
    assert json.loads(lessor("list", "--suspect", "--json").output)["unknown_stacks"] == ["abc"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("close", "1001"), "close 1001"), (("forget", "1001"), "close 1001"), (("recreate", "1001"), "recreate 1001"),
     (("release-brake",), "release")],
)  # fmt: skip
def test_what_removes_or_replaces_asks_first(
    provider: Operated, lessor: Callable[..., Result], arguments: tuple[str, ...], told: str
) -> None:
    assert lessor(*arguments, answer="n\n").exit_code == TROUBLE
    assert provider.told == []
    assert lessor(*arguments, answer="y\n").exit_code == 0
    assert lessor(*arguments, "--yes").exit_code == 0
    assert provider.told == [told, told]


def test_why_not_is_said_and_is_an_error(provider: Operated, lessor: Callable[..., Result]) -> None:
    refused = lessor("retry", "1001")
    assert (refused.exit_code, "nothing was refused" in refused.output) == (TROUBLE, True)
    assert lessor("close", "77", "--yes").exit_code == TROUBLE
    assert provider.told == []


@pytest.mark.parametrize(
    "arguments", [("close", "1001", "--yes"), ("release-brake", "--yes"), ("list", "--suspect"), ("retry", "1001")]
)
def test_without_a_provider_nothing_happens_and_it_says_so(
    home: Path, lessor: Callable[..., Result], arguments: tuple[str, ...]
) -> None:
    result = lessor(*arguments)
    assert (result.exit_code, "lessor run" in result.output) == (UNAVAILABLE, True)
