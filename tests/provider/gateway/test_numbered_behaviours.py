"""The numbered behaviours of gateway.md §11: which test holds each, and those that no other module holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wsproto.frame_protocol import Opcode

from lease.ids import LeaseId, namespace_name
from provider.errors import ClusterError
from provider.gateway.auth.claims import Scope
from provider.gateway.rest.dispatch import CLUSTER_RETRY_S, cluster_refusal
from provider.gateway.rest.open_streams import close_code
from provider.gateway.rest.websocket import frame
from provider.gateway.streams.shell import result_json
from tests.data import document

TESTS = Path(__file__).resolve().parents[2]
RECORDED = "test_every_recorded_request_is_answered_as_recorded"
HELD_BY = {
    1: "test_the_published_signature_vectors_verify_as_published",
    2: "test_signing_as_rfc_6979_says_makes_the_published_tokens_byte_by_byte",
    3: "test_the_published_signature_vectors_verify_as_published",
    4: "test_a_signature_with_the_other_s_is_refused",
    5: "test_the_wallet_document_is_the_canonical_one",
    6: "test_the_published_claim_vectors_are_accepted_or_refused",
    7: "test_the_published_claim_vectors_are_accepted_or_refused",
    8: "test_the_published_schema_takes_the_claims_that_the_server_takes_and_three_more",
    9: "test_the_published_claim_vectors_are_accepted_or_refused",
    10: "test_the_scopes_are_the_ten_of_the_schema",
    11: "test_a_client_certificate_is_as_good_as_a_token_and_both_at_once_are_refused",
    12: RECORDED,
    13: RECORDED,
    14: "test_an_internal_error_is_a_500_without_internal_details",
    15: "test_an_internal_error_is_a_500_without_internal_details",
    16: "test_an_error_of_the_cluster_has_its_status_and_its_close_code",
    17: "test_an_error_of_the_cluster_has_its_status_and_its_close_code",
    18: "test_an_error_of_the_cluster_has_its_status_and_its_close_code",
    19: RECORDED,
    20: RECORDED,
    21: RECORDED,
    22: RECORDED,
    23: RECORDED,
    24: "test_an_accepted_manifest_is_in_the_cluster_and_announced_when_200_is_read",
    25: RECORDED,
    26: RECORDED,
    27: "test_a_running_lease_shows_its_service",
    28: "test_a_cluster_that_fails_is_not_answered_200",
    29: "test_a_service_that_the_manifest_does_not_name_is_not_found",
    30: "test_every_recorded_migration_is_answered_as_recorded",
    31: "test_the_claims_after_the_recorded_migrations_are_those_of_the_go_provider",
    32: "test_claims_that_cannot_be_read_are_a_500_and_nothing_is_transferred",
    33: "test_an_endpoint_that_cannot_be_declared_is_a_500_with_a_text",
    34: "test_recorded_requests_with_a_client_certificate_are_answered_as_recorded",
    36: "test_a_frame_has_its_code_before_its_data",
    37: "test_what_a_client_sends_reaches_the_command_in_its_order",
    38: "test_a_result_has_a_message_only_when_there_is_one",
    39: "test_a_pod_that_cannot_run_a_command_is_refused_in_gos_words",
    40: "test_pods_are_indexed_by_name",
    41: "test_a_namespace_without_workloads_has_no_deployments",
    42: "test_a_service_status_lists_the_hostnames_of_that_service_only",
    43: "test_ports_are_forwarded_when_a_global_port_is_not_80_as_stored",
    44: "test_without_a_readable_manifest_no_service_is_known",
    45: "test_a_wrong_value_names_the_variable_and_what_is_allowed",
    46: "test_blocked_names_are_refused",
    47: "test_a_name_of_another_lease_of_the_owner_is_withheld",
    48: "test_names_may_be_moved_within_an_owner_only",
    49: "test_a_sharing_key_is_the_owner_and_the_endpoint",
    50: "test_the_namespace_of_a_lease_is_the_published_one",
    51: "test_the_reclamation_window_is_nanoseconds_and_left_out_when_unset",
    52: "test_addresses_in_use_and_promised_ones_are_allocated_and_none_counts_twice",
    53: "test_more_promised_than_there_is_leaves_none_and_the_status_names_no_more_than_there_is",
    54: "test_a_pair_of_quantities_is_the_same_after_the_wire",
    57: "test_a_value_reaches_every_subscriber_of_its_topic_and_no_other",
    58: "test_a_retained_value_is_given_to_later_subscribers_newest_only",
    62: "test_a_lease_is_what_its_tenant_and_the_cluster_see",
}
OF_OTHERS = {
    35: "the error object of the Go client",
    55: "the Go provider's store of accounts; provider/gateway/auth/lookups.py keeps what is known, without a store",
    56: "the Go provider's store of certificates, as 55",
    59: "the archive of the Go provider's issuer; the issuer here keeps one certificate and replaces its file",
    60: "the constructor of the Go client",
    61: "the certificates of the TypeScript client",
}
"""Numbers that concern a program which is not here: what it is."""


def test_every_number_is_held_by_a_test_or_concerns_another_program() -> None:
    assert sorted([*HELD_BY, *OF_OTHERS]) == list(range(1, 63))


def test_each_number_is_held_by_a_test_that_exists() -> None:
    there = {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", file.read_text())}
    assert {number: name for number, name in HELD_BY.items() if name not in there} == {}


@pytest.mark.parametrize(
    ("status", "answer", "code"),
    [
        *((status, 503, 4002) for status in (0, 408, 409, 429, 502, 503, 504)),
        *((404, 404, 4001), (500, 500, 4000), (403, 500, 4000), (422, 500, 4000), (507, 500, 4000)),
    ],
)
def test_an_error_of_the_cluster_has_its_status_and_its_close_code(status: int, answer: int, code: int) -> None:
    error = ClusterError("https://192.0.2.1:6443", "connection refused", status=status)
    refusal = cluster_refusal(error)
    assert (refusal.status, close_code(error)) == (answer, code)
    assert refusal.retry_after_s == (CLUSTER_RETRY_S if answer == 503 else 0)
    assert refusal.text.startswith("kube: ")
    assert "192.0.2.1" not in refusal.text


@pytest.mark.parametrize(("size", "head"), [(3, 2), (125, 2), (126, 4), (65535, 4), (65536, 10)])
def test_a_frame_has_its_code_before_its_data(size: int, head: int) -> None:
    data = b"\xab" + b"\x01" * (size - 1)
    sent = frame(Opcode.BINARY, data)
    assert (sent[0], sent[head:]) == (0x82, data)
    assert frame(Opcode.BINARY, b"\xab\x01\x02\x03") == b"\x82\x04\xab\x01\x02\x03"


def test_a_result_has_a_message_only_when_there_is_one() -> None:
    assert result_json(0) == b'{"exit_code":0}\n'
    assert result_json(1) == b'{"exit_code":1}\n'
    assert result_json(0, "bob") == b'{"exit_code":0,"message":"bob"}\n'


def test_the_scopes_are_the_ten_of_the_schema() -> None:
    schema = document("jwt/jwt-schema.json")
    assert [scope.value for scope in Scope] == schema["definitions"]["action-scope"]["items"]["enum"]


def test_the_namespace_of_a_lease_is_the_published_one() -> None:
    owner, provider = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh", "akash1365yvmc4s7awdyj3n2sav7xfx76adc6dnmlx63"
    published = "s4ctrc8q7k2ljbgrgabo9f0bckqbth52ogir9s84sgae8"
    assert namespace_name(LeaseId(owner, 12345, 1, 1, provider)) == published
