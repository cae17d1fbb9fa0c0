"""The pull secret of a service that names a private registry (kubernetes-objects.md §2.4)."""

from __future__ import annotations

import base64
import json

from components.labels import Object, metadata, service_labels
from lease.spec import LeaseSpec, RegistryCredentials, ServiceSpec

__all__ = ["credentials_name", "credentials_objects"]


def credentials_objects(spec: LeaseSpec) -> tuple[Object, ...]:
    """One Secret for each service with credentials, in the manifest's order."""
    return tuple(
        _secret(spec, service, service.credentials) for service in spec.services if service.credentials is not None
    )


def credentials_name(service: ServiceSpec) -> str:
    """The name of the Secret, to which pods refer."""
    return f"docker-creds-{service.name}"


def _secret(spec: LeaseSpec, service: ServiceSpec, credentials: RegistryCredentials) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(credentials_name(service), spec.namespace, labels=service_labels(spec, service)),
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": _base64(_docker_config(credentials))},
    }


def _docker_config(credentials: RegistryCredentials) -> str:
    """Docker's own configuration file: user, password and e-mail trimmed, the host not; empty fields left out
    (§2.4).
    """
    user, password = credentials.username.strip(), credentials.password.get_secret_value().strip()
    fields = {
        "username": user,
        "password": password,
        "email": credentials.email.strip(),
        "auth": _base64(f"{user}:{password}"),
    }
    auths = {credentials.host: {key: value for key, value in fields.items() if value}}
    return json.dumps({"auths": auths}, separators=(",", ":"), ensure_ascii=False)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
