"""When money is looked at and collected (bidding.md §5, §6)."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import Duration, Scale, ap, ours

__all__ = ["FundsSettings"]


class FundsSettings(BaseModel):
    funds_interval: Duration = Field(
        600,
        ge=60,
        le=86400,
        validation_alias=ap("LEASE_FUNDS_MONITOR_INTERVAL"),
        description="1m to 24h between two looks at the escrow of leases; an account that ends is noticed by its block",
    )
    withdrawal_period: Duration = Field(
        86400,
        validation_alias=ap("WITHDRAWAL_PERIOD"),
        description="between two withdrawals of a lease, not below the interval of the looks; 0: none by time",
    )
    withdrawal_threshold: Scale = Field(
        0,
        validate_default=True,
        validation_alias=ours("WITHDRAWAL_THRESHOLD"),
        description="unpaid micro-units of its own denom at which a lease is withdrawn; 0: never for that",
    )
    minimum_balance: int = Field(
        1_000_000,
        ge=0,
        validation_alias=ap("MINIMUM_BALANCE"),
        description="micro-units of the gas denom below which is warned; 0: never",
    )
