"""What is bid on, and for how much (bidding.md §2, §6)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from provider.settings.kinds import CoinText, Duration, Items, Scale, StorageScales, ap, ours
from provider.units import Coin

__all__ = ["MarketSettings"]


class MarketSettings(BaseModel):
    bid_price_strategy: Annotated[str, Field(pattern="^(scale|randomRange|shellScript|table)$")] = Field(
        "scale", validation_alias=ap("BID_PRICE_STRATEGY"), description="scale, randomRange, shellScript or table"
    )
    price_script: str = Field("", validation_alias=ap("BID_PRICE_SCRIPT_PATH"))
    price_script_limit: int = Field(32, ge=0, le=1024, validation_alias=ap("BID_PRICE_SCRIPT_PROCESS_LIMIT"))
    price_script_timeout: Duration = Field(10, validation_alias=ap("BID_PRICE_SCRIPT_PROCESS_TIMEOUT"))
    price_table: Path | None = Field(None, validation_alias=ours("PRICE_TABLE"), description="YAML")
    akt_price_file: Path | None = Field(None, validation_alias=ours("AKT_PRICE_FILE"), description="USD for one AKT")
    akt_price_age: Duration = Field(3600, gt=0, validation_alias=ours("AKT_PRICE_AGE"))
    cpu_scale: Scale = Field(Decimal(0), validation_alias=ap("BID_PRICE_CPU_SCALE"), description="per milli-CPU")
    memory_scale: Scale = Field(Decimal(0), validation_alias=ap("BID_PRICE_MEMORY_SCALE"), description="per MiB")
    storage_scale: StorageScales = Field(
        {}, validation_alias=ap("BID_PRICE_STORAGE_SCALE"), description="per MiB and class"
    )
    endpoint_scale: Scale = Field(Decimal(0), validation_alias=ap("BID_PRICE_ENDPOINT_SCALE"))
    ip_scale: Scale = Field(Decimal(0), validation_alias=ap("BID_PRICE_IP_SCALE"))
    bid_deposit: CoinText = Field(Coin("uakt", Decimal(500000)), validation_alias=ap("BID_DEPOSIT"))
    bid_timeout: Duration = Field(300, validation_alias=ap("BID_TIMEOUT"), description="0: a bid stays open for ever")
    reclamation_window: Duration = Field(
        0, le=10**8, validation_alias=ap("RECLAMATION_WINDOW"), description="notice that bids offer; 0: none"
    )
    reclamation_premium: Scale = Field(
        Decimal(0),
        le=10**6,
        validation_alias=ours("RECLAMATION_PREMIUM"),
        description="percent, if an order asks for it",
    )
    bid_denoms: Items = Field((), validation_alias=ours("BID_DENOMS"), description="only in these; empty: in every one")
    owners_allowed: Items = Field(
        (), validation_alias=ours("OWNERS_ALLOWED"), description="akash1…,akash1… or @/path/of/a/file, one a line"
    )
    owners_denied: Items = Field((), validation_alias=ours("OWNERS_DENIED"), description="as LESSOR_OWNERS_ALLOWED")
    owner_open_bids: int = Field(
        0, ge=0, validation_alias=ours("OWNER_OPEN_BIDS"), description="at a time; 0: no limit"
    )
    owner_leases: int = Field(0, ge=0, validation_alias=ours("OWNER_LEASES"), description="at a time; 0: no limit")
    owner_bids_an_hour: int = Field(
        0, ge=0, validation_alias=ours("OWNER_BIDS_AN_HOUR"), description="that become no lease; 0: no limit"
    )
    attributes_age: Duration = Field(
        600, gt=0, validation_alias=ours("ATTRIBUTES_AGE"), description="of our record and what auditors signed"
    )
    decisions_kept: int = Field(100_000, ge=100, le=10**8, validation_alias=ours("DECISIONS_KEPT"))
    decisions_age: Duration = Field(14 * 86400, gt=0, validation_alias=ours("DECISIONS_AGE"))
    provider_config: Path | None = Field(None, validation_alias=ap("PROVIDER_CONFIG"), description="filters orders")
    market_interval: Duration = Field(60, gt=0, validation_alias=ours("MARKET_INTERVAL"), description="full passes")
