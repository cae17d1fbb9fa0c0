"""A container's environment (kubernetes-objects.md §2.5.1), unchanged for every text that a tenant may send.

Server-side apply is read as YAML. JSON's own escapes pass, but Go's JSON leaves DEL, the C1 controls, U+FFFE and U+FFFF
unescaped: YAML refuses them, and takes U+0085 for the end of a line, which it folds into a blank. A value with one of
these characters goes into a Secret, whose data is base64, and the variable refers to the Secret. So does a value that
Pulumi would take for one of its markers.
"""

from __future__ import annotations

import base64
import re

from components.labels import Object, metadata, service_labels
from lease.markers import MARKERS
from lease.spec import LeaseSpec, ServiceSpec

__all__ = ["BARE_IN_YAML", "environment", "environment_objects"]

BARE_IN_YAML = re.compile("[\x7f-\x9f\ufffe\uffff]")
"""Characters that an apply refuses or changes inside plain text."""


def environment(service: ServiceSpec) -> list[Object]:
    """The variables in the spec's order. A repeated name keeps its first place and its last value: server-side apply
    refuses repeated names, and a container runtime uses the last value. Empty values are left out, as the API server
    does.
    """
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": _name(service), "key": _key(index)}}}
        if _needs_a_secret(value)
        else {"name": name} | ({"value": value} if value else {})
        for index, (name, value) in enumerate(_values(service).items())
    ]


def environment_objects(spec: LeaseSpec) -> tuple[Object, ...]:
    """One Secret for each service with values that need one, in the manifest's order."""
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(_name(service), spec.namespace, labels=service_labels(spec, service)),
            "type": "Opaque",
            "data": data,
        }
        for service in spec.services
        if (data := _data(service))
    )


def _needs_a_secret(value: str) -> bool:
    return value in MARKERS or BARE_IN_YAML.search(value) is not None


def _values(service: ServiceSpec) -> dict[str, str]:
    return {variable.name: variable.value.get_secret_value() for variable in service.environment}


def _data(service: ServiceSpec) -> dict[str, str]:
    values = enumerate(_values(service).values())
    return {_key(index): _base64(value) for index, value in values if _needs_a_secret(value)}


def _name(service: ServiceSpec) -> str:
    return f"env-{service.name}"


def _key(index: int) -> str:
    """The Secret's key, made from the variable's place: its name may be too long for a key, or have other
    characters.
    """
    return f"variable-{index}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
