"""The same mistake has the same exit code in every command (docs/exit-codes.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lease.exit_codes import FINE, SETTINGS, TROUBLE, UNAVAILABLE, USAGE
from lease.ids import LeaseId
from provider.cli import build_app
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store import open_database
from provider.store.leases import save_status
from tests.provider.cli.test_every_command import EVERY, WITH_A_LEASE, command

CHECKOUT = Path(__file__).resolve().parents[3]
OWNER, PROVIDER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
LEASE = f"{OWNER}/1001/1/1/{PROVIDER}"
WITHOUT_A_DOCUMENT = {
    "run": "a process until it is stopped",
    "gateway": "a process until it is stopped",
    "worker": "a process until it is stopped",
    "operator inventory": "a process until it is stopped",
    "operator hostname": "a process until it is stopped",
    "operator ip": "a process until it is stopped",
    "tools psutil serve": "a process until it is stopped",
    "demo": "a story for a person",
    "devnet exec": "another program's output",
    "devnet enclosed": "another program's output",
    "pulumi": "another program's output",
    "lease shell": "another program's output",
    "lease logs": "the tenant's own lines",
    "completion": "a script of a shell",
}
"""The commands that have no option `--output`, and what their output is."""
FILES = {
    "doctor": "--kubeconfig {}",
    "demo": "--sdl {}",
    "sdl check": "{}",
    "sdl hash": "{}",
    "sdl manifest": "{}",
    "sdl groups": "{}",
    "render": "{}",
    "bid explain": "--sdl {}",
    "policy audit": "--no-recorded --no-running --cluster-stack {}",
    "policy test": "{}",
    "restore": "{} --check",
    "diff": "{} --lease " + LEASE,
}
"""The arguments of each command that reads a file which an argument or an option names."""
OTHER_FILES = {
    ("backup", "file"): "is written",
    ("policy test", "objects"): "tested apart",
    ("devnet up", "data"): "a folder, which is made",
    ("devnet down", "data"): "a folder in which nothing need run",
    ("devnet status", "data"): "a folder in which nothing need run",
    ("devnet exec", "data"): "a folder of a control plane",
    ("demo", "data"): "a folder, which is made",
    ("demo", "kubeconfig"): "a kubeconfig",
    ("doctor", "kubeconfig"): "a kubeconfig",
    ("doctor", "gpu_toolkit"): "need not exist",
    ("tools psutil list", "root"): "a folder that may lack anything",
    ("tools psutil serve", "root"): "a folder that may lack anything",
}
OWNERS = {
    "render": ("{sdl} --owner {}", "{sdl} --provider {}"),
    "bid list": ("--owner {}",),
    "bid explain": ("--sdl {sdl} --owner {}",),
}
ASKING = {
    "status": "",
    "dashboard": "",
    "inventory": "",
    "address list": "",
    "hostname list": "",
    "lease list": "--suspect",
    "lease recreate": "1001 --yes",
    "lease retry": "1001",
    "lease close": "1001 --yes",
    "lease forget": "1001 --yes",
    "lease release-brake": "",
    "lease volumes": "",
    "lease restore": "1001 --yes",
    "bid explain": "--sdl {sdl}",
}
"""The arguments with which a command asks the running provider."""
AT_HOME = {
    **ASKING,
    "drain": "",
    "undrain": "",
    "backup": "{backup}",
    "bid list": "",
    "earnings": "",
    "policy audit": "--no-running",
    "trace": "1001",
    "lease show": "1001",
    "lease history": "1001",
    "address history": "203.0.113.7",
    "hostname history": "app.example.com",
    "lease logs": "1001",
    "lease shell": "1001",
    "pulumi": "1001 -- stack",
    "diff": "{sdl} --lease 1001",
}
"""The arguments with which a command needs what is in the home."""
ASKING_THE_CLUSTER = {
    "policy audit": "--no-recorded",
    "adopt": "--dry-run",
    "lease logs": "1001",
    "lease shell": "1001",
    "diff": "{sdl} --lease " + LEASE,
    "operator inventory": "--kubeconfig {kubeconfig} --rest-port 0 --grpc-port 0",
    "operator hostname": "--rest-port 0 --grpc-port 0",
    "operator ip": f"--rest-port 0 --grpc-port 0 --provider {PROVIDER}",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose store knows one lease."""

    async def save() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
        await save_status(database, LeaseStatus(LeaseId(OWNER, 1001, 1, 1, PROVIDER), Phase.RUNNING, "", 1.0))
        await database.close()

    asyncio.run(save())
    return tmp_path


