"""What the cluster may promise."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import AddressRanges, ClassSizes, ap, ours

__all__ = ["InventorySettings"]


class InventorySettings(BaseModel):
    overcommit_cpu: int = Field(0, ge=0, le=10000, validation_alias=ap("OVERCOMMIT_PCT_CPU"), description="percent")
    overcommit_memory: int = Field(0, ge=0, le=10000, validation_alias=ap("OVERCOMMIT_PCT_MEM"))
    overcommit_storage: int = Field(0, ge=0, le=10000, validation_alias=ap("OVERCOMMIT_PCT_STORAGE"))
    storage_classes: ClassSizes = Field(
        {}, validation_alias=ours("STORAGE_CLASSES"), description="class to bytes, beta2=500Gi,beta3=1Ti"
    )
    ip_ranges: AddressRanges = Field(
        (), validation_alias=ours("IP_RANGES"), description="203.0.113.10-203.0.113.20,198.51.100.0/28"
    )
