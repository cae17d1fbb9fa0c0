"""The errors of the devnet. Each text names the problem, the value, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BuildFailed",
    "CacheUnusable",
    "ClusterUnusable",
    "ControlPlaneFailed",
    "DevnetError",
    "EnclosureFailed",
    "EnclosureStopped",
    "EngineIncomplete",
    "GoMissing",
    "NoCheckout",
    "NotGivenBack",
    "ToolsMissing",
    "UnknownTool",
]


class DevnetError(Exception):
    """The base class of all errors of `devnet`."""


class NoCheckout(DevnetError):
    """The build recipes are missing, because Lessor runs from an installed wheel."""

    def __init__(self, looked_in: Path) -> None:
        super().__init__(
            f"there are no build recipes at {looked_in}, because Lessor runs from an installed wheel. The devnet and "
            "`lessor doctor` need a checkout of the repository; run them there (`make tools`)."
        )


class UnknownTool(DevnetError):
    """No tool has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no tool {name!r}; the tools are {', '.join(known)}")


class ToolsMissing(DevnetError):
    """Tools are neither on PATH nor in the cache, and the caller did not ask to build them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"these tools are not built yet: {', '.join(names)}. Run `make tools` once; the first build takes long."
        )
        self.names = tuple(names)


class GoMissing(DevnetError):
    """A tool must be built, and Go is missing or too old."""

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"building the missing tools needs Go {needed} or newer; found: {found}. "
            "Install Go from https://go.dev/dl/ and put its bin folder on PATH, or put the tools themselves on PATH."
        )


class BuildFailed(DevnetError):
    """A build failed. The text has the last lines of its log, `log` is the whole log."""

    def __init__(self, recipe: str, *, log: Path, problem: str) -> None:
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        tail = "\n".join(f"    {line}" for line in lines)
        super().__init__(
            f"building {recipe} failed: {problem}\n{tail}\n"
            f"The whole log is {log}. Usual causes: no module proxy (check `go env GOPROXY`), a full disk (the caches "
            "grow to about 20 GB; try `lessor doctor --build --throw-away`), or too little memory (5 GB are needed). "
            "Then run `make tools` again, which continues where the build stopped."
        )
        self.log = log


class CacheUnusable(DevnetError):
    """The cache of built tools cannot be written."""

    def __init__(self, root: Path, problem: OSError) -> None:
        super().__init__(
            f"the cache of built tools, {root}, cannot be used: {problem}. Free some space or mend the permissions, or "
            "name another folder by LESSOR_CACHE; a build continues where it stopped."
        )


class ControlPlaneFailed(DevnetError):
    """The control plane did not start, or ended; `logs` is the folder of its logs."""

    def __init__(self, problem: str, *, logs: Path) -> None:
        super().__init__(f"the devnet control plane failed: {problem}. Logs: {logs}")
        self.logs = logs


class ClusterUnusable(DevnetError):
    """The demo cannot use the cluster, or the API server refused a request or did not answer."""


class EngineIncomplete(DevnetError):
    """Parts of Pulumi are missing for a demo on the user's cluster, which builds nothing; `missing` names each."""

    def __init__(self, missing: Sequence[str]) -> None:
        lines = "\n".join(f"  - {each}" for each in missing)
        super().__init__(f"a demo on your own cluster builds nothing, and these parts are missing:\n{lines}")
        self.missing = tuple(missing)


class NotGivenBack(DevnetError):
    """Objects of a demo are still in the user's cluster; `left` names each."""

    def __init__(self, server: str, left: Sequence[str]) -> None:
        lines = "\n".join(f"  - {each}" for each in left)
        super().__init__(
            f"the demo could not remove these objects from {server}:\n{lines}\n"
            "Start the demo again with the same --data folder to remove them, or remove them by hand. If the cluster "
            "is gone for good, delete the --data folder."
        )
        self.left = tuple(left)


class EnclosureStopped(DevnetError):
    """Another process has stopped the enclosure, and with it the command that ran inside."""

    def __init__(self) -> None:
        super().__init__("stopped by `lessor devnet down`")


class EnclosureFailed(DevnetError):
    """The real node's enclosure cannot be made, did not start, or does not run."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the enclosure of the real node failed: {problem}")
