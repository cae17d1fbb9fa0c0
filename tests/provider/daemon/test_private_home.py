"""Other users of the machine read nothing of the provider's home, and processes of its user nothing of its memory."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from provider.cli import build_app
from provider.daemon.private_home import home_problems, prepare_home
from provider.errors import SettingsError
from provider.market.pricing.script import script_pricing
from provider.market.pricing.script_user import script_user
from provider.settings import Settings
from provider.store import open_database
from tests.provider.market.test_script import asked
from tests.world.patience import until
from tests.world.processes import start_process
from tests.world.users import STRANGER, WITHOUT_RIGHTS, as_same_user_without_rights, as_stranger, needs_root


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def old_home(folder: Path) -> Settings:
    """A home as earlier versions and careless operators left it."""
    home = folder / "home"
    for name in ("", "engine", "engine/stacks", "engine/stacks/abc"):
        (home / name).mkdir(mode=0o755)
    for name in ("lessor.db", "lessor.db-wal", "store.key", "engine/kubeconfig"):
        (home / name).write_text("secret")
    return Settings(home=home, store_key_file=folder / "elsewhere.key")


def test_a_home_that_others_may_read_is_closed_with_what_stands_in_it(tmp_path: Path) -> None:
    settings = old_home(tmp_path)
    (tmp_path / "elsewhere.key").write_text("key")
    with capture_logs() as logs:
        prepare_home(settings)
    home = settings.home
    open_ones = [path for path in (home, *home.rglob("*"), tmp_path / "elsewhere.key") if mode(path) & 0o077]
    assert open_ones == []
    assert {log["event"] for log in logs} == {"home.mode_corrected"}
    assert str(home) in {log["path"] for log in logs}
    with capture_logs() as logs:
        prepare_home(settings)
    assert logs == []


async def test_a_new_home_and_its_database_are_private_from_the_first_moment(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "new")
    prepare_home(settings)
    database = await open_database(settings.database_url)
    files = list(settings.home.iterdir())
    await database.close()
    assert mode(settings.home) == 0o700
    assert {path.name for path in files} >= {"lessor.db"}
    assert [path for path in settings.home.iterdir() if mode(path) & 0o077] == []


@needs_root
@pytest.mark.parametrize("name", ["", "store.key"])
def test_what_another_user_owns_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    settings = old_home(tmp_path)
    os.chown(settings.home / name, STRANGER, STRANGER)
    with pytest.raises(SettingsError, match=r"belongs to user 65534.*(name a folder of your own|chown)"):
        prepare_home(settings)


def test_the_doctor_names_what_others_may_read_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = old_home(tmp_path)
    monkeypatch.setenv("AP_HOME", str(settings.home))
    done = CliRunner().invoke(build_app(), ["doctor"])
    assert done.exit_code == 1
    assert (
        f"AP_HOME={settings.home} has mode 0755, other users may use it; run: chmod go= {settings.home}" in done.output
    )
    assert f"{settings.home}/store.key has mode 0644" in done.output
    assert mode(settings.home) == 0o755, "the doctor only looks"
    prepare_home(settings)
    assert home_problems(settings) == ()


SLEEPERS = {
    "the daemon": """
import provider.cli.run as run, pathlib, asyncio, os
async def serve(settings, **options):
    pathlib.Path(os.environ["TEST_READY"]).touch()
    await asyncio.Event().wait()
run.run_provider = serve
run.mistakes = lambda settings: []
import sys; sys.argv = ["lessor", "run"]
from provider.cli import main
main()
""",
    "a worker": """
import pathlib, os, time
import stacks.worker.process as process
class Sleeper:
    def __init__(self, source, sink): pass
    def serve(self):
        pathlib.Path(os.environ["TEST_READY"]).touch()
        time.sleep(600)
process.Worker = Sleeper
process.main()
""",
    "a control": """
import pathlib, os, time
pathlib.Path(os.environ["TEST_READY"]).touch()
time.sleep(600)
""",
}


@needs_root
@pytest.mark.parametrize("process", SLEEPERS)
def test_a_program_of_the_same_user_reads_no_environment_and_no_memory(process: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    env = {**os.environ, "TEST_READY": str(ready), "LESSOR_MNEMONIC": "twelve words", "AP_HOME": str(tmp_path)}
    child = start_process([*WITHOUT_RIGHTS, sys.executable, "-c", SLEEPERS[process]], env=env)
    until(ready.exists)
    readable = as_same_user_without_rights(["cat", f"/proc/{child.pid}/environ"])
    memory = as_same_user_without_rights(["head", "-c1", f"/proc/{child.pid}/maps"])
    if process == "a control":
        assert "twelve words" in readable.stdout and memory.returncode == 0
    else:
        assert "twelve words" not in readable.stdout and "Permission denied" in readable.stderr
        assert "Permission denied" in memory.stderr


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="lessor-script-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@needs_root
async def test_a_price_script_of_another_user_reads_neither_the_home_nor_the_provider_s_process(
    public_folder: Path,
) -> None:
    home = public_folder / "home"
    settings = Settings(home=home)
    prepare_home(settings)
    settings.store_key.write_text("key")
    path = public_folder / "price.sh"
    path.write_text(
        f"#!/bin/sh\ncat {settings.store_key} /proc/{os.getpid()}/environ >/dev/null 2>&1 && echo 1 && exit\n"
        'test "$HOME" != /root && id -u\n'
    )
    path.chmod(0o755)
    user = script_user("nobody")
    quote = await script_pricing(str(path), process_limit=1, timeout_s=30, user=user)(asked())
    assert quote.price is not None, quote.problem
    assert quote.price.amount == STRANGER
    assert as_stranger(["cat", str(settings.store_key)]).returncode != 0


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no-such-user-here", "there is no such user"),
        ("0", "can read what the provider can"),
        ("root", "can read what"),
    ],
)
def test_a_script_s_user_that_is_no_fence_is_refused_at_the_start(name: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=f"LESSOR_PRICE_SCRIPT_USER={name}.*{problem}"):
        script_user(name)
