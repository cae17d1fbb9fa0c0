"""Group specs to JSON and back (sdl-and-manifest.md §2.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from lease.go_json import go_json
from lease.groups import GroupSpec, Requirements, ResourceUnit, SignedBy
from lease.manifest_decode import resources_from_value
from lease.manifest_json import attributes_value, resources_value
from lease.resources import Attribute, Price

__all__ = ["groups_from_value", "groups_json", "groups_value"]


def _unit_value(unit: ResourceUnit) -> dict[str, Any]:
    return {
        "resource": resources_value(unit.resources),
        "count": unit.count,
        "price": {"denom": unit.price.denom, "amount": f"{unit.price.amount:.18f}"},
    }


def groups_value(groups: Sequence[GroupSpec]) -> list[dict[str, Any]]:
    """The group specs as JSON values, members in Go's order; amounts with 18 decimals."""
    return [
        {
            "name": group.name,
            "requirements": {
                "signed_by": {
                    "all_of": group.requirements.signed_by.all_of,
                    "any_of": group.requirements.signed_by.any_of,
                },
                "attributes": None
                if group.requirements.attributes is None
                else attributes_value(group.requirements.attributes),
            },
            "resources": [_unit_value(unit) for unit in group.units],
        }
        for group in groups
    ]


def groups_json(groups: Sequence[GroupSpec], *, indent: int | None = None) -> str:
    """`groups_value` as text, as Go writes it."""
    return go_json(groups_value(groups), indent=indent)


def _texts(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _requirements(value: Mapping[str, Any]) -> Requirements:
    signed_by = value.get("signed_by") or {}
    attributes = value.get("attributes")
    return Requirements(
        SignedBy(_texts(signed_by.get("all_of")), _texts(signed_by.get("any_of"))),
        None
        if attributes is None
        else tuple(Attribute(item.get("key", ""), item.get("value", "")) for item in attributes),
    )


def _unit(value: Mapping[str, Any]) -> ResourceUnit:
    price = value["price"]
    return ResourceUnit(
        resources_from_value(value["resource"]), int(value["count"]), Price(price["denom"], Decimal(price["amount"]))
    )


def groups_from_value(value: Sequence[Mapping[str, Any]]) -> tuple[GroupSpec, ...]:
    """The group specs of a `groups_value`. It expects a value of this project or a fixture, not a tenant's: `KeyError`
    and the like pass through.
    """
    return tuple(
        GroupSpec(
            group["name"], _requirements(group["requirements"]), tuple(_unit(unit) for unit in group["resources"])
        )
        for group in value
    )
