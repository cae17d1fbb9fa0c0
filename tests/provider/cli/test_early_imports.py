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
loaded_rich, loaded_parser = "rich" in sys.modules, "pycparser" in sys.modules
import cffi, rich.console, structlog
from provider.chain.keys import key_from_mnemonic
structlog.get_logger("test").info("still.logs", value=1)
print(json.dumps({{
    "rich": loaded_rich,
    "parser": loaded_parser,
    "cffi": bool(cffi.FFI),
    "address": key_from_mnemonic("abandon " * 11 + "about").address,
    "console": bool(rich.console.Console),
    "aiohttp": hasattr(sys.modules["aiohttp"], "ClientSession"),
}}))
"""


def _after_run_is_loaded(before: str = "") -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM.format(before=before)], capture_output=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


_ADDRESS = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0"
"""Of the mnemonic, m/44'/118'/0'/0/0. Its hash is computed by pycryptodome."""
_LATER = {"console": True, "aiohttp": True, "cffi": True, "address": _ADDRESS}


def test_run_loads_neither_rich_nor_a_parser_of_c_and_leaves_both_importable() -> None:
    assert _after_run_is_loaded() == {"rich": False, "parser": False, **_LATER}


def test_what_is_loaded_already_stays_loaded() -> None:
    assert _after_run_is_loaded("import rich.console, cffi.cparser") == {"rich": True, "parser": True, **_LATER}
