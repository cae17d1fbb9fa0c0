"""The capacity that the cluster offers."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import (
    RELOADED,
    AddressRanges,
    ClassSizes,
    InventoryEndpoint,
    ObjectNames,
    PortRange,
    ap,
    lessor,
)

__all__ = ["InventorySettings"]


class InventorySettings(BaseModel, defer_build=True):
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
        description="Storage classes that are leased, and the bytes that volumes of each may take together. "
        "A class that is not named here has the size that the inventory operator publishes, if one runs.",
    )
    inventory_endpoint: InventoryEndpoint = Field(
        "",
        validation_alias=lessor("INVENTORY_ENDPOINT"),
        description="Where the inventory operator answers, such as `http://10.0.0.1:8080`. Empty: the Service "
        "`operator-inventory` in `akash-services`, if the cluster has one. `off`: no operator is asked.",
    )
    node_port_range: PortRange = Field(
        "30000-32767",
        validation_alias=lessor("NODE_PORT_RANGE"),
        description="The cluster's range of node ports (`--service-node-port-range` of its API server). "
        "Orders may take as many node ports as are free in it.",
    )
    order_node_ports: int = Field(
        250,
        ge=0,
        le=65535,
        validation_alias=lessor("ORDER_NODE_PORTS"),
        json_schema_extra={RELOADED: True},
        description="The most node ports of one order. An order with more is declined.",
    )
    ip_ranges: AddressRanges = Field(
        (),
        validation_alias=lessor("IP_RANGES"),
        description="Addresses that may be leased. IPv4 addresses that end in 0 or 255 are left out. "
        "Empty, with no LESSOR_IP_POOLS: no order with a leased IP is bid on.",
    )
    ip_pools: ObjectNames = Field(
        (),
        validation_alias=lessor("IP_POOLS"),
        description="IPAddressPools of yours in LESSOR_METALLB_NAMESPACE whose addresses may be leased too, without "
        "those that end in 0 or 255 and those that other Services have. They should have `autoAssign: false`: an "
        "address that MetalLB gives away in between keeps a lease waiting.",
    )

    @property
    def addresses_leased(self) -> bool:
        """Whether any address may be leased."""
        return bool(self.ip_ranges or self.ip_pools)
