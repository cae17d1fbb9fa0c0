"""The life of a lease."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import Duration, ap, ours

__all__ = ["LeaseSettings"]


class LeaseSettings(BaseModel):
    preview_updates: bool = Field(
        False,
        validation_alias=ours("PREVIEW_UPDATES"),
        description="preview each update of a lease before it is applied",
    )

    drift: str = Field(
        "repair",
        pattern="^(repair|report)$",
        validation_alias=ours("DRIFT"),
        description="repair or report objects that were changed by hand",
    )
    manifest_timeout: Duration = Field(
        300,
        validation_alias=ap("MANIFEST_TIMEOUT"),
        description="how long a won lease may wait for its first manifest before it is given up; 0: for ever",
    )
    monitor_max_retries: int = Field(
        -1,
        ge=-1,
        le=1_000_000,
        validation_alias=ap("MONITOR_MAX_RETRIES"),
        description="unhealthy checks before a lease is closed; -1: never",
    )
    monitor_retry_period: Duration = Field(4, ge=1, validation_alias=ap("MONITOR_RETRY_PERIOD"))
    monitor_retry_period_jitter: Duration = Field(15, validation_alias=ap("MONITOR_RETRY_PERIOD_JITTER"))
    brake_leases: int = Field(
        10,
        ge=0,
        validation_alias=ours("BRAKE_LEASES"),
        description="may be removed in BRAKE_WINDOW without an event of the chain; three always may",
    )
    brake_percent: float = Field(20, ge=0, le=100, validation_alias=ours("BRAKE_PERCENT"), description="of all leases")
    brake_window: Duration = Field(600, gt=0, validation_alias=ours("BRAKE_WINDOW"))
    volume_quarantine: Duration = Field(
        0,
        ge=0,
        le=10 * 366 * 86400,
        validation_alias=ours("VOLUME_QUARANTINE"),
        description="how long a closed lease's volumes are kept, to be restored; 0: not at all",
    )
