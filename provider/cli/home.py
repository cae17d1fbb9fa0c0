"""The settings of a command that needs what is in the provider's home."""

from __future__ import annotations

from provider.errors import SettingsError
from provider.settings import Settings, load_settings

__all__ = ["settings_of_home", "settings_of_store"]

_FILE_URL = "sqlite+aiosqlite:///"


def settings_of_home() -> Settings:
    """The settings. Raises `SettingsError`, also where AP_HOME is no folder: nothing was ever run with it."""
    settings = load_settings()
    if not settings.home.is_dir():
        what = "is no folder" if settings.home.exists() else "does not exist"
        raise SettingsError(f"AP_HOME={settings.home} {what}: name the home of the provider")
    return settings


def settings_of_store() -> Settings:
    """The settings. Raises `SettingsError`, also where the store is a file of a home that is no folder; a database
    server (LESSOR_STORE_URL) answers from anywhere.
    """
    settings = load_settings()
    return settings_of_home() if settings.database_url == f"{_FILE_URL}{settings.home / 'lessor.db'}" else settings
