"""Every behaviour numbered T1 to T84 in kubernetes-objects.md §9 has a test.

A number is held by tests whose docstring cites it (`kubernetes-objects.md §9 T17`), or by tests of other rooms that are
named here, or it is named here with the reason why we have no such thing, or have it later.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TESTS = CHECKOUT / "tests"
REFERENCE = CHECKOUT / "docs" / "protocol" / "kubernetes-objects.md"
LAST = 84
CITATION = re.compile(r"kubernetes-objects\.md §9 T(\d+)\b")

CLAIMS = "provider/claims/test_hostname_claims.py"
ADDRESSES = "provider/claims/test_addresses.py"
STATUS = "provider/gateway/test_lease_routes.py"
EXCHANGES = "provider/gateway/test_recorded_exchanges.py::test_every_recorded_request_is_answered_as_recorded"
SERVING = "provider/lifecycle/test_serving.py"
RULES = "provider/lifecycle/test_rules.py"
LOOP = "provider/lifecycle/test_loop.py"
RECORDS = "provider/lifecycle/test_records.py"
LEDGER = "provider/inventory/test_ledger.py"
PAUSES = f"{RULES}::test_rule_5_a_fault_of_the_provider_is_tried_again_with_growing_pauses"
GIVEN_BACK = f"{SERVING}::test_hostnames_and_addresses_that_an_update_drops_are_given_back_with_their_pool"
WHOLE_PATH = "whole/test_whole_path.py::test_a_lease_is_what_its_tenant_and_the_cluster_see"

HELD_ELSEWHERE: dict[int, tuple[str, ...]] = {
    22: (f"{STATUS}::test_a_namespace_without_workloads_has_no_deployments",),
    23: (f"{STATUS}::test_a_running_lease_shows_its_service",),
    24: (
        f"{STATUS}::test_a_running_lease_shows_its_service",
        f"{STATUS}::test_a_service_status_lists_the_hostnames_of_that_service_only",
    ),
    25: (f"{STATUS}::test_ports_are_forwarded_when_a_global_port_is_not_80_as_stored", WHOLE_PATH),
    26: (f"{STATUS}::test_a_lease_without_a_manifest_is_not_found_in_three_ways",),
    31: (EXCHANGES, f"{STATUS}::test_a_lease_without_a_manifest_is_not_found_in_three_ways"),
    32: (
        "provider/kube/test_bad_servers.py::test_a_dead_port_is_named",
        "provider/lifecycle/test_provider_faults.py::test_our_trouble",
    ),
    42: (f"{CLAIMS}::test_blocked_names_are_refused",),
    43: (f"{CLAIMS}::test_blocked_names_are_refused",),
    44: (f"{CLAIMS}::test_a_name_of_another_lease_of_the_owner_is_withheld",),
    45: (f"{CLAIMS}::test_a_name_of_another_owner_is_refused_whatever_its_case_until_it_is_released",),
    46: (f"{CLAIMS}::test_a_name_of_another_owner_is_refused_whatever_its_case_until_it_is_released", GIVEN_BACK),
    47: (f"{CLAIMS}::test_names_may_be_moved_within_an_owner_only",),
    55: (GIVEN_BACK, f"{RULES}::test_rule_2_a_closed_lease_leaves_nothing_behind"),
    57: (f"{LOOP}::test_a_hostname_moved_away_is_let_go_by_its_old_holder",),
    64: (
        f"{LEDGER}::test_an_address_moves_from_promised_to_assigned",
        f"{LEDGER}::test_free_is_allocatable_less_scheduled_and_promised_whatever_happens",
    ),
    65: (
        f"{LEDGER}::test_a_pool_that_is_overdrawn_is_empty_not_negative",
        f"{LEDGER}::test_free_is_allocatable_less_scheduled_and_promised_whatever_happens",
    ),
    66: (f"{ADDRESSES}::test_no_free_address_names_the_setting_and_the_ranges",),
    67: (
        f"{LEDGER}::test_an_address_moves_from_promised_to_assigned",
        f"{SERVING}::test_two_owners_get_two_addresses_and_a_third_waits_until_one_is_free",
    ),
    70: ("provider/inventory/test_matcher.py::test_the_go_providers_placement_vectors_hold",),
    71: (f"{SERVING}::test_the_first_manifest_is_applied_once_and_runs_when_its_workloads_are_ready",),
    72: (f"{SERVING}::test_the_first_manifest_is_applied_once_and_runs_when_its_workloads_are_ready",),
    74: (
        "whole/test_faults.py::test_a_dead_api_server_is_named_and_waited_for",
        "whole/test_faults.py::test_a_dead_chain_is_named_waited_for_and_ends_no_lease",
    ),
    75: (
        f"{RECORDS}::test_a_manifest_object_read_back_is_the_manifest",
        f"{RECORDS}::test_every_recorded_manifest_comes_back_exactly",
    ),
    80: (WHOLE_PATH,),
    81: (WHOLE_PATH,),
}
"""Of other rooms: `path below tests/::test`. What they hold is the number's behaviour, in our words."""