def ended(name: str, arguments: str, home: Path, **more: str) -> tuple[int, str]:
    """The code and the output of one command, with these words for the names in braces."""
    words = {"sdl": str(CHECKOUT / "examples" / "web.yaml"), "backup": f"{home}-x.zip", "kubeconfig": f"{home}/none"}
    argv = [*name.split(), *(each.format(**words | more) for each in arguments.split())]
    environment = {"AP_HOME": str(home), "KUBECONFIG": words["kubeconfig"], "COLUMNS": "500"}
    done = CliRunner().invoke(build_app(), argv, env=environment | {k: v for k, v in more.items() if k.isupper()})
    assert "Traceback" not in done.output, done.output
    return done.exit_code, done.output


def test_every_command_that_prints_data_prints_it_as_json_and_yaml_too() -> None:
    without = {name for name in EVERY if not any(each.name == "output" for each in command(name).params)}
    assert without == WITHOUT_A_DOCUMENT.keys()


def test_the_tables_have_every_file_and_every_owner_that_a_command_takes() -> None:
    files, owners = set(), set()
    for name in EVERY:
        for each in command(name).params:
            kind = str(getattr(each, "metavar", None) or "")
            is_file = (
                kind.rstrip(".") in ("FILE", "OBJECTS") or getattr(each.type_descriptor, "annotation", None) is Path
            )
            if is_file and (name, each.name) not in OTHER_FILES:
                files.add(name)
            if each.name in ("owner", "provider") and not name.startswith("operator"):
                owners.add(name)
    assert files - {"operator inventory"} <= FILES.keys()
    assert owners == OWNERS.keys()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", ["missing", "folder"])
def test_a_file_that_cannot_be_read_is_trouble(
    name: str, what: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    path = home / "none.yaml" if what == "missing" else home
    code, output = ended(name, FILES[name].replace("{}", str(path)), home)
    assert (code, str(path) in output) == (TROUBLE, True), output


@pytest.mark.parametrize("name", WITH_A_LEASE)
@pytest.mark.parametrize("word", ["x/y", "0", "abc!", "-1", "x/1/1/1", "18446744073709551616", "é" * 300, "\x1b[2J"])
def test_text_that_can_name_no_lease_is_wrong_usage(
    name: str, word: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    code, output = ended(name, WITH_A_LEASE[name].replace("{}", word), home)
    assert (code, "\x1b[2J" in output) == (USAGE, False)


@pytest.mark.parametrize("name", WITH_A_LEASE)
@pytest.mark.parametrize("word", ["4711", "1/1/1", f"{OWNER}/7", "0123abcd"])
def test_a_lease_that_is_not_there_is_trouble(
    name: str, word: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    code, output = ended(name, WITH_A_LEASE[name].replace("{}", word), home)
    assert (code, "there is no lease" in output) == (TROUBLE, True), output


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, forms in OWNERS.items() for each in forms])
@pytest.mark.parametrize("word", ["x", "akash1", "Akash1QYPQX", "a/b", "akash1" + "q" * 70])
def test_text_that_is_no_address_is_wrong_usage(name: str, arguments: str, word: str, home: Path) -> None:
    assert ended(name, arguments.replace("{}", word), home)[0] == USAGE


@pytest.mark.parametrize("name", ASKING)
def test_no_running_provider_is_a_code_of_its_own(name: str, home: Path) -> None:
    code, output = ended(name, ASKING[name], home)
    assert (code, "lessor run" in output) == (UNAVAILABLE, True), output


@pytest.mark.parametrize("name", AT_HOME)
@pytest.mark.parametrize("what", ["missing", "file"])
def test_a_home_that_is_no_folder_is_a_wrong_setting(
    name: str, what: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    wrong = home / "none" if what == "missing" else home / "lessor.db"
    code, output = ended(name, AT_HOME[name], home, AP_HOME=str(wrong))
    assert (code, f"AP_HOME={wrong}" in output) == (SETTINGS, True), output


@pytest.fixture
def _log_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator gives the process's log the output of its command, which is closed after the test."""
    for module in ("operator_claims", "operator_inventory", "process", "run"):
        monkeypatch.setattr(f"provider.cli.{module}.configure_logging", lambda **_: None)


@pytest.mark.usefixtures("_log_of_the_session")
@pytest.mark.parametrize("name", ASKING_THE_CLUSTER)
@pytest.mark.parametrize("content", [None, "{{{", "[]", "folder"])
def test_a_kubeconfig_that_cannot_be_used_is_a_wrong_setting(
    name: str, content: str | None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    path = home / "kubeconfig"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    more = {"KUBECONFIG": str(path), "kubeconfig": str(path), "AP_FROM": PROVIDER}
    code, output = ended(name, ASKING_THE_CLUSTER[name], home, **more)
    assert (code, "kubeconfig" in output) == (SETTINGS, True), output


def test_a_home_that_is_there_is_none_of_these_mistakes(home: Path) -> None:
    assert ended("lease list", "", home)[0] == FINE
