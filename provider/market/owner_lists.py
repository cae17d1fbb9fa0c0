"""Which tenants are served: two lists, given in the settings or in files that are read again when they change.

When a file can no longer be read, the list stays as it was and a warning is logged, so that no accident changes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from provider.errors import SettingsError
from provider.market.terms import OwnerRules
from provider.settings import Settings
from provider.watched_file import watched

__all__ = ["owner_rules", "read_owners"]

_ADDRESS = re.compile(r"akash1[02-9ac-hj-np-z]{38}")
_BYTES = 8 << 20
_NOBODY: frozenset[str] = frozenset()


def owner_rules(settings: Settings) -> Callable[[], OwnerRules]:
    """Returns a function that returns the current rules: the same object until a list changes. Raises
    `SettingsError`.
    """
    allowed = _list("LESSOR_OWNERS_ALLOWED", settings.owners_allowed)
    denied = _list("LESSOR_OWNERS_DENIED", settings.owners_denied)
    last: OwnerRules | None = None

    def rules() -> OwnerRules:
        nonlocal last
        now_allowed, now_denied = allowed(), denied() or _NOBODY
        if last is None or last.allowed is not now_allowed or last.denied is not now_denied:
            last = OwnerRules(
                now_allowed,
                now_denied,
                open_bids=settings.owner_open_bids,
                leases=settings.owner_leases,
                bids_an_hour=settings.owner_bids_an_hour,
            )
        return last

    rules()
    return rules


def read_owners(path: Path, variable: str) -> frozenset[str]:
    """The addresses in a file, one a line; `#` begins a comment. Raises `SettingsError` with the line of the first
    mistake.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise SettingsError(f"{variable}: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{variable}: {path}: not UTF-8 at byte {error.start}") from error
    if len(data) > _BYTES:
        raise SettingsError(f"{variable}: {path}: larger than 8 MiB")
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), start=1))
    return _addresses(((f"{path}:{number}", line) for number, line in lines if line), variable)


def _addresses(items: Iterable[tuple[str, str]], variable: str) -> frozenset[str]:
    found = set()
    for where, item in items:
        if not _ADDRESS.fullmatch(item):
            raise SettingsError(f"{variable}: {where}: {item[:80]!r} is not an akash address (akash1…)")
        found.add(item)
    return frozenset(found)


def _list(variable: str, items: tuple[str, ...]) -> Callable[[], frozenset[str] | None]:
    """Returns a function that returns the current list, None when none is set. A single `@/path/of/a/file` names a
    file.
    """
    if len(items) == 1 and items[0].startswith("@"):
        return _watched(variable, Path(items[0][1:]))
    fixed = _addresses((("the list", item) for item in items), variable) if items else None
    return lambda: fixed


def _watched(variable: str, path: Path) -> Callable[[], frozenset[str]]:
    return watched(path, lambda: read_owners(path, variable), what="owners")
