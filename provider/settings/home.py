"""Home, store and log."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, SecretStr

from provider.settings.kinds import RELOADED, Duration, MaybeListen, MaybeName, ap, lessor

__all__ = ["HomeSettings", "LogFormat"]


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


_LEVELS = {"trace": "debug", "warn": "warning", "fatal": "error", "panic": "error", "disabled": "error"}
"""Levels of the Go provider that the log here has no equal of."""


def _level(value: object) -> object:
    """The level; `*:info`, as older Go providers wrote it, is `info`."""
    text = value.lower().removeprefix("*:") if isinstance(value, str) else value
    return _LEVELS.get(text, text) if isinstance(text, str) else text


def _format(value: object) -> object:
    return "console" if value == "plain" else value


class HomeSettings(BaseModel, defer_build=True):
    """Home, store and log"""

    home: Path = Field(
        Path.home() / ".lessor",
        validation_alias=ap("HOME"),
        description="Folder of the provider: database, stacks, keys of the store, sockets. Made with mode 0700.",
    )
    store_url: SecretStr = Field(
        SecretStr(""),
        validation_alias=lessor("STORE_URL"),
        description="SQLAlchemy URL of the database, such as `postgresql+asyncpg://user:password@host/name`. "
        "Empty: SQLite in the home folder.",
    )
    bus_url: SecretStr = Field(
        SecretStr(""),
        validation_alias=lessor("BUS_URL"),
        description="Redis between the processes of this provider: `redis://user:password@host:6379/0`, `rediss://…` "
        "with TLS, `unix:///path`, or `redis+sentinel://host1:26379,host2:26379/SERVICE/0`. Needs `lessor[redis]`. "
        "Leases and bids go on without it. Empty: one process, no Redis.",
    )
    leader_lease: MaybeName = Field(
        "",
        validation_alias=lessor("LEADER_LEASE"),
        description="Name of a Kubernetes Lease in the namespace of the manifests, the same in several processes of "
        "this provider: one works, the others wait. Their store should be one PostgreSQL. Empty: this process is the "
        "only one.",
    )
    leader_term: Duration = Field(
        30.0,
        ge=5,
        le=600,
        validation_alias=lessor("LEADER_TERM"),
        description="Time without a renewal after which another process takes over.",
    )
    store_key_file: Path | None = Field(
        None,
        validation_alias=lessor("STORE_KEY_FILE"),
        description="File of the keys that encrypt tenants' secrets in the store, one key a line; the first encrypts, "
        "all decrypt. Empty: `store.key` in the home folder, made at the first start.",
    )
    history_runs: int = Field(
        100,
        ge=1,
        le=100_000,
        validation_alias=lessor("HISTORY_RUNS"),
        description="Number of engine runs kept in the history of each lease.",
    )
    history_ended: Duration = Field(
        30 * 86400.0,
        validation_alias=lessor("HISTORY_ENDED"),
        description="Time for which the history of a closed lease is kept: engine runs, manifests, states.",
    )
    claims_age: Duration = Field(
        365 * 86400.0,
        validation_alias=lessor("CLAIMS_AGE"),
        description="Time for which is kept which lease had a hostname or an address, after it was given back.",
    )
    earnings_age: Duration = Field(
        3650 * 86400.0,
        ge=365 * 86400.0,
        validation_alias=lessor("EARNINGS_AGE"),
        description="Time for which earnings and fees by day are kept; at least a year.",
    )
    dashboard_listen: MaybeListen = Field(
        "127.0.0.1:8480",
        validation_alias=lessor("DASHBOARD_LISTEN"),
        description="Address and port of the dashboard, plain HTTP; `lessor dashboard` prints its link. Another free "
        "port is taken where this one is in use. `off`: no dashboard.",
    )
    log_format: Annotated[LogFormat, BeforeValidator(_format)] = Field(
        LogFormat.CONSOLE,
        validation_alias=AliasChoices("LESSOR_LOG_FORMAT", "AP_LOG_FORMAT", "AKASH_LOG_FORMAT"),
        description="`json`: one JSON object a line. `console`, or `plain`: text for a terminal.",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_level)] = Field(
        "info",
        validation_alias=AliasChoices("LESSOR_LOG_LEVEL", "AP_LOG_LEVEL", "AKASH_LOG_LEVEL"),
        json_schema_extra={RELOADED: True},
        description="Least level that is logged.",
    )
