"""Whether this provider may bid on an order: the checks of bidding.md §1.4, and what the chain would refuse (§1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lease.attributes import has_capabilities, subset
from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Attribute, Resources
from lease.validation import group_problems
from provider.chain.group_size import MOST_PARTS, MOST_TEXT, MOST_UNITS
from provider.market.terms import Audits, Notice, OwnerRules, Rules, TenantHoldings
from provider.protocols.chain import Order, OrderState, ProviderRecord

__all__ = ["MAX_AUDITORS", "Check", "auditors_of", "eligibility"]

_MAX_VOLUMES = 4
"""Volumes of a unit (bidding.md §1.4, row 5)."""
MAX_AUDITORS = 32
"""Auditors of one order. Each costs a query, and a tenant can name any number."""
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Check:
    """One check; it is passed when there are no reasons."""

    name: str
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.reasons


def eligibility(
    order: Order, record: ProviderRecord, *, rules: Rules, audits: Audits, tenant: TenantHoldings
) -> list[Check]:
    """Every check, whichever of them fails. For an order that is too large only the first four."""
    spec, wanted = order.spec, order.spec.requirements.attributes or ()
    units = spec.units
    first = [
        _check("wallet", (rules.paused,) if rules.paused else ()),
        _check("order", _order_reasons(order, record)),
        _check("tenant", _owner_reasons(order.id.owner, rules.owners, tenant)),
        _check("size", _size_reasons(spec)),
    ]
    if not first[-1].passed:
        return first
    return [
        *first,
        _check("attributes", _missing(wanted, record.attributes)),
        _check("order filter", _filter_reasons(wanted, rules.order_filter)),
        _check("capabilities", (reason for unit in units for reason in _capability_reasons(unit, record))),
        _check("volumes", (reason for unit in units for reason in _volume_reasons(unit))),
        _check("signatures", _signature_reasons(spec, record, audits)),
        _check("group", (f"the group is not valid: {problem}" for problem in group_problems((spec,)))),
        _check("denom", _denom_reasons(spec, rules.denoms)),
        _check("reclamation", _reclamation_reasons(order, rules.notice)),
    ]


def auditors_of(spec: GroupSpec) -> tuple[str, ...]:
    """The distinct auditors that the order names, those of all_of first."""
    signed_by = spec.requirements.signed_by
    return tuple(dict.fromkeys((*(signed_by.all_of or ()), *(signed_by.any_of or ()))))


def _owner_reasons(owner: str, rules: OwnerRules, tenant: TenantHoldings) -> Iterator[str]:
    """The tenant lists, and the limits of one tenant."""
    if owner in rules.denied:
        yield "the tenant is on this provider's deny list"
    if rules.allowed is not None and owner not in rules.allowed:
        yield "the tenant is not on this provider's allow list"
    for have, most, what in (
        (tenant.open_bids, rules.open_bids, "open bids"),
        (tenant.leases, rules.leases, "leases"),
        (tenant.bids_lately, rules.bids_an_hour, "bids of the last hour that did not become leases"),
    ):
        if most and have >= most:
            yield f"the tenant has {have} {what}, the limit is {most}"


def _check(name: str, reasons: Iterable[str]) -> Check:
    return Check(name, tuple(reasons))


def _order_reasons(order: Order, record: ProviderRecord) -> Iterator[str]:
    if order.state is not OrderState.OPEN:
        yield f"the order is {order.state.name.lower()}"
    if order.id.owner == record.owner:
        yield "the tenant is this provider's own account"


def _size_reasons(spec: GroupSpec) -> Iterator[str]:
    """Why the order is too large to be compared with the nodes."""
    if spec.oversize:
        yield spec.oversize
        return
    if len(spec.units) > MOST_UNITS:
        yield f"the order has {len(spec.units)} units, at most {MOST_UNITS} are allowed"
        return
    signed_by, required = spec.requirements.signed_by, spec.requirements.attributes or ()
    auditors = (*(signed_by.all_of or ()), *(signed_by.any_of or ()))
    resources = [unit.resources for unit in spec.units]
    attributes = (*required, *(item for one in resources for item in _attributes(one)))
    parts = len(attributes) + len(auditors) + sum(map(_volumes_and_endpoints, resources))
    if parts > MOST_PARTS:
        yield f"the order has {parts} attributes, auditors, volumes and endpoints, at most {MOST_PARTS} are allowed"
    text = sum(len(item.key) + len(item.value) for item in attributes) + sum(map(len, auditors))
    if text > MOST_TEXT:
        yield f"the order's attributes and auditors have {text} characters, at most {MOST_TEXT} are allowed"


def _attributes(item: Resources) -> Iterator[Attribute]:
    yield from (*item.cpu_attributes, *item.memory_attributes, *item.gpu_attributes)
    for volume in item.storage or ():
        yield from volume.attributes


def _volumes_and_endpoints(item: Resources) -> int:
    return len(item.storage or ()) + len(item.endpoints or ())


def _missing(wanted: tuple[Attribute, ...], offered: tuple[Attribute, ...]) -> Iterator[str]:
    for item in wanted:
        if not subset((item,), offered):
            yield f"the order requires attribute {_shown(item)}, which the provider does not have"


def _filter_reasons(wanted: tuple[Attribute, ...], order_filter: tuple[Attribute, ...]) -> Iterator[str]:
    if not subset(order_filter, wanted):
        filters = ", ".join(_shown(item) for item in order_filter)
        yield f"the order does not require the attributes that this provider filters by: {filters}"


def _shown(item: Attribute) -> str:
    return f"{item.key[:_SHOWN]}={item.value[:_SHOWN]}"


def _capability_reasons(unit: ResourceUnit, record: ProviderRecord) -> Iterator[str]:
    if not has_capabilities(unit.resources, record.attributes):
        yield (
            f"unit {unit.resources.id}: the provider's attributes do not declare the storage class or GPU that the "
            "unit asks for"
        )


def _volume_reasons(unit: ResourceUnit) -> Iterator[str]:
    volumes = unit.resources.storage or ()
    if len(volumes) > _MAX_VOLUMES:
        yield f"unit {unit.resources.id}: {len(volumes)} volumes, at most {_MAX_VOLUMES} are allowed"


def _signature_reasons(spec: GroupSpec, record: ProviderRecord, audits: Audits) -> Iterator[str]:
    """Each auditor of all_of, and one of any_of, must have signed the required attributes (bidding.md §3.3)."""
    signed_by, wanted = spec.requirements.signed_by, spec.requirements.attributes or ()
    count = len(auditors_of(spec))
    if count > MAX_AUDITORS:
        yield f"the order names {count} auditors, at most {MAX_AUDITORS} are allowed"
        return

    def signed(auditor: str) -> bool:
        found = audits.get(auditor, ())
        return bool(found) and subset(wanted, found)

    for auditor in signed_by.all_of or ():
        if not signed(auditor):
            yield f"auditor {auditor[:_SHOWN]} has not signed the required attributes for {record.owner}"
    if signed_by.any_of and not any(signed(auditor) for auditor in signed_by.any_of):
        names = ", ".join(auditor[:_SHOWN] for auditor in signed_by.any_of)
        yield f"none of the auditors {names} has signed the required attributes"


def _denom_reasons(spec: GroupSpec, denoms: tuple[str, ...]) -> Iterator[str]:
    """A valid group has one denom."""
    denom = spec.units[0].price.denom if spec.units else ""
    if denoms and denom not in denoms:
        yield f"the order pays in {denom[:_SHOWN]}, this provider bids in {', '.join(denoms)} (LESSOR_BID_DENOMS)"


def _reclamation_reasons(order: Order, notice: Notice) -> Iterator[str]:
    """What the chain would refuse with the codes 39, 40 and 41 (chain.md §10)."""
    asked, offered = order.reclamation_ns, notice.window_s * 10**9
    if offered and not notice.least_ns <= offered <= notice.most_ns:
        bounds = f"{_seconds(notice.least_ns)} to {_seconds(notice.most_ns)}"
        yield f"this provider's reclamation window of {notice.window_s} s is outside the chain's bounds of {bounds}"
    if asked is None:
        return
    if not offered:
        yield (
            f"the order asks for a reclamation window of {_seconds(asked)}, this provider offers none "
            "(AP_RECLAMATION_WINDOW)"
        )
    elif offered < asked:
        yield f"the order asks for a reclamation window of {_seconds(asked)}, this provider offers {notice.window_s} s"


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 10**9:g} s"