INSTEAD: dict[int, tuple[str, tuple[str, ...]]] = {
    12: ("rights are a closed list; there is no registry to extend", ()),
    29: (
        "a service's status lists its own hostnames, not the lease's (Q20)",
        (f"{STATUS}::test_a_service_status_lists_the_hostnames_of_that_service_only",),
    ),
    30: (
        "as 29; without a global expose there is no hostname to list",
        ("lease/test_build.py::test_only_the_shared_edge_gets_hostnames",),
    ),
    56: ("no lease is ignored after failures; pauses grow instead", (PAUSES,)),
    59: ("no list of ignored leases; pauses grow instead", (PAUSES,)),
    60: ("no list of ignored leases, so nothing to prune", (PAUSES,)),
    63: ("no lease is ignored after failures; pauses grow instead", (PAUSES,)),
    68: (
        "the operators are parts of the provider; nothing is asked over HTTP",
        (f"{ADDRESSES}::test_a_claim_read_back_is_the_claim_that_was_written",),
    ),
    69: (
        "ports of nodes are promised to nobody: in the Go provider the counter is dead too (bidding.md §4.3)",
        (f"{LEDGER}::test_node_ports_are_reserved_once_and_a_deployment_reported_twice_counts_once",),
    ),
    77: (
        "versions are not compared; the store knows its own schema",
        ("provider/store/test_store.py::test_a_second_start_changes_nothing",),
    ),
    78: (
        "no list of migrations of the cluster; a lease is updated by its stack",
        ("provider/store/test_store.py::test_the_migrations_make_the_tables_that_the_code_reads",),
    ),
    79: (
        "no file of applied migrations",
        ("provider/store/test_store.py::test_a_second_start_changes_nothing",),
    ),
}
"""What we do not have, and what holds the purpose instead."""

LATER = {
    33: "shell into a pod: the gateway, later",
    34: "shell into a pod: the gateway, later",
    35: "shell into a pod: the gateway, later",
    36: "shell into a pod: the gateway, later",
    48: "migration of hostnames: declined until the operators do it",
    49: "migration of hostnames: declined until the operators do it",
    50: "migration of hostnames: declined until the operators do it",
    51: "migration of hostnames: declined until the operators do it",
    52: "migration of hostnames: declined until the operators do it",
    53: "migration of endpoints: declined until the operators do it",
    73: "the watchdog that closes the bid of a lease without a manifest",
}
"""Not built yet. Taken out when it is: a number that is cited may not be here."""


@cache
def named_in(path: Path) -> dict[str, str]:
    """Docstrings of a module's tests by name."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


@cache
def cited() -> dict[int, list[str]]:
    """Numbers to the tests whose docstring cites them."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if "kubernetes-objects.md §9 T" in path.read_text():
            for name, docstring in named_in(path).items():
                for number in CITATION.findall(docstring):
                    found.setdefault(int(number), []).append(f"{path.name}::{name}")
    return found


def test_every_number_is_held_by_a_test_or_has_a_reason():
    known = set(cited()) | set(HELD_ELSEWHERE) | set(INSTEAD) | set(LATER)
    assert sorted(set(range(1, LAST + 1)) - known) == []
    assert sorted(known - set(range(1, LAST + 1))) == []


def test_a_number_stands_in_one_place_only():
    listed = [*cited(), *HELD_ELSEWHERE, *INSTEAD, *LATER]
    assert sorted({number for number in listed if listed.count(number) > 1}) == []


@pytest.mark.parametrize("number", [*HELD_ELSEWHERE, *INSTEAD])
def test_every_test_that_is_named_here_exists(number):
    for place in HELD_ELSEWHERE.get(number) or INSTEAD[number][1]:
        path, _, name = place.partition("::")
        assert name in named_in(TESTS / path), place


def test_the_reference_numbers_what_is_indexed_here():
    section = REFERENCE.read_text().partition("\n## 9. ")[2].partition("\n## 10. ")[0]
    assert sorted({int(number) for number in re.findall(r"\*\*T(\d+)\*\*", section)}) == list(range(1, LAST + 1))
