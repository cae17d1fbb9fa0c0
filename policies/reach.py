"""Rules about what a lease's objects may reach or become: other namespaces, rights, the shared edge, the network."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.pods import at, items, pod_of
from policies.rules import Manifest, ObjectProblem, RuleScope, fence, of_each

__all__ = ["RULES"]

_LEASE_KINDS = frozenset(
    {
        "Deployment",
        "HTTPRoute",
        "IPAddressPool",
        "Ingress",
        "L2Advertisement",
        "LimitRange",
        "Namespace",
        "NetworkPolicy",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "StatefulSet",
    }
)
_SHARED = frozenset({"IPAddressPool", "L2Advertisement"})
_OWNER = "akash.network/lease.id.owner"
_SYSTEM = ("kube-system", "kube-public", "kube-node-lease", "default")
_RESOURCES = frozenset({"pods", "pods/log", "events", "deployments"})
_VERBS = frozenset({"get", "list", "watch"})
_BUILT_IN = ("cluster-admin", "admin", "edit", "view")
_OPTIONS = frozenset(
    {
        "client-max-body-size",
        "proxy-body-size",
        "proxy-buffer-size",
        "proxy-next-upstream",
        "proxy-next-upstream-timeout",
        "proxy-next-upstream-tries",
        "proxy-read-timeout",
        "proxy-send-timeout",
    }
)
_EDGES = ("nginx.ingress.kubernetes.io/", "nginx.org/")
_CLOSED = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10")


def _leases(manifests: Sequence[Manifest]) -> set[str]:
    """The namespaces of leases among `manifests`."""
    spaces = (at(item, "metadata") for item in manifests if item.get("kind") == "Namespace")
    return {str(meta.get("name")) for meta in spaces if _OWNER in at(meta, "labels")}


def _known_kinds(manifests: Sequence[Manifest]) -> Iterator[ObjectProblem]:
    for manifest in manifests if _leases(manifests) else ():
        if str(manifest.get("kind")) not in _LEASE_KINDS:
            yield ObjectProblem(manifest, f"a lease has no {manifest.get('kind')}")


def _own_namespace(manifests: Sequence[Manifest]) -> Iterator[ObjectProblem]:
    own = _leases(manifests)
    for manifest in manifests:
        where = at(manifest, "metadata").get("namespace")
        if where in _SYSTEM or str(where).startswith("kube-"):
            yield ObjectProblem(manifest, f"it is in namespace {where}")
        elif own and manifest.get("kind") not in (*_SHARED, "Namespace") and where not in own:
            yield ObjectProblem(manifest, f"it is in namespace {where}, which is not the lease's")


def _service_accounts(manifests: Sequence[Manifest]) -> Iterator[ObjectProblem]:
    accounts = {str(at(item, "metadata").get("name")) for item in manifests if item.get("kind") == "ServiceAccount"}
    for manifest in manifests:
        pod = pod_of(manifest)
        for field in ("serviceAccountName", "serviceAccount"):
            if pod.get(field) and pod[field] not in accounts:
                yield ObjectProblem(manifest, f"{field} {pod[field]} is not an account of this stack")
        if pod and pod.get("automountServiceAccountToken") is not False and not pod.get("serviceAccountName"):
            yield ObjectProblem(manifest, "the token of the account `default` is mounted")


def _rights(manifest: Manifest) -> Iterator[str]:
    kind, role = manifest.get("kind"), at(manifest, "roleRef")
    name = str(role.get("name"))
    if kind in ("ClusterRoleBinding", "RoleBinding") and (name in _BUILT_IN or name.startswith("system:")):
        yield f"it binds {name}"
    if kind == "RoleBinding":
        yield from _bound(manifest, role)
    if kind in ("Role", "ClusterRole"):
        words = {str(word) for rule in items(manifest, "rules") for field in rule.values() for word in _list(field)}
        if bad := words & {"*", "escalate", "bind", "impersonate"}:
            yield f"its rules have {', '.join(sorted(bad))}"
    if kind == "Role":
        yield from _role(manifest)


def _bound(manifest: Manifest, role: Mapping[str, Any]) -> Iterator[str]:
    if role.get("kind") != "Role":
        yield f"it binds a {role.get('kind')}"
    for subject in items(manifest, "subjects"):
        own = subject.get("namespace") == at(manifest, "metadata").get("namespace")
        if subject.get("kind") != "ServiceAccount" or not own:
            yield f"it gives rights to {subject.get('kind')} {subject.get('namespace')}/{subject.get('name')}"


def _role(manifest: Manifest) -> Iterator[str]:
    for rule in items(manifest, "rules"):
        resources, verbs = set(map(str, _list(rule.get("resources")))), set(map(str, _list(rule.get("verbs"))))
        if resources - _RESOURCES or verbs - _VERBS or not resources:
            yield f"it allows {', '.join(sorted(verbs))} of {', '.join(sorted(resources)) or 'anything'}"


def _list(value: object) -> Sequence[object]:
    """The list in a field of the manifest; any other value counts as a list of itself."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _edge_options(manifest: Manifest) -> Iterator[str]:
    if manifest.get("kind") not in ("Ingress", "HTTPRoute"):
        return
    for key, value in at(manifest, "metadata", "annotations").items():
        text = str(key)
        prefix = next((edge for edge in _EDGES if text.startswith(edge)), "")
        if "snippet" in text or (prefix and text.removeprefix(prefix) not in _OPTIONS):
            yield f"annotation {text} becomes configuration of the shared edge"
        elif prefix and not str(value).isprintable():
            yield f"annotation {text} has more than one line"
    if at(manifest, "spec").get("defaultBackend"):
        yield "it takes every request of the edge that no other object takes"
    for rule in items(at(manifest, "spec"), "rules"):
        if manifest.get("kind") == "Ingress" and (not rule.get("host") or "*" in str(rule.get("host"))):
            yield f"it takes requests of host {rule.get('host') or 'any'}"


