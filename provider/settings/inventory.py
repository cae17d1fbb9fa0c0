"""The capacity that the cluster offers."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import AddressRanges, ClassSizes, ap, lessor

__all__ = ["InventorySettings"]


class InventorySettings(BaseModel):
    """Inventory"""

    overcommit_cpu: int = Field(
        0,
        ge=0,
        le=10000,
        validation_alias=ap("OVERCOMMIT_PCT_CPU"),
        description="Percent of CPU sold beyond what nodes have: with 50, a request of 1500 milli-CPU reserves 1000.",
    )
    overcommit_memory: int = Field(
        0,
        ge=0,
        le=10000,
        validation_alias=ap("OVERCOMMIT_PCT_MEM"),
        description="Percent of memory sold beyond what nodes have.",
    )
    overcommit_storage: int = Field(
        0,
        ge=0,
        le=10000,
        validation_alias=ap("OVERCOMMIT_PCT_STORAGE"),
        description="Percent of ephemeral storage sold beyond what nodes have.",
    )
    storage_classes: ClassSizes = Field(
        {},
        validation_alias=lessor("STORAGE_CLASSES"),
        description="Storage classes that are leased, and the bytes that volumes of each may take together.",
    )
    ip_ranges: AddressRanges = Field(
        (),
        validation_alias=lessor("IP_RANGES"),
        description="Addresses that may be leased. Empty: no order with a leased IP is bid on.",
    )
