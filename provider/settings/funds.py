"""Escrow, withdrawals and the wallet (bidding.md §5, §6)."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import RELOADED, Duration, Scale, ap, lessor

__all__ = ["FundsSettings"]


class FundsSettings(BaseModel, defer_build=True):
    """Money"""

    funds_interval: Duration = Field(
        600,
        ge=60,
        le=86400,
        validation_alias=ap("LEASE_FUNDS_MONITOR_INTERVAL"),
        json_schema_extra={RELOADED: True},
        description="Time between two checks of the escrow of all leases. "
        "The block in which an account runs out causes a check of its own.",
    )
    withdrawal_period: Duration = Field(
        86400,
        validation_alias=ap("WITHDRAWAL_PERIOD"),
        json_schema_extra={RELOADED: True},
        description="Time between two withdrawals from a lease, at least AP_LEASE_FUNDS_MONITOR_INTERVAL. "
        "0: no periodic withdrawal.",
    )
    withdrawal_threshold: Scale = Field(
        0,
        validate_default=True,
        validation_alias=lessor("WITHDRAWAL_THRESHOLD"),
        json_schema_extra={RELOADED: True},
        description="Unpaid earnings at which a lease is withdrawn from between periods, in micro-units of the lease's "
        "denom. 0: no withdrawal for amount.",
    )
    minimum_balance: int = Field(
        1_000_000,
        ge=0,
        validation_alias=ap("MINIMUM_BALANCE"),
        json_schema_extra={RELOADED: True},
        description="Balance of the account that pays fees, in micro-units of the gas price's denom, below which "
        "`lessor status` and the log warn. 0: never.",
    )
