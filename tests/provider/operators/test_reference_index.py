"""Every numbered behaviour of operators.md §10, and each derived one, has a test.

Items 1 to 20 and D1 to D3 are the inventory operator's, whose tests carry the number in their name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
TESTS = CHECKOUT / "tests" / "provider"
REFERENCE = CHECKOUT / "docs" / "protocol" / "operators.md"
LAST, LAST_DERIVED = 58, 8

OPERATORS = "operators/test_operators.py"
PLACEMENT, INVENTORY = "operators/inventory/test_placement.py", "operators/inventory/test_operator.py"
CLAIMS, HOSTNAMES = "claims/test_hostname_claims.py", "../components/test_hostname.py"
NAMED = re.compile(r"^test_(d?\d+)(?:_(and|to)_(\d+))?_")

HELD: dict[str, tuple[str, ...]] = {
    "20": (f"{PLACEMENT}::test_16_to_19_the_market_places_what_fits_on_the_nodes_that_the_operator_labels",),
    "24": ("../lease/test_attributes.py::test_a_sharing_key_is_the_owner_and_the_endpoint",),
    "35": (f"{OPERATORS}::test_the_list_is_pruned_to_its_limit_and_shows_every_lease",),
    "36": (f"{OPERATORS}::test_a_lease_is_flagged_at_the_limit_of_errors",),
    "37": (f"{OPERATORS}::test_only_dirty_bodies_are_made_and_an_error_of_one_is_raised",),
    "38": (f"{OPERATORS}::test_only_dirty_bodies_are_made_and_an_error_of_one_is_raised",),
    "40": (f"{HOSTNAMES}::test_an_http_route_sends_every_path_of_one_host_to_one_service",),
    "41": (f"{HOSTNAMES}::test_route_options_carry_seconds_bytes_and_cases",),
    "42": (f"{HOSTNAMES}::test_status_codes_are_spelt_for_nginx_and_no_waiting_time_says_nothing",),
    "43": (f"{HOSTNAMES}::test_no_cases_say_nothing_on_a_route_and_an_empty_text_on_an_ingress",),
    "44": (
        f"{HOSTNAMES}::test_both_kinds_say_whose_lease_they_serve",
        "lifecycle/test_rules.py::test_rule_2_a_closed_lease_leaves_nothing_behind",
    ),
    "45": (f"{HOSTNAMES}::test_a_body_size_of_zero_means_no_option_was_given",),
    "47": (f"{OPERATORS}::test_a_flagged_lease_is_ignored_and_its_deletion_is_not",),
    "48": (f"{OPERATORS}::test_the_hostname_operator_serves_claims_whose_port_the_manifest_has",),
    "50": (f"{OPERATORS}::test_a_flagged_lease_is_ignored_and_its_deletion_is_not",),
    "51": (f"{OPERATORS}::test_the_hostname_operator_serves_claims_whose_port_the_manifest_has",),
    "52": (f"{OPERATORS}::test_the_hostname_operator_serves_claims_whose_port_the_manifest_has",),
    "53": (f"{OPERATORS}::test_a_migrated_hostname_is_listed_with_its_new_lease",),
    "54": (f"{CLAIMS}::test_blocked_names_are_refused",),
    "55": (f"{CLAIMS}::test_a_name_of_another_lease_of_the_owner_is_withheld",),
    "56": (f"{CLAIMS}::test_a_name_of_another_owner_is_refused_whatever_its_case_until_it_is_released",),
    "57": (f"{CLAIMS}::test_names_may_be_moved_within_an_owner_only",),
    "d4": ("settings/test_settings.py::test_addresses_that_end_in_0_or_255_are_not_leased",),
    "58": ("lifecycle/test_records.py::test_a_manifest_object_read_back_is_the_manifest",),
    "d2": (f"{INVENTORY}::test_a_node_that_takes_no_pods_leaves_the_state_and_loses_its_managed_labels",),
    "d5": (
        f"{HOSTNAMES}::test_the_golden_ingress_annotations",
        f"{HOSTNAMES}::test_milliseconds_are_rounded_up_to_seconds",
    ),
    "d7": (f"{OPERATORS}::test_the_status_of_a_lease_leaves_out_what_has_no_address_yet",),
}  # fmt: skip
WITHOUT = {
    "29": "the IP operator makes no Service, so that no event of it can fail (differences.md, claims-operators)",
    "32": "the provider asks no IP operator: leases' stacks make the Services (differences.md, claims-operators)",
    "33": "as 32",
    "34": "as 32",
    "39": "no process waits for operators: what the cluster lacks is a reason for no bids",
}
"""Items of the Go provider's client and waiter that have no counterpart here, and why."""


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def numbers(name: str) -> Iterator[str]:
    """The items in a test's name: `test_14_and_15_…`, `test_16_to_19_…`, `test_d3_…`."""
    if found := NAMED.match(name):
        first, joint, last = found.groups()
        yield first
        if joint == "and":
            yield last
        elif joint == "to":
            yield from map(str, range(int(first), int(last) + 1))


@cache
def named_items() -> frozenset[str]:
    files = (TESTS / "operators").rglob("test_*.py")
    return frozenset(item for path in files for name in names_in(path) for item in numbers(name))


def every_item() -> list[str]:
    return [*map(str, range(1, LAST + 1)), *(f"d{number}" for number in range(1, LAST_DERIVED + 1))]


@pytest.mark.parametrize("item", every_item())
def test_every_item_is_held_by_a_test(item: str) -> None:
    if item in WITHOUT:
        assert item not in HELD and item not in named_items()
        return
    assert item in HELD or item in named_items(), f"operators.md §10, {item} has no test"
    for place in HELD.get(item, ()):
        path, _, name = place.partition("::")
        assert name in names_in((TESTS / path).resolve()), place


def test_the_reference_has_no_other_items() -> None:
    text = REFERENCE.read_text().partition("## 10.")[2]
    found = set(re.findall(r"(?:^|(?<=\. )|(?<=\] ))(\d{1,2})\. (?=\S)", text, re.MULTILINE))
    assert {str(number) for number in range(1, LAST + 1)} >= found >= {"1", "21", str(LAST)}
    assert re.findall(r"^D(\d+)\. ", text, re.MULTILINE) == [str(number) for number in range(1, LAST_DERIVED + 1)]
