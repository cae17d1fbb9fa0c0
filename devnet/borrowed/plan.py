"""The plan of a demo on the user's cluster: the names of all its objects, saved before the demo makes them."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

from devnet.errors import DevnetError

__all__ = ["Plan"]

_NAME = "borrowed.json"
CRDS = ("manifests", "providerhosts", "providerleasedips")
CLUSTER_ROLE = "lessor-provider"
ADMISSION = "lessor-provider"
"""The ValidatingAdmissionPolicy of the provider's account, and its binding."""
CLAIM = "lessor-demo"


@dataclasses.dataclass(frozen=True)
class Plan:
    """`name` is the prefix of all names that the demo chooses. `nodes` get a label. `leases` are the namespaces of
    leases, each saved before the provider can make it.
    """

    name: str
    context: str
    server: str
    nodes: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()

    @staticmethod
    def new(context: str, server: str, *, nodes: tuple[str, ...]) -> Plan:
        """A plan with a random name."""
        return Plan(f"lessor-demo-{secrets.token_hex(3)}", context, server, nodes)

    @property
    def records(self) -> str:
        """The namespace of the provider's records."""
        return f"{self.name}-records"

    @property
    def services(self) -> str:
        """The namespace of the provider's service account."""
        return f"{self.name}-services"

    def summary(self) -> Iterator[str]:
        """The planned objects, a line each."""
        yield f"namespaces {self.records} and {self.services}, and a namespace with the objects of the lease"
        yield f"custom resource definitions {', '.join(f'{each}.akash.network' for each in CRDS)}"
        yield f"cluster role {CLUSTER_ROLE} and its binding; cluster role {CLAIM}, which keeps other demos out"
        yield f"validating admission policy {ADMISSION}, which bounds the provider's account, and its binding"
        yield f"ingress class {self.name} (an ingress controller that takes every class would serve the lease)"
        if self.nodes:
            yield f"the label akash.network=true on node {', '.join(self.nodes)}, where the tenant's pods run"

    def write(self, data: Path) -> None:
        """Save the plan in the demo's folder, atomically."""
        partial = data / f"{_NAME}.partial"
        partial.write_text(json.dumps(dataclasses.asdict(self)))
        partial.replace(data / _NAME)

    @staticmethod
    def read(data: Path) -> Plan | None:
        """The plan saved in that folder, None if there is none. Raises `DevnetError` if the file cannot be read."""
        try:
            found = json.loads((data / _NAME).read_bytes())
            return Plan(**{**found, "nodes": tuple(found["nodes"]), "leases": tuple(found["leases"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DevnetError(f"{data / _NAME}, the plan of an earlier demo, cannot be read: {error}") from None

    def forget(self, data: Path) -> None:
        """Remove the saved plan, once all its objects are removed."""
        (data / _NAME).unlink(missing_ok=True)
