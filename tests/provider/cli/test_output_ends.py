"""What a command says of an output that takes no more, and of Ctrl-C: the same code from each.

One process imports every command and forks for each case, since an import takes longer than a command.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from lease.exit_codes import INTERRUPTED, TROUBLE
from tests.provider.cli.test_every_command import EVERY

CHECKOUT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.xdist_group("output-ends")  # the commands run once, for all tests of the module
WITH_DATA = {
    "help": "--help",
    "settings": "settings",
    "config show": "config show --output json",
    "policy list": "policy list --output yaml",
    "sdl check": "sdl check examples/web.yaml",
    "render": "render examples/web.yaml",
    "devnet status": "devnet status --output json",
    "undrain": "undrain",
    "completion": "completion bash",
    "tools psutil": "tools psutil list memory",
}
CASES = {**{f"{name} --help": f"{name} --help" for name in EVERY}, **WITH_DATA}
"""The words of commands that print something and end with 0, whatever runs on this machine."""
_HOST = """
import fcntl, json, os, signal, sys, time
from pathlib import Path
import provider.cli as cli
from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import CommandEntry, loaded

def load(table):
    for name, entry in table.items():
        loaded(name, entry) if isinstance(entry, CommandEntry) else load(entry.commands)

load(COMMANDS)

def child(words, output, errors):
    os.dup2(output, 1)
    os.dup2(errors, 2)
    sys.argv = ["lessor", *words]
    try:
        cli.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 99
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)

def blocked(pid):
    return Path(f"/proc/{pid}/syscall").read_text().split()[:2] == ["1", "0x1"]

def full_pipe():
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    return reading, writing

def case(words, what):
    reading = -1
    if what == "full":
        output = os.open("/dev/full", os.O_WRONLY)
    elif what == "closed":
        reading, output = os.pipe()
        os.close(reading)
    else:
        reading, output = full_pipe()
    errors = os.memfd_create("errors")
    pid = os.fork()
    if not pid:
        child(words, output, errors)
    os.close(output)
    if what == "ctrl-c":
        while not blocked(pid):
            time.sleep(0.01)
            if os.waitpid(pid, os.WNOHANG)[0]:
                return 98, "it ended before it was interrupted"
        os.kill(pid, signal.SIGINT)
        os.set_blocking(reading, True)
        while os.read(reading, 65536):
            pass
        os.close(reading)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.lseek(errors, 0, 0)
    return code, os.read(errors, 65536).decode(errors="replace")

found = {name: {what: case(words.split(), what) for what in ("full", "closed", "ctrl-c")}
         for name, words in json.load(sys.stdin).items()}
json.dump(found, sys.stdout)
"""


@cache
def ends(home: str) -> dict[str, dict[str, tuple[int, str]]]:
    """Code and standard error of every case, by kind of output."""
    done = subprocess.run(
        [sys.executable, "-c", _HOST],
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        check=True,
        cwd=CHECKOUT,
        env={"AP_HOME": home, "PATH": "/usr/bin:/bin", "COLUMNS": "200", "TERM": "dumb"},
    )
    found: dict[str, dict[str, tuple[int, str]]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("name", CASES)
def test_a_full_output_is_trouble_in_one_line(name: str, home: str) -> None:
    code, errors = ends(home)[name]["full"]
    assert (code, errors.strip()) == (TROUBLE, "lessor: No space left on device")


@pytest.mark.parametrize("name", CASES)
def test_an_output_that_nobody_reads_is_trouble_without_a_text(name: str, home: str) -> None:
    assert tuple(ends(home)[name]["closed"]) == (TROUBLE, "")


@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_has_its_own_code(name: str, home: str) -> None:
    code, errors = ends(home)[name]["ctrl-c"]
    assert (code, "Traceback" in errors) == (INTERRUPTED, False), errors
