"""What `lessor doctor` checks of the provider: whether other users may read its home or reach its engine."""

from __future__ import annotations

from provider.cli.output import warn
from provider.daemon.private_home import home_problems
from provider.errors import SettingsError
from provider.settings import load_settings
from stacks.common import fence_problem

__all__ = ["home_is_open"]


def home_is_open() -> bool:
    """Whether other users reach the home or the engine; a warning for each problem is printed on standard error."""
    try:
        problems = home_problems(load_settings())
    except (SettingsError, OSError):
        problems = ()  # `lessor run` and `lessor settings` name wrong settings
    for problem in problems:
        warn(problem)
    if unfenced := fence_problem():
        warn(f"other users of this machine can reach the engine's listeners while it works: {unfenced}")
    return bool(problems or unfenced)
