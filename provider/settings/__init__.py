"""The one settings model. Environment names are the Go provider's (`AP_…`, bidding.md §6) where it has the setting,
else `LESSOR_…`.

An empty value counts as not set, as in the Go provider. An error names the variable, the value (but no secret) and what
is allowed. Each part of the provider has a module of fields; in code there is one flat, frozen model. The bases of the
model are listed last to first, since pydantic collects their fields in the reverse of that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from provider.errors import SettingsError
from provider.settings.chain import ChainSettings
from provider.settings.cluster import ClusterSettings
from provider.settings.engine import EngineSettings
from provider.settings.funds import FundsSettings
from provider.settings.gateway import GatewaySettings
from provider.settings.home import HomeSettings, LogFormat
from provider.settings.inventory import InventorySettings
from provider.settings.kinds import EdgeKind, GatewayForm
from provider.settings.leases import LeaseSettings
from provider.settings.market import MarketSettings
from provider.units import mask_addresses

__all__ = [
    "NOT_SETTINGS",
    "EdgeKind",
    "GatewayForm",
    "LogFormat",
    "Settings",
    "key_variables",
    "load_settings",
    "unknown_variables",
]

_BECH32 = re.compile(r"akash1[02-9ac-hj-np-z]{38}")
_PREFIXES = ("AP_", "AKASH_", "LESSOR_")
_KEY_FIELDS = frozenset(("mnemonic_file", "private_key_file", "armored_key_file", "passphrase_file", "store_key_file"))
NOT_SETTINGS = {
    "AP_CONFIG": "Configuration file of the inventory operator, `lessor operator inventory`.",
    "AP_API_PORT": "Port of the hardware server, `lessor tools psutil serve`.",
    "LESSOR_CACHE": "Folder of the tools that `make tools` builds. Empty: `~/.cache/lessor`.",
    "LESSOR_GO_CACHE": "`throw-away`: the build of the tools leaves no Go build cache behind.",
    "LESSOR_PYTHON": "Interpreter with which the language host runs Pulumi programs.",
    "LESSOR_LANGHOST_TRIED": "Set by the language host when it starts again with another interpreter.",
    "LESSOR_PRICE_RUN": "Set by the provider for a price program: the name of the run.",
    "LESSOR_ENGINE_DATA": "Set by the engine for its processes: it finds those that a kill has left.",
    "LESSOR_DEVNET_OWNER": "Set by tests: the process that a control plane of the devnet ends with.",
    "LESSOR_ENGINE_STACK": "Set by the engine for its processes: the stack that a process works on.",
}
"""Variables of the build and of child processes: the use of each, by name."""


class Settings(
    GatewaySettings,
    LeaseSettings,
    ClusterSettings,
    InventorySettings,
    FundsSettings,
    MarketSettings,
    ChainSettings,
    EngineSettings,
    HomeSettings,
    BaseSettings,
):
    """Frozen. In code fields are set by name (`Settings(node=…)`); times are seconds, sizes bytes."""

    model_config = SettingsConfigDict(
        frozen=True,
        env_ignore_empty=True,
        case_sensitive=True,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
    )

    @property
    def database_url(self) -> str:
        """The database's URL with its password: for opening the database, never for logs."""
        return self.store_url.get_secret_value() or f"sqlite+aiosqlite:///{self.home / 'lessor.db'}"

    @property
    def store_key(self) -> Path:
        return self.store_key_file or self.home / "store.key"

    @property
    def unstable_after(self) -> float:
        """Seconds that so many unhealthy checks take (kubernetes-objects.md §4.4); 0: no lease is closed for it."""
        checks = self.monitor_max_retries + 1
        return checks * (self.monitor_retry_period + self.monitor_retry_period_jitter / 2)

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.provider_address and not _BECH32.fullmatch(self.provider_address):
            raise ValueError(f"AP_FROM: {self.provider_address[:60]!r} is not an akash address (akash1…)")
        if self.fee_granter and not _BECH32.fullmatch(self.fee_granter):
            raise ValueError(f"AP_FEE_GRANTER: {self.fee_granter[:60]!r} is not an akash address (akash1…)")
        if self.ingress_static_hosts and not self.ingress_domain:
            raise ValueError("AP_DEPLOYMENT_INGRESS_STATIC_HOSTS needs AP_DEPLOYMENT_INGRESS_DOMAIN")
        if self.edge_labels and not self.edge_namespace:
            raise ValueError("LESSOR_EDGE_LABELS needs LESSOR_EDGE_NAMESPACE: labels alone say nothing of an edge")
        if self.bid_deposit.amount != int(self.bid_deposit.amount):
            raise ValueError(f"AP_BID_DEPOSIT: {self.bid_deposit} must be a whole amount")
        if 0 < self.withdrawal_period < self.funds_interval:
            raise ValueError("AP_WITHDRAWAL_PERIOD must be 0 or at least AP_LEASE_FUNDS_MONITOR_INTERVAL")
        return self


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment; `overrides` (by field name) win. Raises `SettingsError` naming every wrong
    variable.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(problem) for problem in error.errors())) from None


def key_variables() -> frozenset[str]:
    """The variables that hold a secret, or name the file of one that belongs to the provider's key or its store."""
    fields = Settings.model_fields.items()
    return frozenset(
        choice
        for name, field in fields
        if name in _KEY_FIELDS or "SecretStr" in str(field.annotation)
        for choice in _choices(field)
    )


def unknown_variables(environment: Iterable[str]) -> dict[str, str]:
    """Variables that have a prefix of the settings and are none, each with the most similar setting (or nothing)."""
    known = {name for field in Settings.model_fields.values() for name in _choices(field)}
    strangers = (name for name in environment if name.startswith(_PREFIXES) and name not in known | NOT_SETTINGS.keys())
    return {name: next(iter(get_close_matches(name, known, n=1, cutoff=0.85)), "") for name in sorted(strangers)}


def _explain(problem: Any) -> str:
    location = str(problem["loc"][0]) if problem["loc"] else ""
    field = next((item for name, item in Settings.model_fields.items() if location in _names(name, item)), None)
    message = str(problem["msg"]).removeprefix("Value error, ")
    if field is None:
        return f"{location}: no such setting" if problem["type"] == "extra_forbidden" else message
    text = mask_addresses(str(problem["input"]))
    value = "***" if "SecretStr" in str(field.annotation) else repr(text[:80])
    hint = f" ({field.description.rstrip('.')})" if field.description else ""
    return f"{_variable(field)}={value}: {message}{hint}"


def _names(name: str, field: Any) -> tuple[str, ...]:
    return (name, *_choices(field))


def _choices(field: Any) -> tuple[str, ...]:
    return tuple(field.validation_alias.choices)


def _variable(field: Any) -> str:
    return str(field.validation_alias.choices[0])
