"""Who may use a hostname: the table of kubernetes-objects.md §9, T42 to T47."""

from __future__ import annotations

from typing import Any

import pytest

from lease.ids import LeaseId
from lease.spec import HostnameSpec
from provider.claims.hostnames import (
    HostnameClaim,
    HostnameRefusedError,
    HostnameRules,
    check_hostnames,
    check_transfer,
    host_claims,
    host_object,
    withheld_from,
)

ONE = LeaseId("akash1owner", 1, 1, 1, "akash1provider")
TWO = LeaseId("akash1owner", 2, 1, 1, "akash1provider")
THEIRS = LeaseId("akash1other", 3, 1, 1, "akash1provider")


def held(lease: LeaseId, *hostnames: str) -> dict[str, HostnameClaim]:
    return {name: HostnameClaim(name, lease, "web", 80) for name in hostnames}


@pytest.mark.parametrize(
    ("blocked", "asked", "refused"),
    [
        (["foobar.com", "bobsdefi.com"], ["foobar.com", "other.org"], '"foobar.com" is blocked by this provider'),
        ([".bobsdefi.com"], ["accounts.bobsdefi.com"], 'domain "accounts.bobsdefi.com" is blocked by this provider'),
        ([".bobsdefi.com"], ["bobsdefi.com"], 'domain "bobsdefi.com" is blocked by this provider'),
        ([".BobsDefi.com"], ["ACCOUNTS.bobsdefi.com"], "is blocked by this provider"),
        ([".bobsdefi.com"], ["notbobsdefi.com"], ""),
        (["foobar.com"], ["sub.foobar.com"], ""),
        ([], ["foobar.com"], ""),
    ],
)
def test_blocked_names_are_refused(blocked: list[str], asked: list[str], refused: str) -> None:
    if not refused:
        return check_hostnames(asked, "akash1owner", claims={}, rules=HostnameRules(blocked))
    with pytest.raises(HostnameRefusedError, match=refused):
        check_hostnames(asked, "akash1owner", claims={}, rules=HostnameRules(blocked))
    return None


def test_a_name_of_another_lease_of_the_owner_is_withheld() -> None:
    claims = held(ONE, "meow.com", "kittens.com", "cats.com")
    assert withheld_from(ONE, ["kittens.com", "meow.com"], claims=claims) == frozenset()
    assert withheld_from(TWO, ["dogs.com", "MEOW.com", "ferrets.com"], claims=claims) == {"meow.com"}


def test_a_name_of_another_owner_is_refused_whatever_its_case_until_it_is_released() -> None:
    with pytest.raises(HostnameRefusedError, match=r'hostname not allowed: host "kittens\.com" in use'):
        withheld_from(THEIRS, ["KITTENS.com"], claims=held(ONE, "kittens.com"))
    assert withheld_from(THEIRS, ["KITTENS.com"], claims={}) == frozenset()


def test_a_new_order_of_the_same_group_keeps_its_names() -> None:
    again = LeaseId("akash1owner", 1, 1, 2, "akash1provider")
    assert withheld_from(again, ["meow.com"], claims=held(ONE, "meow.com")) == frozenset()


def test_names_may_be_moved_within_an_owner_only() -> None:
    claims = held(ONE, "kittens.org")
    check_transfer(["kittens.org", "unheard-of.org"], TWO, claims=claims)
    check_transfer(["kittens.org"], ONE, claims=claims)
    with pytest.raises(HostnameRefusedError, match=r'host "kittens\.org" in use'):
        check_transfer(["unheard-of.org", "Kittens.org"], THEIRS, claims=claims)


def test_a_claim_read_back_is_the_claim_that_was_written() -> None:
    host = HostnameSpec(
        hostname="Meow.com",
        service="web",
        external_port=80,
        max_body_size=1,
        read_timeout=1,
        send_timeout=1,
        next_tries=1,
        next_timeout=0,
        next_cases=(),
    )
    obj = host_object(ONE, host, namespace="lease")
    assert obj["metadata"]["name"] == "meow.com" and obj["spec"]["dseq"] == 1
    assert host_claims([obj]) == held(ONE, "meow.com")


@pytest.mark.parametrize("drop", ["owner", "dseq", "gseq", "oseq", "provider"])
def test_an_object_without_a_whole_lease_claims_nothing(drop: str) -> None:
    labels = {f"akash.network/lease.id.{key}": "1" for key in ("owner", "dseq", "gseq", "oseq", "provider")}
    del labels[f"akash.network/lease.id.{drop}"]
    obj: dict[str, Any] = {"metadata": {"name": "a.com", "labels": labels}, "spec": {"hostname": "a.com"}}
    assert host_claims([obj]) == {}
    labels[f"akash.network/lease.id.{drop}"] = "-1" if drop.endswith("seq") else ""
    assert host_claims([obj]) == {}
