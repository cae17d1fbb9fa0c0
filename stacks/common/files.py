"""The engine's own files: the key, the kubeconfig copy, the lock that makes it the only engine."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

import yaml

from stacks.common.errors import DataInUse, EngineError
from stacks.common.kubeconfig import kubeconfig_files, read_kubeconfig

__all__ = ["hold", "place_kubeconfig", "prepare_home", "prepare_key", "write_private"]


def hold(data: Path) -> int:
    """Lock the data folder for this process and return the descriptor, which the caller keeps open. Raises
    `DataInUse`.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DataInUse(
            f"{data} is in use by another lessor process; stop it, or give this one a folder of its own"
        ) from None
    return descriptor


def prepare_key(path: Path, *, make: bool = True) -> None:
    """Make the passphrase of the stacks' secrets if there is none. An existing one is never changed. Without `make` a
    missing one is an `EngineError`: it is another machine's too.

    The file appears whole or not at all, so that a kill while it is made leads to a new one at the next start.
    """
    if not path.exists() and not make:
        raise EngineError(f"the key of the stacks' secrets {path} does not exist; `openssl rand -base64 32` makes one")
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    elif not path.stat().st_size:
        raise EngineError(f"the key {path} is empty: restore it, or delete it together with {path.parent / 'stacks'}")


def prepare_home(installed: Path, quiet: Path) -> None:
    """Make `quiet` a PULUMI_HOME with the plugins of `installed` and without logs.

    The command line logs everything that it does, compressed or encrypted, and reads all logs at every start. Where a
    file stands in place of the folder, it reports that there is no logging, and continues.
    """
    quiet.mkdir(mode=0o700, exist_ok=True)
    plugins = quiet / "plugins"
    if not plugins.is_symlink() or plugins.readlink() != installed.absolute() / "plugins":
        plugins.unlink(missing_ok=True)
        plugins.symlink_to(installed.absolute() / "plugins")
    (quiet / "logs").touch(mode=0o600)


def place_kubeconfig(source: Path, target: Path) -> None:
    """Copy `source`, one file or a list, to `target` with absolute file names. Nothing is written when nothing changed,
    and nothing is read when this process has seen all files as they are. Raises `EngineError` when a file cannot be
    read.
    """
    if (seen := _seen(source, target)) is not None and _placed.get(target) == seen:
        return
    text = yaml.safe_dump(read_kubeconfig(source))
    if not target.exists() or target.read_text() != text:
        write_private(target, text)
    _placed[target] = _seen(source, target)


_Seen = tuple[Path, tuple[tuple[int, int, int] | None, ...]]
_placed: dict[Path, _Seen | None] = {}


def _seen(source: Path, target: Path) -> _Seen | None:
    """A value that differs after a change of any file; None when one that is needed does not exist."""
    files = kubeconfig_files(source)
    states = tuple(_state(file) for file in (*files, target))
    if states[-1] is None or not any(states[:-1]):
        return None
    return source, states


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def write_private(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace `path` by `text` at once, mode 0600. Without `durable` a power cut may bring the old content back."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
