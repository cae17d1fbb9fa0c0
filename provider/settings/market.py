"""Which orders are bid on, and the price (bidding.md §2, §6)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from provider.settings.kinds import RELOADED, CoinText, Duration, Form, Items, Scale, StorageScales, ap, lessor
from provider.units import Coin

__all__ = ["MarketSettings"]


class MarketSettings(BaseModel, defer_build=True):
    """Market: orders, prices, bids"""

    bid_price_strategy: Literal["scale", "randomRange", "shellScript", "table"] = Field(
        "scale",
        validation_alias=ap("BID_PRICE_STRATEGY"),
        json_schema_extra={RELOADED: True},
        description="How the price is found: `scale` (the factors below), `randomRange`, `shellScript` (a program) or "
        "`table` (a file of prices in USD).",
    )
    cpu_scale: Scale = Field(
        Decimal(0),
        validation_alias=ap("BID_PRICE_CPU_SCALE"),
        json_schema_extra={RELOADED: True},
        description="Price of one milli-CPU, in micro-units of the order's denom per block.",
    )
    memory_scale: Scale = Field(
        Decimal(0),
        validation_alias=ap("BID_PRICE_MEMORY_SCALE"),
        json_schema_extra={RELOADED: True},
        description="Price of one MiB of memory, in micro-units per block.",
    )
    storage_scale: StorageScales = Field(
        {},
        validation_alias=ap("BID_PRICE_STORAGE_SCALE"),
        json_schema_extra={RELOADED: True},
        description="Price of one MiB of storage for each storage class, in micro-units per block. "
        "A number without a class is for ephemeral storage.",
    )
    endpoint_scale: Scale = Field(
        Decimal(0),
        validation_alias=ap("BID_PRICE_ENDPOINT_SCALE"),
        json_schema_extra={RELOADED: True},
        description="Price of one endpoint, in micro-units per block.",
    )
    ip_scale: Scale = Field(
        Decimal(0),
        validation_alias=ap("BID_PRICE_IP_SCALE"),
        json_schema_extra={RELOADED: True},
        description="Price of one leased address, in micro-units per block.",
    )
    price_script: Annotated[str, Form("path")] = Field(
        "",
        validation_alias=ap("BID_PRICE_SCRIPT_PATH"),
        json_schema_extra={RELOADED: True},
        description="Program that names the price, with AP_BID_PRICE_STRATEGY=shellScript. "
        "It reads the order as JSON and prints one number.",
    )
    price_script_user: str = Field(
        "",
        validation_alias=lessor("PRICE_SCRIPT_USER"),
        json_schema_extra={RELOADED: True},
        description="User as whom the price program runs, by name or number, so that it can read nothing of the "
        "provider's. The provider must run as root for it. Empty: the provider's own user.",
    )
    price_script_limit: int = Field(
        32,
        ge=0,
        le=1024,
        validation_alias=ap("BID_PRICE_SCRIPT_PROCESS_LIMIT"),
        json_schema_extra={RELOADED: True},
        description="Number of price programs that may run at the same time.",
    )
    price_script_timeout: Duration = Field(
        10,
        validation_alias=ap("BID_PRICE_SCRIPT_PROCESS_TIMEOUT"),
        json_schema_extra={RELOADED: True},
        description="Time after which a price program is ended.",
    )
    price_table: Path | None = Field(
        None,
        validation_alias=lessor("PRICE_TABLE"),
        json_schema_extra={RELOADED: True},
        description="YAML file of prices in USD, with AP_BID_PRICE_STRATEGY=table. Read again when it changes.",
    )
    akt_price_file: Path | None = Field(
        None,
        validation_alias=lessor("AKT_PRICE_FILE"),
        json_schema_extra={RELOADED: True},
        description="File with the price of one AKT in USD, kept fresh by the operator. "
        "The price table needs it for orders that pay in AKT.",
    )
    akt_price_source: Literal["file", "chain"] = Field(
        "file",
        validation_alias=lessor("AKT_PRICE_SOURCE"),
        description="Where the price of AKT comes from: the operator's `file` (LESSOR_AKT_PRICE_FILE), or the oracle "
        "module of the `chain`, which the provider asks every minute.",
    )
    akt_price_age: Duration = Field(
        3600,
        gt=0,
        validation_alias=lessor("AKT_PRICE_AGE"),
        json_schema_extra={RELOADED: True},
        description="Age at which a price of AKT is no longer used.",
    )
    bid_deposit: CoinText = Field(
        Coin("uakt", Decimal(500000)),
        validation_alias=ap("BID_DEPOSIT"),
        json_schema_extra={RELOADED: True},
        description="Deposit of each bid; the chain gives it back when the bid ends.",
    )
    bid_timeout: Duration = Field(
        300,
        validation_alias=ap("BID_TIMEOUT"),
        json_schema_extra={RELOADED: True},
        description="Time after which a bid that nobody took is closed. 0: a bid stays open while its order is open.",
    )
    bid_denoms: Items = Field(
        (),
        validation_alias=lessor("BID_DENOMS"),
        json_schema_extra={RELOADED: True},
        description="Denoms in which orders may pay. Empty: every denom.",
    )
    reclamation_window: Duration = Field(
        0,
        le=10**8,
        validation_alias=ap("RECLAMATION_WINDOW"),
        description="Notice that bids offer before the provider ends a lease. 0: none is offered.",
    )
    reclamation_premium: Scale = Field(
        Decimal(0),
        le=10**6,
        validation_alias=lessor("RECLAMATION_PREMIUM"),
        json_schema_extra={RELOADED: True},
        description="Percent added to the price of an order that asks for a reclamation window.",
    )
    provider_config: Path | None = Field(
        None,
        validation_alias=ap("PROVIDER_CONFIG"),
        description="YAML file as for `provider create`. Only orders that ask for each of its attributes are bid on.",
    )
    owners_allowed: Items = Field(
        (),
        validation_alias=lessor("OWNERS_ALLOWED"),
        json_schema_extra={RELOADED: True},
        description="Tenants that are served: addresses, or `@/path/of/a/file` with one address a line, read again "
        "when it changes. Empty: all.",
    )
    owners_denied: Items = Field(
        (),
        validation_alias=lessor("OWNERS_DENIED"),
        json_schema_extra={RELOADED: True},
        description="Tenants that are not served, in the same form.",
    )
    owner_open_bids: int = Field(
        0,
        ge=0,
        validation_alias=lessor("OWNER_OPEN_BIDS"),
        json_schema_extra={RELOADED: True},
        description="Most open bids for one tenant. 0: no limit.",
    )
    owner_leases: int = Field(
        0,
        ge=0,
        validation_alias=lessor("OWNER_LEASES"),
        json_schema_extra={RELOADED: True},
        description="Most leases of one tenant. 0: no limit.",
    )
    owner_bids_an_hour: int = Field(
        0,
        ge=0,
        validation_alias=lessor("OWNER_BIDS_AN_HOUR"),
        json_schema_extra={RELOADED: True},
        description="Most bids in an hour for one tenant that did not become leases. 0: no limit.",
    )
    attributes_age: Duration = Field(
        600,
        gt=0,
        validation_alias=lessor("ATTRIBUTES_AGE"),
        description="Age at which the provider's record and auditors' signatures are read from the chain again, "
        "in addition to the events that announce a change.",
    )
    market_interval: Duration = Field(
        60,
        gt=0,
        validation_alias=lessor("{RELOADED: True}ET_INTERVAL"),
        json_schema_extra={RELOADED: True},
        description="Time between two passes over all open orders, bids and leases on the chain.",
    )
    decisions_kept: int = Field(
        100_000,
        ge=100,
        le=10**8,
        validation_alias=lessor("DECISIONS_KEPT"),
        json_schema_extra={RELOADED: True},
        description="Number of decisions kept for `lessor bid list` and `lessor bid explain`.",
    )
    decisions_age: Duration = Field(
        14 * 86400,
        gt=0,
        validation_alias=lessor("DECISIONS_AGE"),
        json_schema_extra={RELOADED: True},
        description="Time for which decisions are kept.",
    )
