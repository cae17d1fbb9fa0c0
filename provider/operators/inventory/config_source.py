"""Keeps the configuration: read again when its file changes; a file that is wrong or gone keeps the last good content
(operators.md §2.8).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from provider.errors import SettingsError
from provider.operators.inventory.config import DEFAULT, InventoryConfig, parse_config
from provider.protocols import Clock
from provider.watched_file import file_mark

__all__ = ["ConfigSource"]

_log = structlog.get_logger(__name__)
_POLL_S = 1.0
"""A ConfigMap that is mounted changes by a swap of links, which a watch of the file would miss."""


class ConfigSource:
    """`source`: empty for the default, a path that ends in `yaml` or `yml`, or the YAML itself. Raises `SettingsError`
    if it cannot be used at the start.
    """

    def __init__(self, source: str, *, clock: Clock, changed: Callable[[], None]) -> None:
        self._path = Path(source) if source.endswith(("yaml", "yml")) and "\n" not in source else None
        self._clock = clock
        self._changed = changed
        self._mark = file_mark(self._path) if self._path else ()
        self.current = _read(self._path) if self._path else parse_config(source) if source.strip() else DEFAULT

    async def run(self) -> None:
        """For ever. `changed` is called when another configuration is in force."""
        while True:
            await self._clock.sleep(_POLL_S)
            if self._path is not None and (mark := file_mark(self._path)) != self._mark:
                self._mark = mark
                self._reload(self._path)

    def _reload(self, path: Path) -> None:
        try:
            config = _read(path)
        except SettingsError as error:
            _log.error("inventory.config_wrong", problem=str(error), kept="the configuration that was read last")
            return
        _log.info("inventory.config_read", path=str(path))
        if config != self.current:
            self.current = config
            self._changed()


def _read(path: Path) -> InventoryConfig:
    try:
        return parse_config(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"inventory configuration {path}: {error}") from error
