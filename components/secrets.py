"""The secret values in a plain manifest, for code that hides them: the stack's inputs, `lessor render`, logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from components.labels import Object

__all__ = ["seal"]


def seal(manifest: Object, wrap: Callable[[str], Any]) -> Object:
    """A copy of `manifest` with `wrap` applied to every secret text: values of a Secret, and each environment value of
    a container (the tenant's and the provider's, which cannot be distinguished in a manifest).
    """
    match manifest.get("kind"):
        case "Secret":
            return manifest | {"data": {key: wrap(value) for key, value in manifest["data"].items()}}
        case "Deployment" | "StatefulSet":
            return manifest | {"spec": _seal_workload(manifest["spec"], wrap)}
        case _:
            return manifest


def _seal_workload(spec: Object, wrap: Callable[[str], Any]) -> Object:
    template = spec["template"]
    pod = template["spec"]
    containers = [_seal_container(container, wrap) for container in pod["containers"]]
    return spec | {"template": template | {"spec": pod | {"containers": containers}}}


def _seal_container(container: Object, wrap: Callable[[str], Any]) -> Object:
    if "env" not in container:
        return container
    variables = [item | {"value": wrap(item["value"])} if "value" in item else item for item in container["env"]]
    return container | {"env": variables}
