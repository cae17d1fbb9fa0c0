"""Plain manifests as Pulumi resources, without a typed class for each kind."""

from __future__ import annotations

import pulumi

from components.labels import Object
from components.registration import CLUSTER, conventions, plugin_version, type_token
from components.secrets import seal

__all__ = ["ClusterProvider", "ManifestResource"]


class ClusterProvider(pulumi.ProviderResource):
    """The cluster, by the path of a kubeconfig (empty: that of the plugin's environment) and a context in it (empty:
    its current one).

    `clusterIdentifier` fixes what the plugin would otherwise derive from the kubeconfig: a renewed credential or a new
    address of the same API server must never replace what runs. Secrets change in place, not by delete and create.
    """

    def __init__(self, name: str, *, kubeconfig: str, context: str = "") -> None:
        properties: dict[str, pulumi.Input[str]] = {**CLUSTER}
        if kubeconfig:
            properties["kubeconfig"] = kubeconfig
        if context:
            properties["context"] = context
        super().__init__("kubernetes", name, properties, pulumi.ResourceOptions(version=plugin_version()))


class ManifestResource(pulumi.CustomResource):
    """One manifest, registered as it is: its kind gives the type, and its secrets become secret inputs."""

    def __init__(self, manifest: Object, opts: pulumi.ResourceOptions) -> None:
        secret = ["data", "stringData"] if manifest["kind"] == "Secret" else []
        fixed = pulumi.ResourceOptions(version=plugin_version(), additional_secret_outputs=secret)
        super().__init__(
            type_token(manifest["apiVersion"], manifest["kind"]),
            manifest["metadata"]["name"],
            seal(conventions(manifest), pulumi.Output.secret),
            pulumi.ResourceOptions.merge(opts, fixed),
        )
