"""Downloads of the Go modules of later recipes, which run while the first recipe is compiled."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from devnet.children import start_bound
from devnet.tools.recipes import GoBuild, Recipe

__all__ = ["modules_fetched"]


@contextmanager
def modules_fetched(recipes: Sequence[Recipe], *, root: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Download the modules of these recipes, one after the other, until the end of the block. A failure is ignored,
    because the build itself downloads missing modules.
    """
    fetcher = _Fetcher(recipes, root, env)
    thread = threading.Thread(target=fetcher.run, name="fetching modules", daemon=True)
    thread.start()
    try:
        yield
    finally:
        fetcher.stop()
        thread.join()


class _Fetcher:
    def __init__(self, recipes: Sequence[Recipe], root: Path, env: Mapping[str, str]) -> None:
        self._recipes, self._root, self._env = recipes, root, env
        self._lock = threading.Lock()
        self._stopped = False
        self._process: Popen[bytes] | None = None

    def run(self) -> None:
        for chosen in self._recipes:
            for step in chosen.steps:
                if isinstance(step, GoBuild):
                    self._fetch(step, self._root / chosen.family)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _fetch(self, step: GoBuild, family: Path) -> None:
        """`go list -deps` downloads the modules that a build needs, and writes nothing into the checkout."""
        tags = ["-tags", step.tags] if step.tags else []
        argv = ["go", "list", "-e", "-mod=readonly", *tags, "-deps", step.package]
        with Path(os.devnull).open("wb") as discard:
            with self._lock:
                if self._stopped:
                    return
                self._process = start_bound(argv, output=discard, env=self._env, cwd=family)
            self._process.wait()
