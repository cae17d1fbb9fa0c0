"""The user as whom a price program runs: one who can read neither the provider's home nor its processes."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Any

from provider.errors import SettingsError

__all__ = ["ScriptUser", "script_user"]

_SETTING = "LESSOR_PRICE_SCRIPT_USER"


@dataclass(frozen=True, slots=True)
class ScriptUser:
    """`uid` and `gid` are all that the program keeps: no further groups."""

    name: str
    uid: int
    gid: int
    home: str

    def options(self) -> dict[str, Any]:
        """For `subprocess`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "cwd": "/"}

    def variables(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def script_user(text: str) -> ScriptUser | None:
    """The user of the setting; None for an empty one. Raises `SettingsError` for a user that does not exist or is no
    fence, and when this process may not become another user.
    """
    if not text:
        return None
    try:
        found = pwd.getpwuid(int(text)) if text.isascii() and text.isdigit() else pwd.getpwnam(text)
    except (KeyError, OverflowError):
        raise SettingsError(f"{_SETTING}={text}: there is no such user; make one with `useradd --system`") from None
    if found.pw_uid in (0, os.geteuid()):
        raise SettingsError(f"{_SETTING}={text}: this user can read what the provider can; name one without rights")
    if os.geteuid() != 0:
        raise SettingsError(
            f"{_SETTING}={text}: the provider runs as user {os.geteuid()} and cannot start a program as another one; "
            "run the provider as root, or let the script itself change its user, with sudo"
        )
    return ScriptUser(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir)
