"""Plain manifests as Pulumi resources, without a typed class for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

import pulumi

from components.labels import Object
from components.secrets import seal

__all__ = ["ClusterProvider", "ManifestResource", "conventions", "type_token"]

_CONVENTIONS = {
    "pulumi.com/patchFieldManager": "lessor",
    "pulumi.com/patchForce": "true",
    "pulumi.com/skipAwait": "true",
}
"""One fixed field manager, so that any worker may apply. The provider watches readiness itself (architecture §5). A
lease's stack is the only writer of its fields, so that it takes them back after another writer changed one (`kubectl
scale`).
"""


class ClusterProvider(pulumi.ProviderResource):
    """The cluster, by the path of a kubeconfig and a context in it (empty: its current one).

    `clusterIdentifier` fixes what the plugin would otherwise derive from the kubeconfig: a renewed credential or a new
    address of the same API server must never replace what runs. Secrets change in place, not by delete and create.
    """

    def __init__(self, name: str, *, kubeconfig: str, context: str = "") -> None:
        properties: dict[str, pulumi.Input[str]] = {
            "kubeconfig": kubeconfig,
            "clusterIdentifier": "lessor",
            "enableSecretMutable": "true",
        }
        if context:
            properties["context"] = context
        super().__init__("kubernetes", name, properties, pulumi.ResourceOptions(version=_plugin_version()))


class ManifestResource(pulumi.CustomResource):
    """One manifest, registered as it is: its kind gives the type, and its secrets become secret inputs."""

    def __init__(self, manifest: Object, opts: pulumi.ResourceOptions) -> None:
        secret = ["data", "stringData"] if manifest["kind"] == "Secret" else []
        fixed = pulumi.ResourceOptions(version=_plugin_version(), additional_secret_outputs=secret)
        super().__init__(
            type_token(manifest["apiVersion"], manifest["kind"]),
            manifest["metadata"]["name"],
            seal(conventions(manifest), pulumi.Output.secret),
            pulumi.ResourceOptions.merge(opts, fixed),
        )


def type_token(api_version: str, kind: str) -> str:
    """Pulumi's name of a kind: `kubernetes:apps/v1:Deployment`, with `core/v1` for the group without a name."""
    return f"kubernetes:{api_version if '/' in api_version else f'core/{api_version}'}:{kind}"


def conventions(manifest: Object) -> Object:
    """The manifest with the annotations that every registered object has (architecture §5)."""
    metadata: Mapping[str, object] = manifest["metadata"]
    annotations = manifest["metadata"].get("annotations", {}) | _CONVENTIONS
    return manifest | {"metadata": {**metadata, "annotations": annotations}}


@cache
def _plugin_version() -> str:
    """The version of the SDK, which its plugin must have too. It is cached, since it is slow to read and every object
    needs it.
    """
    return version("pulumi-kubernetes")
