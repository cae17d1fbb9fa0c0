"""The settings model: one flat, frozen class. Each part of the provider has a module of fields.

The bases are listed last to first, since pydantic collects their fields in the reverse of that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from pydantic import BaseModel, ConfigDict, model_validator

from provider.settings.chain import ChainSettings
from provider.settings.cluster import ClusterSettings
from provider.settings.engine import EngineSettings
from provider.settings.funds import FundsSettings
from provider.settings.gateway import GatewaySettings
from provider.settings.home import HomeSettings
from provider.settings.inventory import InventorySettings
from provider.settings.issuer import IssuerSettings
from provider.settings.kinds import RELOADED
from provider.settings.leases import LeaseSettings
from provider.settings.market import MarketSettings

__all__ = ["SEPARATOR", "Settings", "is_reloaded"]

SEPARATOR = "; "
"""Between the contradictions in one error of the model."""

_BECH32 = re.compile(r"akash1[02-9ac-hj-np-z]{38}")


class Settings(
    IssuerSettings,
    GatewaySettings,
    LeaseSettings,
    ClusterSettings,
    InventorySettings,
    FundsSettings,
    MarketSettings,
    ChainSettings,
    EngineSettings,
    HomeSettings,
    BaseModel,
):
    """Frozen. In code fields are set by name (`Settings(node=…)`); times are seconds, sizes bytes. Only `load_settings`
    reads the environment and files.
    """

    model_config = ConfigDict(
        frozen=True, validate_by_name=True, validate_by_alias=True, validate_default=True, extra="forbid"
    )

    @property
    def database_url(self) -> str:
        """The database's URL with its password: for opening the database, never for logs."""
        return self.store_url.get_secret_value() or f"sqlite+aiosqlite:///{self.home / 'lessor.db'}"

    @property
    def akt_price_path(self) -> Path | None:
        """The file with the price of AKT: the operator's, or the one that the provider writes itself."""
        return self.home / "akt.price" if self.akt_price_source == "chain" else self.akt_price_file

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
        if found := list(self._contradictions()):
            raise ValueError(SEPARATOR.join(found))
        return self

    def _contradictions(self) -> Iterator[str]:
        for variable, address in (("AP_FROM", self.provider_address), ("AP_FEE_GRANTER", self.fee_granter)):
            if address and not _BECH32.fullmatch(address):
                yield f"{variable}: {address[:60]!r} is not an akash address (akash1…)"
        if self.ingress_static_hosts and not self.ingress_domain:
            yield "AP_DEPLOYMENT_INGRESS_STATIC_HOSTS needs AP_DEPLOYMENT_INGRESS_DOMAIN"
        if self.edge_labels and not self.edge_namespace:
            yield "LESSOR_EDGE_LABELS needs LESSOR_EDGE_NAMESPACE: labels alone say nothing of an edge"
        if self.bid_deposit.amount != int(self.bid_deposit.amount):
            yield f"AP_BID_DEPOSIT: {self.bid_deposit} must be a whole amount"
        if 0 < self.withdrawal_period < self.funds_interval:
            yield "AP_WITHDRAWAL_PERIOD must be 0 or at least AP_LEASE_FUNDS_MONITOR_INTERVAL"
        if self.cert_issuer:
            yield from self._issuer_contradictions()

    def _issuer_contradictions(self) -> Iterator[str]:
        if not self.cert_issuer_directory:
            yield "AP_CERT_ISSUER_ENABLED needs AP_CERT_ISSUER_CA_DIR_URL"
        if not self.public_hostname:
            yield "AP_CERT_ISSUER_ENABLED needs AP_CLUSTER_PUBLIC_HOSTNAME"
        elif any(map(_is_address, (self.public_hostname, *self.cert_issuer_names))):
            yield "AP_CERT_ISSUER_ENABLED orders certificates of names, not of addresses"
        elif self.cert_issuer_names and self.public_hostname.lower() not in self.cert_issuer_names:
            yield f"LESSOR_CERT_ISSUER_NAMES must name AP_CLUSTER_PUBLIC_HOSTNAME={self.public_hostname}"
        if self.gateway_tls_cert is not None:
            yield "AP_GATEWAY_TLS_CERT names a certificate and AP_CERT_ISSUER_ENABLED orders one: set one of the two"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_reloaded(name: str) -> bool:
    """Whether a running provider takes the field of this name anew on SIGHUP."""
    extra = Settings.model_fields[name].json_schema_extra
    return isinstance(extra, dict) and RELOADED in extra
