"""The speed of reading SDLs: the whole corpus parsed, derived and hashed, compared with the YAML composition of the
same texts; and the cost of hostile documents, each in a separate process.

    python benchmarks/sdl.py [--seconds 5]

One core, CPU time, best of several rounds. The last line is one JSON object; exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from lease.errors import SdlInvalid
from lease.sdl import read_sdl
from lease.sdl.document import compose
from tests.data import SDL
from tests.lease.hostile import HOSTILE, heaviest_valid

CHECKOUT = Path(__file__).parents[1]
BARS = {"sdls_per_second": 400.0, "ratio": 4.0, "hostile_seconds": 1.0, "hostile_megabytes": 200.0}
"""At least the first, at most the others."""

_REFUSE = """
import sys, time
from lease.errors import SdlInvalid
from lease.sdl import read_sdl
text = sys.stdin.buffer.read()
start = time.process_time()
try:
    read_sdl(text)
except SdlInvalid:
    pass
seconds = time.process_time() - start
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(seconds, int(status["VmHWM"].split()[0]) / 1024)
"""


def _texts() -> list[bytes]:
    return [path.read_bytes() for path in sorted(SDL.glob("*.yaml"))]


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
        for name, reader in readers.items():  # interleaved, so that load slows all of them alike
            best[name] = min(best[name], _round(reader, texts))
    return {
        "sdls": len(texts),
        "sdls_per_second": round(len(texts) / best["read"], 1),
        "ratio": round(best["read"] / best["compose"], 2),
        "ratio_to_stock_compose": round(best["read"] / best["stock"], 2),
    }


def _hostile() -> dict[str, bytes]:
    """The hostile documents of the tests, and the heaviest that is still allowed."""
    documents = {**HOSTILE, "the heaviest that is allowed": heaviest_valid()}
    return {
        name: text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
        for name, text in documents.items()
    }


def measure_hostile(documents: dict[str, bytes]) -> dict[str, tuple[float, float]]:
    """(CPU seconds, peak resident megabytes of the whole process) of reading each."""
    costs = {}
    for name, text in documents.items():
        command = [sys.executable, "-c", _REFUSE]
        done = subprocess.run(command, input=text, capture_output=True, check=True, cwd=CHECKOUT)
        seconds, megabytes = map(float, done.stdout.split())
        costs[name] = (round(seconds, 3), round(megabytes, 1))
    return costs


def _worst(costs: dict[str, tuple[float, float]]) -> dict[str, float | str]:
    slowest = max(costs, key=lambda name: costs[name][0])
    largest = max(costs, key=lambda name: costs[name][1])
    return {
        "hostile": len(costs),
        "hostile_seconds": costs[slowest][0],
        "hostile_slowest": slowest,
        "hostile_megabytes": costs[largest][1],
        "hostile_largest": largest,
    }


def main() -> int:
    """Print the figures; returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    result: dict[str, float | str] = {**measure(_texts(), seconds=parser.parse_args().seconds)}
    count, rate, ratio = (result[name] for name in ("sdls", "sdls_per_second", "ratio"))
    print(f"{count} documents, {rate} a second, {ratio} times the bare composition")
    costs = measure_hostile(_hostile())
    for name, (seconds, megabytes) in sorted(costs.items(), key=lambda item: -item[1][0]):
        print(f"{seconds:7.3f} s {megabytes:6.1f} MB  {name}")
    result.update(_worst(costs))
    met = float(result["sdls_per_second"]) >= BARS["sdls_per_second"] and all(
        float(result[name]) <= BARS[name] for name in ("ratio", "hostile_seconds", "hostile_megabytes")
    )
    print(json.dumps({"benchmark": "sdl", **result, "bars": BARS, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
