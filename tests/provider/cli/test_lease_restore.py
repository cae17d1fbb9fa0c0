"""`lessor lease volumes` and `lessor lease restore`, spoken to a provider that listens."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lease.exit_codes import TROUBLE, UNAVAILABLE
from lease.ids import LeaseId
from provider.cli import build_app
from provider.lifecycle.control import control_path, serve_control
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store import open_database
from provider.store.leases import save_status
from provider.volumes.restore import NotRestored, RestoreRequest
from tests.provider.cli.test_lease_words import OWNER, PROVIDER
from tests.provider.cli.test_lease_words import Operated as Words

ENDED, NEW = (LeaseId(OWNER, dseq, 1, 1, PROVIDER) for dseq in (1001, 1002))


class Operated(Words):
    """A lease loop that writes down what is to be restored."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[RestoreRequest] = []
        self.refusal = ""

    async def restore(self, request: RestoreRequest) -> str:
        if self.refusal:
            raise NotRestored(self.refusal)
        self.requests.append(request)
        return f"{request.into} gets web-data-web-0\x1b[2J"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))

    async def fill() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
        await save_status(database, LeaseStatus(ENDED, Phase.QUARANTINED, "1 volume, 1 GiB", 50.0))
        await save_status(database, LeaseStatus(NEW, Phase.RUNNING, "", 60.0))
        await database.close()

    asyncio.run(fill())
    return tmp_path


@pytest.fixture
def provider(home: Path) -> Iterator[Operated]:
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


def test_a_quarantined_lease_is_in_the_list_and_shown(home: Path, lessor: Callable[..., Result]) -> None:
    assert "quarantined: 1 volume, 1 GiB" in lessor("list").output
    assert "quarantined, since" in lessor("show", "1001").output


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((), RestoreRequest(ENDED, ENDED)),
        (("--into", "1002"), RestoreRequest(ENDED, NEW)),
        (("--into", "1002", "--only", "a", "--only", "b"), RestoreRequest(ENDED, NEW, only=("a", "b"))),
        (("--swap", "--yes"), RestoreRequest(ENDED, ENDED, swap=True)),
        (("--into", "1002", "--force-owner", "--yes"), RestoreRequest(ENDED, NEW, force_owner=True)),
    ],
)
def test_what_is_to_be_restored_reaches_the_provider(
    provider: Operated, lessor: Callable[..., Result], arguments: tuple[str, ...], wanted: RestoreRequest
) -> None:
    result = lessor("restore", "1001", *arguments)
    assert result.exit_code == 0
    assert provider.requests == [wanted]
    assert "gets web-data-web-0" in result.output and "\x1b" not in result.output


@pytest.mark.parametrize("flag", ["--swap", "--force-owner"])
def test_what_restarts_a_service_or_gives_data_away_asks_first(
    provider: Operated, lessor: Callable[..., Result], flag: str
) -> None:
    assert lessor("restore", "1001", flag, answer="n\n").exit_code == TROUBLE
    assert provider.requests == []
    assert lessor("restore", "1001", flag, answer="y\n").exit_code == 0
    assert len(provider.requests) == 1


def test_a_refusal_is_an_error_with_its_remedy(provider: Operated, lessor: Callable[..., Result]) -> None:
    provider.refusal = "claim web-data-web-0 has volume pv-2 by now: --swap"
    result = lessor("restore", "1001")
    assert (result.exit_code, "--swap" in result.output) == (TROUBLE, True)
    assert lessor("restore", "77").exit_code == TROUBLE
    assert lessor("restore", "1001", "--into", "77").exit_code == TROUBLE
    assert provider.requests == []


def test_volumes_are_listed_as_a_table_and_as_json(provider: Operated, lessor: Callable[..., Result]) -> None:
    assert "no volume is in quarantine" in lessor("volumes").output
    provider.quarantined = [
        {"volume": "pv-1", "lease": str(ENDED), "claim": "web-data-web-0", "storage_class": "beta2",
         "size_bytes": 2**30, "until": None, "into": None, "state": "kept until its label is corrected\x1b[2J"},
    ]  # fmt: skip
    text = lessor("volumes").output
    assert all(word in text for word in ("CLAIM", "web-data-web-0", "beta2", "1 GiB", "kept until"))
    assert "\x1b" not in text
    assert json.loads(lessor("volumes", "--json").output) == provider.quarantined


@pytest.mark.parametrize("arguments", [("volumes",), ("restore", "1001")])
def test_without_a_provider_nothing_happens_and_it_says_so(
    home: Path, lessor: Callable[..., Result], arguments: tuple[str, ...]
) -> None:
    result = lessor(*arguments)
    assert (result.exit_code, "lessor run" in result.output) == (UNAVAILABLE, True)