def _services(manifest: Manifest) -> Iterator[str]:
    spec = at(manifest, "spec") if manifest.get("kind") == "Service" else {}
    if spec.get("type") == "ExternalName" or spec.get("externalName"):
        yield "it is another name of a foreign host"
    if spec.get("externalIPs"):
        yield "it takes addresses by externalIPs"
    if manifest.get("kind") == "Service" and not spec.get("selector"):
        yield "it has no selector, so that its endpoints can be anybody's"


def _policies(manifest: Manifest) -> Iterator[str]:
    if manifest.get("kind") != "NetworkPolicy":
        return
    spec = at(manifest, "spec")
    for rule in items(spec, "egress"):
        if not rule.get("to"):
            yield "an egress rule names no peer, which allows every one"
        for peer in items(rule, "to"):
            yield from _peer(peer, ports=bool(rule.get("ports")))
    for rule in items(spec, "ingress"):
        if not rule.get("from") and not rule.get("ports"):
            yield "an ingress rule names neither peer nor port, which allows everything"
        for peer in items(rule, "from"):
            yield from _selectors(peer)


def _peer(peer: Mapping[str, Any], *, ports: bool) -> Iterator[str]:
    yield from _selectors(peer)
    if "ipBlock" not in peer:
        return
    block = at(peer, "ipBlock")
    try:
        network = ipaddress.ip_network(str(block.get("cidr")))
        closed = [ipaddress.ip_network(str(text)) for text in _list(block.get("except") or [])]
    except ValueError:
        yield "an egress rule has a block that cannot be read"
        return
    if network.num_addresses == 1 and ports:
        return
    for text in _CLOSED:
        each = ipaddress.ip_network(text)
        covered = any(one.version == 4 and each.subnet_of(one) for one in closed)  # type: ignore[arg-type]
        if network.version == 6 or (each.overlaps(network) and not covered):
            yield f"an egress rule opens {network} with {text if network.version == 4 else 'all of IPv6'} in it"
            return


def _selectors(peer: Mapping[str, Any]) -> Iterator[str]:
    if not peer:
        yield "a peer without a selector is everybody"
    if "namespaceSelector" in peer and not at(peer, "namespaceSelector", "matchLabels"):
        yield "a rule opens every namespace"


def _admission(manifest: Manifest) -> Iterator[str]:
    labels = at(manifest, "metadata", "labels") if manifest.get("kind") == "Namespace" else {}
    level = labels.get("pod-security.kubernetes.io/enforce")
    if _OWNER in labels and level not in ("baseline", "restricted"):
        yield f"its admission level is {level or 'not set'}"


RULES = (
    fence(
        "known-kinds",
        _known_kinds,
        reason="An object of another kind (a PodTemplate, a DaemonSet, a webhook) is judged by no other rule.",
        remedy="Use the kinds that a lease is made of.",
        scope=RuleScope.STACK,
    ),
    fence(
        "own-namespace",
        _own_namespace,
        reason="An object in another namespace acts there: on other tenants, or on the cluster itself.",
        remedy="Put it into the namespace of the lease.",
        scope=RuleScope.STACK,
    ),
    fence(
        "own-service-account",
        _service_accounts,
        reason="A pod has the rights of its service account.",
        remedy="Use an account of the same stack, or none, and mount no token of the account `default`.",
        scope=RuleScope.STACK,
    ),
    fence(
        "no-cluster-rights",
        of_each(_rights),
        reason="A tenant may read pods, logs and events of its own namespace, and nothing else.",
        remedy="Bind a Role of the namespace that reads pods, pods/log, deployments or events.",
    ),
    fence(
        "known-edge-options",
        of_each(_edge_options),
        reason="Annotations of an Ingress become configuration of an edge that all tenants share.",
        remedy="Use the options of the manifest and a hostname.",
    ),
    fence(
        "own-endpoints",
        of_each(_services),
        reason="A Service that names foreign hosts or addresses makes the edge reach them.",
        remedy="Use a selector of the lease's own pods.",
    ),
    fence(
        "no-open-policy",
        of_each(_policies),
        reason="Policies add up: one that allows everything ends the isolation of its pods.",
        remedy="Name peers, and close the private, link-local and carrier-grade networks.",
    ),
    fence(
        "admission-level",
        of_each(_admission),
        reason="The API server's own admission is the second fence.",
        remedy="Label the namespace pod-security.kubernetes.io/enforce=baseline.",
        form=2,
    ),
)
