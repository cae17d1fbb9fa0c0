"""Where we keep things, and how we speak of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from provider.settings.kinds import Duration, ap, ours

__all__ = ["HomeSettings", "LogFormat"]


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


class HomeSettings(BaseModel):
    home: Path = Field(Path.home() / ".lessor", validation_alias=ap("HOME"))
    store_url: SecretStr = Field(
        SecretStr(""), validation_alias=ours("STORE_URL"), description="SQLAlchemy URL; empty: SQLite in home"
    )
    store_key_file: Path | None = Field(
        None, validation_alias=ours("STORE_KEY_FILE"), description="keys of the store's secrets; empty: in home"
    )
    history_runs: int = Field(100, ge=1, le=100_000, validation_alias=ours("HISTORY_RUNS"), description="kept a lease")
    history_ended: Duration = Field(
        30 * 86400.0,
        validation_alias=ours("HISTORY_ENDED"),
        description="how long the history of a closed lease stays",
    )
    log_format: LogFormat = Field(LogFormat.CONSOLE, validation_alias=ours("LOG_FORMAT"))
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", validation_alias=ours("LOG_LEVEL"))
