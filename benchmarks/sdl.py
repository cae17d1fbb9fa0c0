"""How fast an SDL is read: the whole corpus parsed, derived and hashed, beside the bare YAML composition of the same
texts.

    python benchmarks/sdl.py [--seconds 5]

One core, CPU time, best of several rounds. The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from lease.errors import SdlInvalid
from lease.sdl import read_sdl
from lease.sdl.document import compose

CHECKOUT = Path(__file__).parents[1]
BARS = {"sdls_per_second": 400.0, "ratio": 4.0}
"""At least, and at most."""


def _texts() -> list[bytes]:
    shared = Path(os.environ.get("LESSOR_SHARED") or CHECKOUT.parent / "shared")
    paths = sorted((CHECKOUT / shared / "sdl").glob("*.yaml")) or sorted((CHECKOUT / "examples").glob("*.yaml"))
    return [path.read_bytes() for path in paths]


def _round(read: Callable[[bytes], object], texts: list[bytes]) -> float:
    start = time.process_time()
    for text in texts:
        with contextlib.suppress(SdlInvalid, yaml.YAMLError):
            read(text)
    return time.process_time() - start


def measure(texts: list[bytes], *, seconds: float) -> dict[str, float]:
    """SDLs a second, and the time as a multiple of composing the YAML: ours without type resolution, and the stock
    loader.
    """
    readers: dict[str, Callable[[bytes], object]] = {
        "read": read_sdl,
        "compose": lambda text: compose(text, file=""),
        "stock": lambda text: yaml.compose(text, Loader=yaml.CSafeLoader),
    }
    best = dict.fromkeys(readers, float("inf"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, reader in readers.items():  # interleaved, so that a busy machine slows all alike
            best[name] = min(best[name], _round(reader, texts))
    return {
        "sdls": len(texts),
        "sdls_per_second": round(len(texts) / best["read"], 1),
        "ratio": round(best["read"] / best["compose"], 2),
        "ratio_to_stock_compose": round(best["read"] / best["stock"], 2),
    }


def main() -> int:
    """Print the figures; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    result = measure(_texts(), seconds=parser.parse_args().seconds)
    met = result["sdls_per_second"] >= BARS["sdls_per_second"] and result["ratio"] <= BARS["ratio"]
    count, rate, ratio = (result[name] for name in ("sdls", "sdls_per_second", "ratio"))
    print(f"{count} documents, {rate} a second, {ratio} times the bare composition")
    print(json.dumps({"benchmark": "sdl", **result, "bars": BARS, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
