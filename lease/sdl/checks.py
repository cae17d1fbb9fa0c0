"""Checks across the sections of an SDL, in Go's order (sdl-and-manifest.md §1.15)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from yaml.nodes import Node

from lease.resources import Volume
from lease.sdl.profiles import Compute
from lease.sdl.quantities import duration_seconds
from lease.sdl.reader import Reader
from lease.sdl.sections import Deployed, Document
from lease.sdl.services import RawExpose, RawService
from lease.validation.provider import http_option_problems

__all__ = ["check_document"]

_ENDPOINT_NAME = re.compile(r"[a-z]+[a-z\-_0-9]+")
_TEE_TYPES = ("", "cpu", "cpu-gpu")


def _placed(document: Document) -> Iterator[tuple[str, str, Deployed]]:
    """(service, placement, deployed) in the order of all outputs: services by name, placements by name."""
    for service in sorted(document.deployment):
        for placement in sorted(document.deployment[service]):
            yield service, placement, document.deployment[service][placement]


def check_document(reader: Reader, document: Document) -> Fraction | None:
    """Note every problem, then raise if there is any. Returns the reclamation window in seconds."""
    tees: dict[str, str] = {}
    for name, placement, deployed in _placed(document):
        service = document.services.get(name)
        if service is not None:
            _check_tee(reader, service, document.compute.get(deployed.profile), tees, placement)
            _check_exposes(reader, service)
    window = _reclamation(reader, document.reclamation)
    for name, node in document.endpoints.items():
        _check_endpoint(reader, name, node)
    used_ports: dict[tuple[str, int, str], str] = {}
    for name, placement, deployed in _placed(document):
        _check_deployed(reader, document, (name, placement), deployed, used_ports)
    used = {endpoint for endpoint, _, _ in used_ports}
    for name, node in document.endpoints.items():
        if name not in used:
            reader.problem(node, f'endpoint "{name}" declared but never used', found="")
    if not any(document.deployment.values()):
        reader.problem(reader.root, "Invalid groups: nothing is deployed", found="", suffix="deployment")
    reader.check()
    return window


def _check_tee(
    reader: Reader, service: RawService, compute: Compute | None, tees: dict[str, str], placement: str
) -> None:
    tee = service.params.tee if service.params else ""
    if not tee or service.params is None:
        return
    node = reader.entries(service.params.node).get("tee", service.params.node)
    if tee not in _TEE_TYPES:
        reader.problem(node, f'unsupported tee type: "{tee[:40]}"', allowed="cpu, cpu-gpu")
    elif tee == "cpu-gpu" and compute is not None and not compute.gpu_units:
        text = 'tee type requires gpu resources: "cpu-gpu" specified but no gpu resources defined'
        reader.problem(node, text, found="")
    elif tees.setdefault(placement, tee) != tee:
        text = f'conflicting tee types in the same placement group: group "{placement}" has'
        reader.problem(node, f'{text} "{tees[placement]}" and "{tee}"', allowed=tees[placement])


def _check_exposes(reader: Reader, service: RawService) -> None:
    for expose in service.expose:
        if expose.proto.upper() not in ("", "TCP", "UDP"):
            reader.problem(expose.members["proto"], "unsupported service protocol", allowed="tcp, udp")
        for problem in http_option_problems(expose.http_options):
            reader.problem(expose.members["http_options"], problem, found="")


def _reclamation(reader: Reader, node: Node | None) -> Fraction | None:
    if node is None:
        return None
    window = reader.entries(node).get("min_window")
    text = reader.text(window)
    try:
        return duration_seconds(text)
    except ValueError as error:
        message = f'invalid reclamation min_window "{text[:40]}": {error}'
        reader.problem(window or node, message, suffix="" if window else "min_window", allowed="a duration such as 24h")
        return None


def _check_endpoint(reader: Reader, name: str, node: Node) -> None:
    if not _ENDPOINT_NAME.fullmatch(name):
        allowed = "lower-case letters, digits, - and _, starting with a letter, at least two"
        reader.problem(node, f'endpoint named "{name}" is not a valid name', found=name, allowed=allowed)
    kind = reader.text(reader.entries(node).get("kind"))
    if kind != "ip":
        text = f', unknown kind "{kind}"' if kind else " has no kind"
        reader.problem(node, f'endpoint named "{name}"{text}', found=kind, suffix="kind", allowed="ip")


def _check_deployed(
    reader: Reader,
    document: Document,
    where: tuple[str, str],
    deployed: Deployed,
    used_ports: dict[tuple[str, int, str], str],
) -> None:
    """Check that everything exists which one service in one placement names; then its credentials, addresses and
    storage.
    """
    name, placement_name = where
    compute = document.compute.get(deployed.profile)
    placement = document.placements.get(placement_name)
    service = document.services.get(name)
    at = f"{name}.{placement_name}: "
    if compute is None:
        reader.problem(deployed.node, f"{at}no compute profile named {deployed.profile}", found="", suffix="profile")
    elif not compute.has_resources:
        reader.problem(
            compute.node, f"{at}compute profile {deployed.profile} has no resources", found="", suffix="resources"
        )
    if placement is None:
        reader.problem(deployed.node, f"{at}no placement profile named {placement_name}", found="")
    elif deployed.profile in placement.pricing_nodes and deployed.profile not in placement.pricing:
        node = placement.pricing_nodes[deployed.profile]
        reader.problem(node, f"{at}pricing entry is empty", allowed="denom and amount")
    elif deployed.profile not in placement.pricing:
        text = f"{at}no pricing for profile {deployed.profile}"
        reader.problem(placement.node, text, found="", suffix=f"pricing.{deployed.profile}")
    if service is None:
        reader.problem(deployed.node, f"{at}no service profile named {name}", found="")
        return
    _check_credentials(reader, service, at)
    for expose in service.expose:
        _check_addresses(reader, document, name, expose, used_ports)
    if compute is not None:
        _check_storage(reader, name, service, compute, merges_units=document.merges_units)


def _check_credentials(reader: Reader, service: RawService, at: str) -> None:
    credentials = service.credentials
    for name in ("host", "username", "password") if credentials else ():
        if not getattr(credentials, name).strip():
            text = f"{at}service Credentials missing {name.capitalize()}"
            reader.problem(credentials.node, text, found="", suffix=name)  # type: ignore[union-attr]
            return


def _check_addresses(
    reader: Reader, document: Document, service: str, expose: RawExpose, used_ports: dict[tuple[str, int, str], str]
) -> None:
    """Check that a leased IP has `global`, a declared endpoint, and a port of its own (compared as written, as Go
    does).
    """
    for to in expose.to:
        if not to.ip:
            continue
        node = expose.members["to"]
        if not to.global_:
            text = f'error on "{service}" if an IP is declared the directive must be declared as global'
            reader.problem(node, text, found="")
        if to.ip not in document.endpoints:
            text = f'error on service "{service}" no endpoint named "{to.ip}" exists'
            reader.problem(node, text, found="", allowed=", ".join(document.endpoints))
        key = (to.ip, expose.as_, expose.proto)
        if key in used_ports:
            text = (
                f'IP endpoint "{to.ip}" port: {expose.port} protocol: {expose.proto} specified by service "{service}"'
            )
            reader.problem(expose.node, f'{text} already in use by "{used_ports[key]}"', found="")
        used_ports.setdefault(key, service)


def _check_storage(reader: Reader, name: str, service: RawService, compute: Compute, *, merges_units: bool) -> None:
    volumes = {volume.name: volume for volume in compute.storage or ()}
    mounts = service.params.storage if service.params else {}
    taken: dict[str, str] = {}
    for volume_name, mount in mounts.items():
        volume = volumes.get(volume_name)
        if volume is None:
            text = f'service "{name}" references to no-existing compute volume named "{volume_name}"'
            reader.problem(mount.node, text, found="", allowed=", ".join(volumes))
        if not mount.mount.startswith("/"):
            text = f'invalid value for "service.{name}.params.{volume_name}.mount" parameter. expected absolute path'
            reader.problem(mount.node, text, found=mount.mount or "nothing", suffix="mount")
        elif mount.mount in taken:
            text = f'duplicated mount point: mount "{mount.mount}" already in use by volume "{taken[mount.mount]}"'
            reader.problem(mount.node, text, found="", suffix="mount")
        taken.setdefault(mount.mount, volume_name)
        if merges_units and mount.read_only and volume is not None and volume.storage_class == "ram":
            text = f"services.{name}.params.storage.{volume_name} has readOnly=true"
            reader.problem(mount.node, f'{text} which is not allowed for storage class "ram"', found="")
    if not merges_units and not mounts:
        _check_mounted(reader, name, service, list(volumes.values()))


def _check_mounted(reader: Reader, name: str, service: RawService, volumes: list[Volume]) -> None:
    """SDL 2.0 only: persistent storage needs at least one mount, of whichever volume."""
    volume = next((volume for volume in volumes if volume.persistent), None)
    if volume is not None:
        text = f"compute.storage.{volume.name} has persistent=true which requires"
        text += f" service.{name}.params.storage.{volume.name} to have mount"
        node = service.params.node if service.params else service.node
        reader.problem(node, text, found="", suffix="storage" if service.params else "params.storage")
