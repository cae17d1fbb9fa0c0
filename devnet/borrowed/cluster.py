"""The borrowed cluster as a `World` uses it: its kubeconfig, environment and settings."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from devnet.borrowed.checks import nodes_to_label, refuse_provider, refuse_without_rights
from devnet.borrowed.claim import claim
from devnet.borrowed.kubeconfig import chosen_context, write_kubeconfig
from devnet.borrowed.plan import Plan
from devnet.borrowed.removal import KUBECONFIG
from devnet.kube_api import KubeApi
from devnet.tools import Toolbox
from devnet.world import Terms
from lease.ids import LeaseId, namespace_name

__all__ = ["BorrowedCluster"]

_PULUMI_OPTIONS = {
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
}


class BorrowedCluster:
    """`plan` names the objects that the demo will make; none is made before `begin`."""

    def __init__(self, data: Path, toolbox: Toolbox, *, plan: Plan, api: KubeApi) -> None:
        self.data = data
        self.toolbox = toolbox
        self.plan = plan
        self.api = api

    @classmethod
    def inspect(cls, data: Path, toolbox: Toolbox, *, kubeconfig: Path, context: str) -> BorrowedCluster:
        """Check the cluster and plan the objects. Raises `ClusterUnusable` if the demo cannot use it."""
        document = chosen_context(kubeconfig, context)
        api = KubeApi(write_kubeconfig(document, data / KUBECONFIG))
        refuse_provider(api)
        nodes = nodes_to_label(api)
        refuse_without_rights(api, nodes=bool(nodes))
        plan = Plan.new(document["current-context"], api.server, nodes=nodes)
        return cls(data, toolbox, plan=plan, api=api)

    def begin(self) -> None:
        """Save the plan, claim the cluster, then label the plan's nodes. Raises `ClusterUnusable`."""
        self.plan.write(self.data)
        claim(self.plan, self.api)
        for node in self.plan.nodes:
            self.api.merge(f"api/v1/nodes/{node}", {"metadata": {"labels": {"akash.network": "true"}}})

    def expect(self, leases: Iterable[LeaseId]) -> None:
        """Save the namespaces of `leases` in the plan before the provider makes them."""
        names = (namespace_name(lease) for lease in leases)
        self.plan = dataclasses.replace(self.plan, leases=tuple(dict.fromkeys((*self.plan.leases, *names))))
        self.plan.write(self.data)

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with the chosen context only."""
        return self.data / KUBECONFIG

    @property
    def api_server(self) -> str:
        """The API server's URL in the kubeconfig."""
        return self.api.server

    def env(self) -> dict[str, str]:
        """The environment of child processes."""
        return self.toolbox.env() | _PULUMI_OPTIONS | {"KUBECONFIG": str(self.kubeconfig)}

    def terms(self) -> Terms:
        """The names of this demo, no leased addresses, no volumes, and the engine that runs stock Pulumi."""
        plan = self.plan
        return Terms(
            records=plan.records,
            stack={
                "lessor:manifest-namespace": plan.records,
                "lessor:services-namespace": plan.services,
                "lessor:ingress-class": plan.name,
                "lessor:metallb": {"required": False},
                "lessor:priority-class": "",
            },
            provider={
                "AP_K8S_MANIFEST_NS": plan.records,
                "LESSOR_INGRESS_CLASS": plan.name,
                "LESSOR_ENGINE": "stock",
                "LESSOR_STACK_SECRETS": "passphrase",
                **self._endpoints(),
            },
            nodes=(),
            patience=300.0,
            real=True,
            expect=self.expect,
        )

    def _endpoints(self) -> dict[str, str]:
        """The setting for the API server's address, which network policies close to tenants' pods. It is empty if the
        cluster publishes the address; otherwise it has the kubeconfig's address.
        """
        found = self.api.get("api/v1/namespaces/default/endpoints/kubernetes")
        if any(subset.get("addresses") for subset in (found or {}).get("subsets") or ()):
            return {}
        return {"LESSOR_API_SERVER_ENDPOINTS": _address(self.api_server)}


def _address(server: str) -> str:
    """`address:port` of a URL; a host name is resolved."""
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or 443
    try:
        ipaddress.ip_address(host)
    except ValueError:
        host = str(socket.getaddrinfo(host, port, family=socket.AF_INET)[0][4][0])
    return f"{host}:{port}"
