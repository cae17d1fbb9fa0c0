"""The life of a lease."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from provider.settings.kinds import RELOADED, Duration, Items, ap, lessor

__all__ = ["LeaseSettings"]


class LeaseSettings(BaseModel, defer_build=True):
    """Leases"""

    preview_updates: bool = Field(
        False,
        validation_alias=lessor("PREVIEW_UPDATES"),
        description="Preview every update of a running lease before it is applied, and record the differences.",
    )
    drift: Literal["repair", "report"] = Field(
        "repair",
        validation_alias=lessor("DRIFT"),
        description="What happens to a lease's objects that somebody changed in the cluster: `repair` undoes the "
        "change, `report` shows it.",
    )
    images_denied: Items = Field(
        (),
        validation_alias=lessor("IMAGES_DENIED"),
        description="Patterns of images that are not run, such as `*xmrig*,docker.io/some-user/*`. `*` is any text, "
        "`?` one character. A manifest with such an image is refused with 422; what runs already goes on running. Bids "
        "cannot see images.",
    )
    policy_file: Path | None = Field(
        None,
        validation_alias=lessor("POLICY_FILE"),
        description="File of levels, lists, exemptions and own rules for the policies (docs/policies.md). Read at the "
        "start; `lessor policy test` checks it. Empty: every rule at its own level.",
    )
    manifest_timeout: Duration = Field(
        300,
        validation_alias=ap("MANIFEST_TIMEOUT"),
        description="Time that a new lease may wait for its first manifest before it is closed. 0: no limit.",
    )
    monitor_max_retries: int = Field(
        -1,
        ge=-1,
        le=1_000_000,
        validation_alias=ap("MONITOR_MAX_RETRIES"),
        description="Number of unhealthy checks after which a lease is closed. With the two periods below it gives a "
        "time, in which only the application's own failures count. -1: a lease is never closed for this.",
    )
    monitor_retry_period: Duration = Field(
        4, ge=1, validation_alias=ap("MONITOR_RETRY_PERIOD"), description="Time between two such checks."
    )
    monitor_retry_period_jitter: Duration = Field(
        15,
        validation_alias=ap("MONITOR_RETRY_PERIOD_JITTER"),
        description="Longest random addition to AP_MONITOR_RETRY_PERIOD; half of it is counted.",
    )
    brake_leases: int = Field(
        10,
        ge=0,
        validation_alias=lessor("BRAKE_LEASES"),
        json_schema_extra={RELOADED: True},
        description="Number of leases that may be removed within LESSOR_BRAKE_WINDOW when one node alone calls them "
        "closed: no tenant signed it, and no second node of AP_NODE agrees. The others wait for "
        "`lessor lease release-brake`, or for `lessor lease close`. Three may always be removed.",
    )
    brake_percent: float = Field(
        100,
        ge=0,
        le=100,
        validation_alias=lessor("BRAKE_PERCENT"),
        json_schema_extra={RELOADED: True},
        description="The same limit as a percentage of all leases. The smaller limit holds. 100: no such limit.",
    )
    brake_window: Duration = Field(
        3600,
        gt=0,
        validation_alias=lessor("BRAKE_WINDOW"),
        json_schema_extra={RELOADED: True},
        description="Time over which these removals are counted.",
    )
    volume_quarantine: Duration = Field(
        0,
        ge=0,
        le=10 * 366 * 86400,
        validation_alias=lessor("VOLUME_QUARANTINE"),
        description="Time for which volumes of a closed lease are kept, so that `lessor lease restore` can give them "
        "to another lease. 0: volumes go with their lease.",
    )
