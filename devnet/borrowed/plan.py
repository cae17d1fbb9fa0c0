"""What a demo makes in somebody's cluster, decided beforehand and written down before it is made."""

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


@dataclasses.dataclass(frozen=True)
class Plan:
    """`name` begins every name that can be chosen. `nodes` are to be labelled. `leases`: namespaces of leases, each
    noted before the provider can make it.
    """

    name: str
    context: str
    server: str
    nodes: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()

    @staticmethod
    def new(context: str, server: str, *, nodes: tuple[str, ...]) -> Plan:
        """One with a name that nobody has."""
        return Plan(f"lessor-demo-{secrets.token_hex(3)}", context, server, nodes)

    @property
    def records(self) -> str:
        """Namespace of the provider's records."""
        return f"{self.name}-records"

    @property
    def services(self) -> str:
        """Namespace of the provider's account."""
        return f"{self.name}-services"

    def told(self) -> Iterator[str]:
        """What is going to be made, a line each."""
        yield f"namespaces {self.records} and {self.services}, and one for the lease, with its objects"
        yield f"custom resource definitions {', '.join(f'{each}.akash.network' for each in CRDS)}"
        yield f"cluster role and its binding {CLUSTER_ROLE}"
        yield f"ingress class {self.name} (an Ingress-NGINX that takes every class would serve the lease's hostname)"
        if self.nodes:
            yield f"the label akash.network=true on the node {', '.join(self.nodes)}: tenants' pods go nowhere else"

    def write(self, data: Path) -> None:
        """Keep it in the demo's folder, replaced as a whole."""
        partial = data / f"{_NAME}.partial"
        partial.write_text(json.dumps(dataclasses.asdict(self)))
        partial.replace(data / _NAME)

    @staticmethod
    def read(data: Path) -> Plan | None:
        """What `write` left in that folder, None when there is nothing."""
        try:
            found = json.loads((data / _NAME).read_bytes())
            return Plan(**{**found, "nodes": tuple(found["nodes"]), "leases": tuple(found["leases"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DevnetError(f"{data / _NAME} cannot be read, which says what an earlier demo made: {error}") from None

    def forget(self, data: Path) -> None:
        """Everything of it is gone."""
        (data / _NAME).unlink(missing_ok=True)
