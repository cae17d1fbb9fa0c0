"""Hostnames: an Ingress or HTTPRoute serves one hostname of the lease, by a Service of the lease."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any

from lease.hostnames import covers, is_wildcard, route_name
from lease.kubernetes_names import SUBDOMAIN_PATTERN
from policies.pods import at, items, listed
from policies.rules import Level, Manifest, ObjectProblem, Objects, Rule, RuleScope, Severity, fence, of_each

__all__ = ["RULES", "denied_hostnames"]

_EDGES = ("Ingress", "HTTPRoute")
_NAME = re.compile(SUBDOMAIN_PATTERN)
_CLUSTER_NAMES = (".cluster.local", ".svc", ".internal")
_INGRESS_FIELDS = frozenset({"ingressClassName", "rules"})
_ROUTE_FIELDS = frozenset({"parentRefs", "hostnames", "rules"})
_RULE_FIELDS = {"Ingress": frozenset({"host", "http"}), "HTTPRoute": frozenset({"matches", "backendRefs", "timeouts"})}


def _hosts(manifest: Manifest) -> list[object]:
    spec = at(manifest, "spec")
    if manifest.get("kind") == "HTTPRoute":
        return list(listed(spec.get("hostnames") or ""))
    return [rule.get("host") for rule in items(spec, "rules")] or [None]


def _one_hostname(manifest: Manifest) -> Iterator[str]:
    hosts = _hosts(manifest)
    for host in hosts:
        text = host if isinstance(host, str) else ""
        if not text or ("*" in text and not is_wildcard(text)):
            yield f"it takes requests of host {text[:200] or 'any'}"
        elif not (_NAME.fullmatch(text) or is_wildcard(text)) or text.endswith(_CLUSTER_NAMES):
            yield f"{text[:200]!r} is no hostname of the internet"
        elif route_name(text) != at(manifest, "metadata").get("name"):
            yield f"it is not named after its hostname {text[:200]}"
    if len(hosts) > 1:
        yield f"it takes requests of {len(hosts)} hosts"
    if at(manifest, "spec").get("defaultBackend"):
        yield "it takes every request of the edge that no other object takes"


def _known_route(manifest: Manifest) -> Iterator[str]:
    kind = str(manifest.get("kind"))
    spec = at(manifest, "spec")
    known = _ROUTE_FIELDS if kind == "HTTPRoute" else _INGRESS_FIELDS
    if strange := set(map(str, spec)) - known - {"defaultBackend"}:
        yield f"it has {', '.join(sorted(strange))}"
    for rule in items(spec, "rules"):
        if strange := set(map(str, rule)) - _RULE_FIELDS.get(kind, frozenset()):
            yield f"a rule has {', '.join(sorted(strange))}"
        yield from _paths(rule)
        yield from _matches(rule)


def _paths(rule: Mapping[str, Any]) -> Iterator[str]:
    for path in items(at(rule, "http"), "paths"):
        if path.get("pathType") != "Prefix" or path.get("path") != "/":
            yield f"a path is {str(path.get('path'))[:200]!r} of type {path.get('pathType')}"
        if "resource" in at(path, "backend"):
            yield "a backend is no Service"


def _matches(rule: Mapping[str, Any]) -> Iterator[str]:
    for match in items(rule, "matches"):
        if set(map(str, match)) - {"path"} or at(match, "path").get("value") != "/":
            yield "a rule matches other requests than all of its hostname"
    for backend in items(rule, "backendRefs"):
        if backend.get("namespace"):
            yield f"a backend is in namespace {backend['namespace']}"
        if backend.get("kind", "Service") != "Service" or backend.get("filters"):
            yield "a backend is no plain Service"


def _own_backends(objects: Objects) -> Iterator[ObjectProblem]:
    services = {str(at(each, "metadata").get("name")) for each in objects.of_kinds("Service")}
    for edge in objects.of_kinds(*_EDGES) if objects.lease_namespaces else ():
        for name in _backends(edge):
            if name not in services:
                yield ObjectProblem(edge, f"its backend {name} is no Service of this stack")


def _backends(edge: Manifest) -> Iterator[str]:
    for rule in items(at(edge, "spec"), "rules"):
        for path in items(at(rule, "http"), "paths"):
            yield str(at(path, "backend", "service").get("name"))
        for backend in items(rule, "backendRefs"):
            yield str(backend.get("name"))


def _rented(objects: Objects) -> Iterator[ObjectProblem]:
    lease = objects.lease
    if lease is None:
        return
    for edge in objects.of_kinds(*_EDGES):
        for host in _hosts(edge):
            if host not in lease.hostnames:
                yield ObjectProblem(edge, f"hostname {str(host)[:200]} is not claimed by this lease")
    for ingress in objects.of_kinds("Ingress"):
        if (name := at(ingress, "spec").get("ingressClassName")) != lease.ingress_class:
            yield ObjectProblem(ingress, f"its class is {name} and not {lease.ingress_class}")
    for route in objects.of_kinds("HTTPRoute"):
        for parent in items(at(route, "spec"), "parentRefs"):
            if (parent.get("namespace"), parent.get("name")) != lease.gateway:
                yield ObjectProblem(route, f"it is on the gateway {parent.get('namespace')}/{parent.get('name')}")


def denied_hostnames(patterns: Sequence[str]) -> Rule:
    """A rule against hostnames that match one of `patterns`: `*` is any text, `?` one character. A wildcard must
    cover no pattern either.
    """
    denied = [pattern.strip().lower() for pattern in patterns]
    matchers = [re.compile(translate(pattern)) for pattern in denied]

    def check(manifest: Manifest) -> Iterator[str]:
        for host in _hosts(manifest):
            text = host.lower() if isinstance(host, str) else ""
            if any(one.match(text) for one in matchers) or any(covers(text, pattern) for pattern in denied):
                yield f"hostname {text[:200]} is not served by this provider"

    return Rule(
        id="denied-hostname",
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        reason="The operator does not serve this hostname (hostnames.deny).",
        remedy="Use another hostname or another provider.",
        check=of_each(check, *_EDGES),
        fence=False,
        topic="hostnames",
    )


RULES = (
    fence(
        "one-hostname",
        of_each(_one_hostname, *_EDGES),
        reason="A host of everything, a default backend or a name of the cluster takes the requests of other tenants.",
        remedy="Serve one hostname, and name the object after it.",
    ),
    fence(
        "known-route",
        of_each(_known_route, *_EDGES),
        reason="Paths, filters, TLS secrets and backends elsewhere make the shared edge do what no tenant rented.",
        remedy="Send all requests of the hostname to one Service of the lease.",
    ),
    fence(
        "own-backends",
        _own_backends,
        reason="A backend that is not of this stack is another's, or nobody's.",
        remedy="Use a Service of the lease.",
        scope=RuleScope.STACK,
    ),
    fence(
        "claimed-hostname",
        _rented,
        reason="A hostname belongs to the lease that has claimed it, on the provider's own edge.",
        remedy="Claim the hostname, and use the class or the Gateway of the settings.",
        scope=RuleScope.STACK,
    ),
)
