"""The Gateway of tenants' HTTPRoutes as plain objects, with a policy of NGINX Gateway Fabric.

Listeners and certificates are those of the Go provider's chart (kubernetes-objects.md §2.10).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from stacks.cluster.settings import GatewaySettings

__all__ = ["gateway_objects"]

Object: TypeAlias = dict[str, Any]
_LARGEST_BODY = 104_857_600
"""Bytes: what an SDL may ask for. NGINX's own default of 1 MiB would hold for all of a Gateway's routes."""


def gateway_objects(settings: GatewaySettings) -> list[Object]:
    """The Gateway, to which namespaces of leases alone may attach routes, and its policy."""
    spec = {"gatewayClassName": settings.gateway_class, "listeners": _listeners(settings)}
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": settings.name, "namespace": settings.namespace},
        "spec": spec,
    }
    return [gateway, _body_policy(settings)] if settings.nginx_policies else [gateway]


def _listeners(settings: GatewaySettings) -> list[Object]:
    """Plain HTTP, generated hostnames with the wildcard certificate, and tenants' own names with the default one."""
    http = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": _of_leases()}
    own = _https("https-custom", settings.default_secret)
    if not settings.domain:
        return [http, own]
    wildcard = {**_https("https-wildcard", settings.wildcard_secret), "hostname": f"*.{settings.domain}"}
    return [http, wildcard, own]


def _https(name: str, secret: str) -> Object:
    tls = {"mode": "Terminate", "certificateRefs": [{"group": "", "kind": "Secret", "name": secret}]}
    return {"name": name, "port": 443, "protocol": "HTTPS", "tls": tls, "allowedRoutes": _of_leases()}


def _of_leases() -> Object:
    return {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"akash.network": "true"}}}}


def _body_policy(settings: GatewaySettings) -> Object:
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": settings.name}
    return {
        "apiVersion": "gateway.nginx.org/v1alpha1",
        "kind": "ClientSettingsPolicy",
        "metadata": {"name": settings.name, "namespace": settings.namespace},
        "spec": {"targetRef": target, "body": {"maxSize": str(_LARGEST_BODY)}},
    }
