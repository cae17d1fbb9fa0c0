"""An exception that nobody expected shows no tenant's value: in no process, in no format, whether the value is in a
local variable, in the exception's text or in the exception's cause.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CANARY = "canary-5f2c9d"
ROOT = Path(__file__).parents[2]
_RAISING = """
def boom(*_args, **_options):
    secret = {"DB_PASSWORD": "".join(["canary", "-5f2c9d"])}
    try:
        raise KeyError(secret["DB_PASSWORD"])
    except KeyError as error:
        raise ValueError(f"unexpected {secret}") from error

async def async_boom(*args, **options):
    boom(*args, **options)
"""
_LOG = """
from provider.observe.logs import configure_logging
from provider.settings import LogFormat
configure_logging(form=LogFormat.{form})
"""
_ENGINE_FRAME = (
    "import json, sys, threading; from pathlib import Path\n"
    "from stacks.common import EngineConfig; from stacks.common.wire import Configure, encode\n"
    "import io\n"
    "config = EngineConfig(data=Path('/nonexistent'), kubeconfig=Path('k'), pulumi=Path('p'))\n"
    "frame = encode(Configure(config=config))\n"
)
PROCESSES = {
    "the daemon, uncaught": """
import provider.cli.run as run
run.run_provider = async_boom
run.checked_settings = lambda _: (
    __import__("provider.settings").settings.Settings(home="/tmp", log_format="{format}"), ()
)
import sys; sys.argv = ["lessor", "run"]
from provider.cli import main
main()
""",
    "the daemon, logged": _LOG
    + """
import structlog
try:
    boom()
except ValueError:
    structlog.get_logger().exception("lifecycle.reconcile_failed", lease="akash1x/1")
""",
    "the daemon, a task that nobody awaits": _LOG
    + """
import asyncio, gc
from provider.cli.signals import until_signal
async def work():
    asyncio.get_running_loop().create_task(async_boom())
    asyncio.get_running_loop().call_soon(boom)
    await asyncio.sleep(0.01)
    gc.collect()
asyncio.run(until_signal(work(), what="provider"))
""",
    "the daemon, a library's log": _LOG
    + """
import logging
try:
    boom()
except ValueError:
    logging.getLogger("aiohttp.server").exception("Error handling request from %s", "198.51.100.7")
""",
    "the daemon, a thread": _LOG
    + """
import threading
thread = threading.Thread(target=boom); thread.start(); thread.join()
""",
    "a command": """
import provider.cli.version, sys
sys.argv = ["lessor", "settings"]
import provider.cli.settings as settings
import provider.cli.lazy_group as lazy
settings.resolve = boom
lazy.import_module = lambda name: type("M", (), {{"__getattr__": lambda self, item: lambda: boom()}})()
from provider.cli import main
main()
""",
    "a command's log": """
from provider.observe.logs import configure_command
import structlog
configure_command()
try:
    boom()
except ValueError:
    structlog.get_logger().exception("kube.failed")
""",
    "a worker": _ENGINE_FRAME
    + """
import os
reading, writing = os.pipe(); os.write(writing, frame); os.dup2(reading, 0)
import stacks.worker.process as process
process.Runner = boom
process.main()
""",
    "a worker's thread": _ENGINE_FRAME
    + """
import os
reading, writing = os.pipe(); os.write(writing, frame); os.dup2(reading, 0)
import stacks.worker.process as process
process.Worker._listen = boom
process.Runner = lambda config: None
process.Worker._die_with_the_daemon = lambda *_: None
threading.Timer(1.0, os._exit, (0,)).start()
process.main()
""",
    "the cluster program": """
import runpy, stacks.cluster.program as program, stacks.cluster.settings as settings
settings.read_settings = boom
runpy.run_module("stacks.cluster", run_name="__main__")
""",
    "the devnet's chain": """
import devnet.chain.__main__ as chain
def reading():
    secret = "".join(["canary", "-5f2c9d"])
    raise ValueError("unexpected")
chain._arguments = reading
chain.main()
""",
}


_FORMS = {name: ("json", "console") if "{form" in text else ("",) for name, text in PROCESSES.items()}
"""Only the daemon has two formats of its log."""


@pytest.mark.parametrize(
    ("process", "form"),
    [
        pytest.param(name, form, marks=pytest.mark.long if form == "console" else ())
        for name, forms in _FORMS.items()
        for form in forms
    ],
)
def test_an_unexpected_exception_shows_where_it_was_raised_and_no_value(process: str, form: str) -> None:
    program = _RAISING + PROCESSES[process].format(form=form.upper(), format=form)
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120)
    said = done.stdout + done.stderr
    assert CANARY not in said
    assert "in boom" in said or "in reading" in said, said
    assert "ValueError" in said
