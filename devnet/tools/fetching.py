"""Modules of the tools that are built later are downloaded while the first ones are compiled: the network waits for no
core.
"""

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

__all__ = ["fetched_aside"]


@contextmanager
def fetched_aside(recipes: Sequence[Recipe], *, root: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Download what these recipes compile, one after the other, until the block is left. A failure is nobody's trouble:
    the build itself downloads what is missing.
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
        """`go list -deps` downloads exactly what a build of the package needs, and writes nothing into the checkout."""
        tags = ["-tags", step.tags] if step.tags else []
        argv = ["go", "list", "-e", "-mod=readonly", *tags, "-deps", step.package]
        with Path(os.devnull).open("wb") as nowhere:
            with self._lock:
                if self._stopped:
                    return
                self._process = start_bound(argv, output=nowhere, env=self._env, cwd=family)
            self._process.wait()
