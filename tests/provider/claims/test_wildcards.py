"""Who may use a wildcard, and a name below one."""

from __future__ import annotations

import re

import pytest

from lease.ids import LeaseId
from provider.claims.foreign_routes import NO_ROUTES, ForeignRoutes
from provider.claims.hostnames import (
    HostnameClaim,
    HostnameRefusedError,
    HostnameRules,
    check_hostnames,
    host_claims,
    host_object,
    withheld_from,
)
from provider.claims.released import NOTHING_RELEASED, Release

MINE, MINE_TOO = (LeaseId("akash1owner", dseq, 1, 1, "akash1provider") for dseq in (1, 2))
THEIRS = LeaseId("akash1other", 3, 1, 1, "akash1provider")
RULES = HostnameRules((".blocked.org", "one.example.org"), "provider.example.net", "in.example.net", wildcards=True)
WILD = "*.example.com"


def held(lease: LeaseId, *hostnames: str) -> dict[str, HostnameClaim]:
    return {name: HostnameClaim(name, lease, "web", 80) for name in hostnames}


def refusal(
    hostname: str,
    claims: dict[str, HostnameClaim] | None = None,
    *,
    rules: HostnameRules = RULES,
    routes: ForeignRoutes = NO_ROUTES,
    releases: dict[str, Release] | None = None,
) -> str:
    """Why MINE may not claim the hostname."""
    try:
        check_hostnames(
            [hostname],
            MINE.owner,
            claims=claims or {},
            rules=rules,
            routes=routes,
            releases=releases or NOTHING_RELEASED,
        )
    except HostnameRefusedError as refused:
        return str(refused).removeprefix("hostname not allowed: ")
    return ""


@pytest.mark.parametrize("hostname", [WILD, "*.EXAMPLE.com", "*.a.example.com"])
def test_a_wildcard_is_claimed_where_the_operator_allows_it(hostname: str) -> None:
    assert refusal(hostname) == ""
    assert "which this provider does not serve" in refusal(hostname, rules=HostnameRules())


@pytest.mark.parametrize("hostname", ["*", "*.com", "a.*.example.com", "*.*.example.com", "*example.com"])
def test_what_is_no_wildcard_is_refused(hostname: str) -> None:
    assert "does not serve" in refusal(hostname)


@pytest.mark.parametrize(
    ("hostname", "blocked"),
    [
        ("*.blocked.org", True),
        ("*.a.blocked.org", True),
        ("*.example.org", True),  # would serve one.example.org
        ("*.one.example.org", False),
        ("*.example.net", True),  # would serve the provider's own names
        ("*.in.example.net", True),
        ("*.x.in.example.net", True),
        ("*.provider.example.net", False),
    ],
)
def test_a_wildcard_that_covers_a_blocked_name_or_the_provider_s_own_is_refused(hostname: str, blocked: bool) -> None:
    assert ("is blocked by this provider" in refusal(hostname)) is blocked


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ("a.example.com", WILD),
        ("x.a.example.com", WILD),
        ("*.a.example.com", WILD),
        (WILD, "a.example.com"),
        (WILD, "x.a.example.com"),
        (WILD, "*.a.example.com"),
        (WILD, WILD),
    ],
)
def test_who_comes_first_keeps_a_wildcard_or_a_name_below_it_from_other_owners(asked: str, there: str) -> None:
    assert refusal(asked, held(THEIRS, there)) == f'host "{asked}" in use'
    assert refusal(asked, held(MINE_TOO, there)) == ""
    assert refusal(asked, held(THEIRS, there) | held(MINE_TOO, asked)) == "", "what is claimed stays"


@pytest.mark.parametrize(("asked", "there"), [("example.com", WILD), (WILD, "example.com"), ("*.b.com", "*.a.com")])
def test_a_domain_and_the_names_below_it_may_have_two_owners(asked: str, there: str) -> None:
    assert refusal(asked, held(THEIRS, there)) == ""


def test_one_owner_has_a_wildcard_and_a_name_below_it_in_two_leases() -> None:
    claims = held(MINE, WILD)
    assert withheld_from(MINE_TOO, ["a.example.com"], claims=claims, rules=RULES) == frozenset()
    assert withheld_from(MINE_TOO, [WILD, "a.example.com"], claims=claims, rules=RULES) == {WILD}


@pytest.mark.parametrize(
    ("routes", "hostname", "served"),
    [
        (ForeignRoutes(exact=frozenset({"grafana.example.com"})), WILD, True),
        (ForeignRoutes(suffixes=frozenset({".example.com"})), WILD, True),
        (ForeignRoutes(suffixes=frozenset({".tools.example.com"})), WILD, True),
        (ForeignRoutes(suffixes=frozenset({".com"})), WILD, True),
        (ForeignRoutes(exact=frozenset({"example.com"})), WILD, False),
        (ForeignRoutes(suffixes=frozenset({".example.org"})), WILD, False),
    ],
)
def test_a_wildcard_takes_no_host_of_an_operator_s_route(routes: ForeignRoutes, hostname: str, served: bool) -> None:
    assert (refusal(hostname, routes=routes) == f'host "{hostname}" in use') is served


@pytest.mark.parametrize(("asked", "released"), [(WILD, "a.example.com"), ("a.example.com", WILD), (WILD, WILD)])
def test_a_release_below_or_above_is_waited_for(asked: str, released: str) -> None:
    assert "was released by another account" in refusal(asked, releases={released: Release(THEIRS.owner, 60.0)})
    assert refusal(asked, releases={released: Release(MINE.owner, 60.0)}) == ""


def test_a_wildcard_s_claim_is_read_back_from_an_object_with_a_name_of_kubernetes() -> None:
    claim = HostnameClaim(WILD, MINE, "web", 80)
    obj = host_object(MINE, claim, namespace="lease")
    assert re.fullmatch("wildcard-[0-9a-v]{45}", obj["metadata"]["name"]) and obj["spec"]["hostname"] == WILD
    assert host_claims([obj]) == {WILD: claim}


@pytest.mark.parametrize("port", ["many", None, [80], {}])
def test_a_claim_with_a_malformed_port_is_a_claim_all_the_same(port: object) -> None:
    obj = host_object(MINE, HostnameClaim(WILD, MINE, "web", 80), namespace="lease")
    obj["spec"]["external_port"] = port
    assert host_claims([obj])[WILD].external_port == 0
