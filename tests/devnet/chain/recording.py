"""The recorded chain: its files and its rows."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.data import DATA, document
from tests.data import rows as rows_of

ROOT = Path(__file__).resolve().parents[3]


GENESIS = DATA / "recordings" / "chain" / "genesis.json"


def rows(name: str) -> Iterator[dict[str, Any]]:
    return rows_of(f"recordings/chain/{name}")


@cache
def block_times() -> dict[int, int]:
    """Height to Unix nanoseconds."""
    return {height: _nanoseconds(text) for height, text in document("recordings/chain/block_times.json")}


@cache
def transactions() -> dict[int, list[dict[str, Any]]]:
    """Height to the transactions of its block."""
    return {row["height"]: row["txs"] for row in rows("blocks.jsonl")}


def tx_bytes(height: int) -> list[bytes]:
    return [base64.b64decode(row["bytes"]) for row in transactions().get(height, [])]


def _nanoseconds(text: str) -> int:
    whole, _, fraction = text.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0"))
