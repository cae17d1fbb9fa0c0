"""`lessor dashboard`: the link of the running provider's dashboard, with the token that opens it."""

from __future__ import annotations

from pathlib import Path

from provider.cli.home import settings_of_home
from provider.cli.output import Output, OutputOption, failure, print_result
from provider.errors import ProviderUnreachable, SettingsError

__all__ = ["dashboard"]


def dashboard(*, output: OutputOption = Output.TABLE) -> None:
    """Print the link of the running provider's dashboard.

    Whoever has the link can read everything on it. The dashboard listens on this machine only. From another
    one, forward its port, for example with `ssh -L`.

    Example: `xdg-open $(lessor dashboard)`
    """
    try:
        link = _link(settings_of_home().home)
    except (SettingsError, ProviderUnreachable) as error:
        raise failure(error) from None
    print_result({"link": link}, [link], output)


def _link(home: Path) -> str:
    path = home / "dashboard.link"
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderUnreachable(
            f"no dashboard is served ({path}: {getattr(error, 'strerror', None) or error}): start `lessor run` with "
            "this AP_HOME, and without LESSOR_DASHBOARD_LISTEN=off"
        ) from error
