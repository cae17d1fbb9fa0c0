"""What Pulumi registers a plain manifest as: the kind's name, the annotations, the plugin. Needs no Pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from components.labels import Object

__all__ = ["CLUSTER", "FIELD_MANAGER", "conventions", "plugin_version", "type_token"]

FIELD_MANAGER = "lessor"
_CONVENTIONS = {
    "pulumi.com/patchFieldManager": FIELD_MANAGER,
    "pulumi.com/patchForce": "true",
    "pulumi.com/skipAwait": "true",
}
"""One fixed field manager, so that any worker may apply. The provider watches readiness itself (architecture §5). A
lease's stack is the only writer of its fields, so that it takes them back after another writer changed one (`kubectl
scale`).
"""

CLUSTER: Mapping[str, str] = {"clusterIdentifier": "lessor", "enableSecretMutable": "true"}
"""Settings of the cluster's plugin, beside the path of the kubeconfig."""


def type_token(api_version: str, kind: str) -> str:
    """Pulumi's name of a kind: `kubernetes:apps/v1:Deployment`, with `core/v1` for the group without a name."""
    return f"kubernetes:{api_version if '/' in api_version else f'core/{api_version}'}:{kind}"


def conventions(manifest: Object) -> Object:
    """The manifest with the annotations that every registered object has (architecture §5)."""
    metadata: Mapping[str, object] = manifest["metadata"]
    annotations = manifest["metadata"].get("annotations", {}) | _CONVENTIONS
    return manifest | {"metadata": {**metadata, "annotations": annotations}}


@cache
def plugin_version() -> str:
    """The version of the SDK, which its plugin must have too. It is cached, since it is slow to read and every object
    needs it.
    """
    return version("pulumi-kubernetes")
