"""Wildcards: which text is one, what it covers, and the names of its objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.hostnames import covering_wildcards, covers, is_wildcard, overlapping, route_name
from lease.kubernetes_names import is_label, is_subdomain

LABELS = st.from_regex("[a-z][a-z0-9]{0,4}", fullmatch=True)
DOMAINS = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
HOSTNAMES = st.one_of(DOMAINS, DOMAINS.map(lambda domain: f"*.{domain}"))


@pytest.mark.parametrize("text", ["*.example.com", "*.a.b.c", "*.xn--bcher-kva.example", "*.1.2.3.4.example"])
def test_a_wildcard_is_one_star_and_a_domain(text: str) -> None:
    assert is_wildcard(text) and is_label(route_name(text))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "*",
            "*.",
            "*.com",
            "*example.com",
            "**.example.com",
            "*.*.example.com",
            "a.*.com",
            "example.com",
            "*..com",
        ),
        *("*.Example.com", "*.exa_mple.com", "*.example.com.", "*.example.com\n", "*.ex\0ample.com", "*.-a.com"),
        *("*.1.2.3.4", "*.example.1", "*.[::1]", f"*.{'a' * 64}.com", "*." + ".".join(["abcd"] * 51), "*.пример.рф"),
    ],
)
def test_other_text_is_no_wildcard(text: str) -> None:
    assert not is_wildcard(text)


def test_a_wildcard_covers_every_name_below_it_and_not_its_domain() -> None:
    assert [name for name in ("a.b.com", "x.a.b.com", "*.a.b.com") if covers("*.b.com", name)] == [
        *("a.b.com", "x.a.b.com", "*.a.b.com")
    ]
    assert not any(covers("*.b.com", name) for name in ("b.com", "*.b.com", "ab.com", "*.com", "xb.com", "a.b.com.org"))
    assert not covers("b.com", "a.b.com")
    assert list(covering_wildcards("x.a.b.com")) == ["*.a.b.com", "*.b.com", "*.com"]
    assert list(covering_wildcards("*.a.b.com")) == ["*.b.com", "*.com"]


@given(HOSTNAMES, st.sets(HOSTNAMES, max_size=6))
def test_what_overlaps_is_what_covers_or_is_covered(hostname: str, others: set[str]) -> None:
    found = sorted(overlapping(hostname, others))
    assert found == sorted(one for one in others if covers(one, hostname) or covers(hostname, one))
    assert found == sorted(overlapping(hostname, list(others)))


@given(st.sets(HOSTNAMES, min_size=2, max_size=2))
def test_each_hostname_has_an_object_s_name_of_its_own(pair: set[str]) -> None:
    one, two = (route_name(hostname) for hostname in pair)
    assert one != two and is_subdomain(one) and is_subdomain(two)


def test_the_name_of_a_wildcard_s_object_is_no_hostname_of_a_tenant() -> None:
    assert route_name("*.example.com") == "wildcard-f6hppnr4g5oc9lasl3hmvi888d9ri4aagufgfk4bpqnke"
    assert "." not in route_name("*.example.com")
