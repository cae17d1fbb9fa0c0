"""Makes the image: four layers, in the order of how seldom they change."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devnet.image.contents import (
    COMMAND,
    ENTRYPOINT,
    ENVIRONMENT,
    LABELS,
    PACKAGES,
    PROGRAMS,
    PULUMI_HOME,
    SITE_PACKAGES,
    UNNEEDED,
    USER,
    VOLUME,
)
from devnet.image.debian import debian_files, download, packages
from devnet.image.environment import compiled, compiled_library, place_packages, place_wheel, start_files
from devnet.image.layers import Files, Layout, executable, file, folder
from devnet.image.locked import needed
from devnet.tools import ENGINE, Toolbox, ensure_tools
from devnet.tools.cache import Cache

__all__ = ["Built", "build_image", "cached_image", "described", "place_tools"]

NAME = "lessor.test/lessor:1"
_CHECKOUT = Path(__file__).resolve().parents[2]
_EXECUTOR = "pulumi-language-python-exec"
"""The language host's own program, which lies beside it."""


@dataclass(frozen=True, slots=True)
class Built:
    """An image in an OCI layout. `sizes`: bytes of each layer, not compressed."""

    place: Path
    name: str
    digest: str
    sizes: Mapping[str, int]


def cached_image() -> Path:
    """The layout that `python -m devnet.image` writes without another folder."""
    return Cache.default().root / "image"


def build_image(place: Path, *, toolbox: Toolbox | None = None, checkout: Path = _CHECKOUT) -> Built:
    """Write the image into the folder `place`, which is made anew. Tools that are missing are built first.

    Downloads Debian packages that the cache lacks. Raises `DevnetError`.
    """
    tools = toolbox or ensure_tools(ENGINE)
    debs = Cache.default().root / "debs"
    chosen = packages(PACKAGES, without=UNNEEDED)
    download(chosen, debs)
    layout = Layout(place)
    with _scratch() as scratch:
        debian = debian_files(chosen, debs)
        layout.add("Debian packages", debian | compiled_library(debian, scratch) | _accounts())
    layout.add("Pulumi, its Kubernetes plugin and the resident engine", _tool_files(tools))
    with _scratch() as scratch:
        place_packages(needed(checkout), scratch)
        layout.add("Python packages", compiled(scratch, SITE_PACKAGES) | start_files())
    with _scratch() as scratch, _scratch() as wheel:
        place_wheel(checkout, scratch, wheel)
        layout.add("Lessor", compiled(scratch, SITE_PACKAGES))
    return Built(place, NAME, layout.close(_config(), name=NAME), layout.sizes)


@contextmanager
def _scratch() -> Iterator[Path]:
    """An empty folder for the block."""
    with tempfile.TemporaryDirectory(prefix="lessor-image-") as made:
        yield Path(made)


def _accounts() -> Files:
    home = VOLUME.lstrip("/")
    return {
        "etc/passwd": file(f"root:x:0:0:root:/root:/bin/false\nlessor:x:{USER}:{USER}::{VOLUME}:/bin/false\n".encode()),
        "etc/group": file(f"root:x:0:\nlessor:x:{USER}:\n".encode()),
        home: folder(),
    }


def _tool_files(tools: Toolbox) -> Files:
    programs = {name: tools.program(name) for name in PROGRAMS}
    programs[_EXECUTOR] = tools.program("pulumi").parent / _EXECUTOR
    found: Files = {f"usr/local/bin/{name}": executable(path) for name, path in programs.items()}
    if tools.pulumi_home is not None:
        plugins = tools.pulumi_home / "plugins"
        inside = f"{PULUMI_HOME.lstrip('/')}/plugins"
        for path in filter(Path.is_file, plugins.rglob("*")):
            made = executable if path.stat().st_mode & 0o100 else file
            found[f"{inside}/{path.relative_to(plugins)}"] = made(path)
    return found


def _config() -> Mapping[str, object]:
    return {
        "User": f"{USER}:{USER}",
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "Entrypoint": list(ENTRYPOINT),
        "Cmd": list(COMMAND),
        "WorkingDir": VOLUME,
        "Labels": dict(LABELS),
    }


def place_tools(target: Path) -> None:
    """Copy Pulumi, its plugin and the resident engine into `target/bin` and `target/pulumi`, for `Containerfile`.

    Tools that are missing are built first. Raises `DevnetError`.
    """
    for path, entry in _tool_files(ensure_tools(ENGINE)).items():
        inside = path.removeprefix("usr/local/").removeprefix("opt/")
        if isinstance(entry.content, Path):
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry.content, target / inside)
            (target / inside).chmod(entry.mode)


def described(built: Built) -> str:
    """One JSON object: name, digest and sizes in bytes."""
    return json.dumps(
        {
            "image": built.name,
            "digest": built.digest,
            "bytes": sum(built.sizes.values()),
            "layers": built.sizes,
            "layout": str(built.place),
        }
    )
