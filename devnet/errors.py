"""What can go wrong in the devnet. Each error says what was wrong, with which value, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BuildFailed",
    "ClusterUnusable",
    "ControlPlaneFailed",
    "DevnetError",
    "EnclosureFailed",
    "EngineIncomplete",
    "GoMissing",
    "NoCheckout",
    "NotGivenBack",
    "ToolsMissing",
    "UnknownTool",
]


class DevnetError(Exception):
    """Root of everything `devnet` raises on purpose."""


class NoCheckout(DevnetError):
    """The recipes of the tools are not in the wheel."""

    def __init__(self, looked_in: Path) -> None:
        super().__init__(
            f"no build recipes at {looked_in}: this is an installed wheel. The devnet and `lessor doctor` "
            "need a checkout of the repository; run them from there (`make tools`)."
        )


class UnknownTool(DevnetError):
    """A name that no recipe knows."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no tool is called {name!r}; known are {', '.join(known)}")


class ToolsMissing(DevnetError):
    """Tools that are neither on PATH nor in the cache, where building was not asked for."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"not built yet: {', '.join(names)}. Run `make tools` (once; the first build takes long).")
        self.names = tuple(names)


class GoMissing(DevnetError):
    """No Go, or one too old, and something has to be built."""

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"Go {needed} or newer is needed to build the missing tools, found {found}. "
            "Install it from https://go.dev/dl/ and put its bin folder on PATH, or put the tools themselves on PATH."
        )


class BuildFailed(DevnetError):
    """A recipe did not succeed; carries the last lines of its log."""

    def __init__(self, recipe: str, *, log: Path, problem: str) -> None:
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        tail = "\n".join(f"    {line}" for line in lines)
        super().__init__(
            f"building {recipe} failed: {problem}\n{tail}\n"
            f"The whole log is {log}. Usual causes: no module proxy (check `go env GOPROXY`), a full disk (the caches "
            "grow to about 20 GB; try `lessor doctor --build --throw-away`), or too little memory (5 GB are needed). "
            "Then run `make tools` again: it goes on where it stopped."
        )
        self.log = log


class ControlPlaneFailed(DevnetError):
    """The control plane did not start or died; carries the reason and where the logs are."""

    def __init__(self, problem: str, *, logs: Path) -> None:
        super().__init__(f"the devnet control plane failed: {problem}. Logs: {logs}")
        self.logs = logs


class ClusterUnusable(DevnetError):
    """Somebody's cluster that cannot be borrowed, or did not answer as it should."""


class EngineIncomplete(DevnetError):
    """Pulumi is not all there, where nothing is built; names each missing part with what to do."""

    def __init__(self, missing: Sequence[str]) -> None:
        told = "\n".join(f"  - {each}" for each in missing)
        super().__init__(f"on a cluster of your own nothing is built, and this is missing here:\n{told}")
        self.missing = tuple(missing)


class NotGivenBack(DevnetError):
    """Things of a demo that are still in somebody's cluster."""

    def __init__(self, server: str, left: Sequence[str]) -> None:
        told = "\n".join(f"  - {each}" for each in left)
        super().__init__(
            f"these could not be removed from {server}:\n{told}\n"
            "Start the demo again with the same --data folder, which first tries again, or remove them by hand."
        )
        self.left = tuple(left)


class EnclosureFailed(DevnetError):
    """The real node's enclosure cannot be made, did not start, or does not run."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the enclosure of the real node failed: {problem}")
