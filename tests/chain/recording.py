"""The recorded chain: where it lies, and its rows. Absent recordings skip the comparison, except in CI."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def shared(*parts: str) -> Path:
    """A file of the shared material; skips (fails with CI=true) when it is not there."""
    base = Path(os.environ.get("LESSOR_SHARED", "../shared"))
    path = (base if base.is_absolute() else ROOT / base).joinpath(*parts)
    if path.exists():
        return path
    message = f"{path} is absent; set LESSOR_SHARED to the folder that holds reference/ and recordings/"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def recorded(name: str) -> Path:
    return shared("recordings", "chain", name)


def rows(name: str) -> Iterator[dict[str, Any]]:
    with recorded(name).open() as lines:
        yield from map(json.loads, lines)


@cache
def block_times() -> dict[int, int]:
    """Height to Unix nanoseconds."""
    return {height: _nanoseconds(text) for height, text in json.loads(recorded("block_times.json").read_text())}


@cache
def transactions() -> dict[int, list[dict[str, Any]]]:
    """Height to the transactions of its block."""
    return {row["height"]: row["txs"] for row in rows("blocks.jsonl")}


def tx_bytes(height: int) -> list[bytes]:
    return [base64.b64decode(row["bytes"]) for row in transactions().get(height, [])]


def _nanoseconds(text: str) -> int:
    whole, _, fraction = text.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0"))
