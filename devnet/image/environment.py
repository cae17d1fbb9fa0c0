"""The virtual environment of the image: the locked packages as `make setup` has installed them here, and the wheel.

Modules are compiled now, since the root of a pod cannot be written and every start would compile them again. A
compiled module names the hash of its source in place of a time, and one process compiles in a fixed order: the result
is the same each time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from devnet.errors import DevnetError
from devnet.image.contents import PREFIX
from devnet.image.layers import Entry, Files, executable, file, link
from devnet.image.locked import Locked

__all__ = ["compiled", "compiled_library", "place_packages", "place_wheel", "start_files"]

_OF_THE_INSTALLER = ("direct_url.json", "INSTALLER", "REQUESTED", "RECORD")
"""Files of a `.dist-info` that say how and where a package was installed here."""
_LIBRARY = "usr/lib/python3.11/"
_SCRIPT = f"""#!{PREFIX}/bin/python
import sys

from provider.cli import main

sys.exit(main())
"""


def place_packages(locked: Mapping[str, Locked], target: Path) -> None:
    """Copy the installed files of these packages below `target`, without compiled modules and programs.

    Raises `DevnetError` for a package that is not installed as it is locked, unless other machines need it alone.
    """
    for name, each in locked.items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if each.conditional:
                continue
            raise DevnetError(f"{name} of requirements.lock is not installed here: run `make setup`") from None
        if found.version != each.version:
            raise DevnetError(f"{name} is {found.version} here, {each.version} in requirements.lock: run `make setup`")
        _place(found, target)


def _place(found: Distribution, target: Path) -> None:
    for path in found.files or ():
        if path.suffix != ".pyc" and ".." not in path.parts and path.name not in _OF_THE_INSTALLER:
            _copy(Path(str(path.locate())), target / path)


def place_wheel(checkout: Path, target: Path, scratch: Path) -> None:
    """Build the wheel of the checkout, and unpack it below `target`. Raises `DevnetError`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(scratch)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DevnetError(f"the wheel cannot be built:\n{done.stderr.strip()[-2000:]}")
    (wheel,) = scratch.glob("lessor-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)


def compiled(staged: Path, place: str) -> Files:
    """Compile every module below `staged`; all files, by their path in the image, where `staged` is `place`."""
    command = [sys.executable, "-I", "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    paths = ["-s", str(staged), "-p", place, str(staged)]
    # some packages have templates of modules, which do not compile: its status says nothing
    subprocess.run([*command, *paths], env=environment, stdout=subprocess.DEVNULL, check=False)
    inside = place.strip("/")
    return {f"{inside}/{path.relative_to(staged)}": _entry(path) for path in staged.rglob("*") if path.is_file()}


def compiled_library(files: Files, staged: Path) -> Files:
    """The modules of Python's own library among `files`, compiled: a package's script does that on a machine."""
    for path, entry in files.items():
        if path.startswith(_LIBRARY) and isinstance(entry.content, bytes):
            target = staged / path.removeprefix(_LIBRARY)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(entry.content)
    found = compiled(staged, f"/{_LIBRARY}")
    return {path: entry for path, entry in found.items() if path.endswith(".pyc")}


def start_files() -> Files:
    """The interpreter's link, the file that makes a virtual environment of the folder, and the command."""
    inside = PREFIX.lstrip("/")
    settings = b"home = /usr/bin\ninclude-system-site-packages = false\n"
    return {
        f"{inside}/pyvenv.cfg": file(settings),
        f"{inside}/bin/python": link("/usr/bin/python3.11"),
        f"{inside}/bin/python3": link("python"),
        f"{inside}/bin/lessor": executable(_SCRIPT.encode()),
    }


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _entry(path: Path) -> Entry:
    return executable(path) if os.access(path, os.X_OK) and path.suffix != ".py" else file(path)
