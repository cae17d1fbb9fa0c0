"""`read_sdl`: the passes over a document, in Go's order, and the place in the document of each problem that a later
check finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from yaml.nodes import Node

from lease.errors import Finding, GroupsInvalid, ManifestRefused, SdlInvalid
from lease.groups import GroupSpec
from lease.manifest import Manifest
from lease.manifest_json import manifest_version
from lease.sdl.checks import check_document
from lease.sdl.derivation import Derived, derive
from lease.sdl.document import compose
from lease.sdl.reader import Reader
from lease.sdl.sections import Document, read_document
from lease.sdl.size import check_size
from lease.validation.groups import group_problems
from lease.validation.manifest import manifest_problems

__all__ = ["Sdl", "read_sdl"]


@dataclass(frozen=True, slots=True)
class Sdl:
    """The content of a document. `version` is the 32-byte hash; the window is the exact Go duration, None when none is
    requested.
    """

    groups: tuple[GroupSpec, ...]
    manifest: Manifest
    version: bytes
    reclamation_min_window_seconds: Fraction | None = None


def read_sdl(text: str | bytes, *, file: str = "<sdl>") -> Sdl:
    """Parse, check and derive an SDL of version 2.0, or 2.1 and up.

    Raises `SdlInvalid` with every finding of the first pass that has any: types and values; references between the
    sections; then the chain's limits and the manifest's rules. The first finding is the one that the Go parser would
    report.
    """
    root = compose(text, file=file)
    if root is None:
        raise SdlInvalid([Finding(file, 1, 1, "", "uninitialized: the document is empty")])
    reader = Reader(root, file=file)
    document = read_document(reader)
    check_size(reader, document)
    window = check_document(reader, document)
    derived = derive(document)
    for group_problem in group_problems(derived.groups):
        _point_to_group(reader, document, derived, group_problem)
    for manifest_problem in manifest_problems(derived.manifest):
        _point_to_service(reader, document, manifest_problem)
    reader.check()
    return Sdl(derived.groups, derived.manifest, manifest_version(derived.manifest), window)


def _point_to_group(reader: Reader, document: Document, derived: Derived, problem: GroupsInvalid) -> None:
    """A unit's problem belongs to its compute profile or its price, a group's to its placement."""
    placement = document.placements.get(problem.group)
    profile = derived.profiles.get((problem.group, problem.unit))
    if placement is None or profile is None:
        reader.problem(placement.node if placement else reader.root, str(problem), found="")
    elif problem.field == "price":
        reader.problem(placement.pricing_nodes[profile], str(problem), found="")
    else:
        compute = document.compute[profile]
        node = compute.members.get(problem.field)
        reader.problem(
            node or compute.node, str(problem), found="", suffix="" if node else f"resources.{problem.field}"
        )


def _point_to_service(reader: Reader, document: Document, problem: ManifestRefused) -> None:
    """A service's problem belongs to the value that was refused, or to its key, or to the service."""
    service = document.services.get(problem.service)
    if service is None:
        section = next((value for key, value in reader.root.value if key.value == "services"), reader.root)
        reader.problem(section, problem.problem, found="")
        return
    if problem.field == "env":
        nodes = reader.items(service.members["env"]) or []
        node = next((item for item in nodes if reader.text(item) == problem.value), service.node)
        reader.problem(node, problem.problem)
    elif problem.field in ("port", "hosts"):
        reader.problem(_expose_node(reader, document, problem), problem.problem, found=problem.value)
    else:
        node = service.members.get(problem.field, service.node)
        suffix = problem.field if node is service.node and problem.field in ("image",) else ""
        reader.problem(node, problem.problem, found=problem.value, suffix=suffix)


def _expose_node(reader: Reader, document: Document, problem: ManifestRefused) -> Node:
    """The last place with the refused port or host: of two equal ones, the second."""
    service = document.services[problem.service]
    place = service.node
    for expose in service.expose:
        if problem.field == "port" and str(expose.port) == problem.value:
            place = expose.members.get("port", expose.node)
        elif problem.field == "hosts" and problem.value in (expose.accept or ()):
            items = reader.items(expose.members["accept"]) or []
            place = next(item for item in reversed(items) if reader.text(item) == problem.value)
    return place
