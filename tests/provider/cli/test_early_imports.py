"""What `lessor run` imports before anything else, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import json, sys
from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import loaded
{before}
loaded("run", COMMANDS["run"])
loaded_rich = "rich" in sys.modules
import rich.console, structlog
structlog.get_logger("test").info("still.logs", value=1)
print(json.dumps({{
    "rich": loaded_rich,
    "console": bool(rich.console.Console),
    "aiohttp": hasattr(sys.modules["aiohttp"], "ClientSession"),
}}))
"""


def _after_run_is_loaded(before: str = "") -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM.format(before=before)], capture_output=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_run_loads_no_rich_and_leaves_it_importable() -> None:
    assert _after_run_is_loaded() == {"rich": False, "console": True, "aiohttp": True}


def test_rich_that_is_loaded_already_stays_loaded() -> None:
    assert _after_run_is_loaded("import rich.console") == {"rich": True, "console": True, "aiohttp": True}
