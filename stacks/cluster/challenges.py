"""The route by which a CA's challenges (ACME, HTTP-01) reach the provider: port 80 of its hostname is the edge's.

It exists where the provider orders its certificate itself. Its listener is open while an order is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from lease.spec import IngressMode
from stacks.cluster.settings import ClusterStackSettings

__all__ = ["CHALLENGES", "CHALLENGE_PORT", "challenge_route", "orders_certificate"]

Object: TypeAlias = dict[str, Any]
CHALLENGES = "challenges"
"""The name of the port."""
CHALLENGE_PORT = 5002
_NAME = "akash-provider-challenges"
_PATH = "/.well-known/acme-challenge/"
_TRUE = frozenset(("1", "t", "true", "y", "yes", "on"))


def orders_certificate(settings: ClusterStackSettings) -> bool:
    return _value(settings.processes.environment, "CERT_ISSUER_ENABLED").strip().lower() in _TRUE


def challenge_route(settings: ClusterStackSettings, service: str) -> Object:
    """An Ingress or an HTTPRoute that leads the challenge's path of each name in the certificate to the port of
    `service`. Other paths of these names keep their routes.
    """
    if settings.ingress_mode is IngressMode.INGRESS:
        return _ingress(settings, service)
    return _http_route(settings, service)


def _names(settings: ClusterStackSettings) -> list[str]:
    given = settings.processes.environment
    others = given.get("LESSOR_CERT_ISSUER_NAMES", "").split(",")
    found = (name.strip().lower() for name in (_value(given, "CLUSTER_PUBLIC_HOSTNAME"), *others))
    return list(dict.fromkeys(filter(None, found)))


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(f"AP_{name}") or environment.get(f"AKASH_{name}") or ""


def _ingress(settings: ClusterStackSettings, service: str) -> Object:
    backend = {"service": {"name": service, "port": {"name": CHALLENGES}}}
    paths = [{"path": _PATH, "pathType": "Prefix", "backend": backend}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": _metadata(settings, {"nginx.ingress.kubernetes.io/ssl-redirect": "false"}),
        "spec": {
            "ingressClassName": settings.ingress_class,
            "rules": [{"host": name, "http": {"paths": paths}} for name in _names(settings)],
        },
    }


def _http_route(settings: ClusterStackSettings, service: str) -> Object:
    gateway = {"name": settings.gateway.name, "namespace": settings.gateway.namespace, "sectionName": "http"}
    match = {"path": {"type": "PathPrefix", "value": _PATH}}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": _metadata(settings, {}),
        "spec": {
            "parentRefs": [gateway],
            "hostnames": _names(settings),
            "rules": [{"matches": [match], "backendRefs": [{"name": service, "port": CHALLENGE_PORT}]}],
        },
    }


def _metadata(settings: ClusterStackSettings, annotations: Mapping[str, str]) -> Object:
    own = {"pulumi.com/skipAwait": "true", **annotations}  # an Ingress has an address when its controller gives one
    return {"name": _NAME, "namespace": settings.services_namespace, "annotations": own}
