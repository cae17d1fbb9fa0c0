"""The input of a price script: one line of JSON, as the Go provider writes it (bidding.md §2.3)."""

from __future__ import annotations

from lease.go_json import go_json
from lease.gpus import parse_gpu_request
from lease.groups import ResourceUnit
from lease.resources import EndpointKind, Price, Resources

__all__ = ["PRICE_PRECISION", "script_input"]

PRICE_PRECISION = 6


def script_input(units: tuple[ResourceUnit, ...], most: Price) -> str:
    """`units` as allocated, `most` the group's maximum; amounts are per replica. Ends with a newline."""
    document = {
        "resources": [_unit(unit) for unit in units],
        "price": {"denom": most.denom, "amount": f"{most.amount:.18f}"},
        "price_precision": PRICE_PRECISION,
    }
    return go_json(document) + "\n"


def _unit(unit: ResourceUnit) -> dict[str, object]:
    resources = unit.resources
    endpoints = resources.endpoints or ()
    return {
        "memory": resources.memory_bytes,
        "cpu": resources.cpu_milli,
        "gpu": {"units": resources.gpu_units, "attributes": _gpu_attributes(resources)},
        "storage": [
            {"class": volume.attribute("class") or "ephemeral", "size": volume.size_bytes}
            for volume in resources.storage or ()
        ],
        "count": unit.count,
        "endpoint_quantity": len(endpoints),
        "ip_lease_quantity": len({item.sequence_number for item in endpoints if item.kind is EndpointKind.LEASED_IP}),
    }


def _gpu_attributes(resources: Resources) -> dict[str, object]:
    """One entry a vendor; the last attribute of a vendor wins (bidding.md §8, 15)."""
    vendors: dict[str, dict[str, str]] = {}
    for item in resources.gpu_attributes:
        request = parse_gpu_request(item.key)
        if request is None:
            continue
        fields = {"model": request.model, "ram": request.memory_size, "interface": request.interface}
        vendors[request.vendor] = {name: value for name, value in fields.items() if value}
    return {"vendor": dict(sorted(vendors.items()))} if vendors else {}
