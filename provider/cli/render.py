"""`lessor render`: the Kubernetes objects of an SDL, without a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import yaml

from components.errors import BuildError
from components.lease import lease_objects
from components.secrets import seal
from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.errors import LeaseError
from lease.gpus import parse_gpu_requests
from lease.ids import LeaseId
from lease.manifest import Group, Manifest
from lease.sdl import read_sdl
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, LeaseSpec
from provider.units import parse_endpoint, parse_hostname, parse_object_name

__all__ = ["register"]

_OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
_PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
_REDACTED = "(redacted)"
_ACCOUNT = re.compile(r"[a-z]+1[a-z0-9]{6,58}")
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("render")(render)


def _account(value: str) -> str:
    """It becomes a label value, so it must at least look like an address."""
    if len(value) > 63 or not _ACCOUNT.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is no bech32 address, such as {_OWNER}")
    return value


def _each(parse: Callable[[str], str]) -> Callable[[list[str] | str | None], list[str] | str | None]:
    """A callback that has `parse` look at each value; what it refuses is the option's error."""

    def check(value: list[str] | str | None) -> list[str] | str | None:
        try:
            for text in [value] if isinstance(value, str) else value or []:
                if text:
                    parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return value

    return check


def render(
    file: Annotated[str, typer.Argument(help="An SDL file, or - for standard input.")],
    *,
    owner: Annotated[str, typer.Option(help="Tenant's address.", callback=_account)] = _OWNER,
    dseq: Annotated[int, typer.Option(min=1, max=2**64 - 1, help="Deployment sequence.")] = 1,
    provider: Annotated[str, typer.Option(help="Provider's address.", callback=_account)] = _PROVIDER,
    group: Annotated[str, typer.Option(help="Only this placement; otherwise all of them.")] = "",
    mode: Annotated[IngressMode, typer.Option(help="How hostnames are served.")] = IngressMode.INGRESS,
    domain: Annotated[
        str,
        typer.Option(help="Ingress domain; empty: no hostnames of the provider's own.", callback=_each(parse_hostname)),
    ] = "",
    public_hostname: Annotated[
        str, typer.Option(help="Where node ports are reached.", callback=_each(parse_hostname))
    ] = "provider.example.com",
    address: Annotated[
        list[str] | None, typer.Option(help="Leased addresses in the order of their endpoints; repeatable.")
    ] = None,
    runtime_class: Annotated[
        str, typer.Option(help="For services without an NVIDIA card.", callback=_each(parse_object_name))
    ] = "",
    policies: Annotated[bool, typer.Option(help="Network policies.")] = True,
    api_server_endpoint: Annotated[
        list[str] | None,
        typer.Option(help="address:port, for services that read the API; repeatable.", callback=_each(parse_endpoint)),
    ] = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Environment and credentials in clear.")] = False,
) -> None:
    """Print the Kubernetes objects of an SDL as YAML documents. No cluster is asked; the reservation's choices (node,
    card, addresses) are stand-ins, and the rollout label is 0.
    """
    cluster = ClusterFacts(
        ingress_mode=mode,
        public_hostname=public_hostname,
        network_policies=policies,
        api_server_endpoints=tuple(api_server_endpoint or ()),
    )
    settings = SpecSettings(static_hosts=bool(domain), ingress_domain=domain, runtime_class=runtime_class)
    world = _World(owner, dseq, provider, cluster, settings, tuple(address or ()))
    try:
        specs = list(_specs(_manifest(file), group, world))
        objects = [item for spec in specs for item in lease_objects(spec)]
    except OSError as error:
        _refuse(f"cannot read {file}: {error.strerror}; give an SDL file, or - for standard input")
    except (LeaseError, BuildError) as error:
        _refuse(str(error))
    sys.stdout.write(_documents(objects, show_secrets=show_secrets))


def _refuse(reason: str) -> NoReturn:
    typer.secho(reason, fg="red", err=True)
    raise typer.Exit(1) from None


@dataclass(frozen=True, slots=True)
class _World:
    """What the chain and the cluster would have said."""

    owner: str
    dseq: int
    provider: str
    cluster: ClusterFacts
    settings: SpecSettings
    addresses: tuple[str, ...]


def _manifest(file: str) -> Manifest:
    text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    return read_sdl(text, file=file).manifest


def _specs(manifest: Manifest, only: str, world: _World) -> Iterator[LeaseSpec]:
    """One spec a placement, gseq in their order."""
    names = [group.name for group in manifest]
    if only and only not in names:
        raise LeaseError(f"--group: no placement is called {only!r}; there are: {', '.join(names)}")
    for gseq, group in enumerate(manifest, 1):
        if only in ("", group.name):
            yield lease_spec(
                lease=LeaseId(world.owner, world.dseq, gseq, 1, world.provider),
                group=group,
                resource_version="0",
                placements=_placements(group),
                addresses=_addresses(world, group),
                cluster=world.cluster,
                settings=world.settings,
            )


def _placements(group: Group) -> Mapping[int, GpuPlacement | None]:
    """The first card that each service would take; `any` where every model will do."""
    result: dict[int, GpuPlacement | None] = {}
    for service in group.services or ():
        requests = parse_gpu_requests(service.resources.gpu_attributes) if service.resources.gpu_units else ()
        for asked in (requests or ())[:1]:
            model = "any" if asked.model == "*" else asked.model
            result[service.resources.id] = GpuPlacement(
                vendor=asked.vendor, model=model, memory_size=asked.memory_size, interface=asked.interface
            )
    return result


def _addresses(world: _World, group: Group) -> Mapping[str, str]:
    """Given addresses first, then addresses reserved for documentation."""
    keys = sharing_keys(world.owner, group)
    stand_ins = (f"192.0.2.{number}" for number in range(1, 255))
    return dict(zip(keys, (*world.addresses, *stand_ins), strict=False))


class _Dumper(yaml.SafeDumper):
    """No anchors, and quotes around every text that some YAML parser might take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def _documents(objects: list[dict[str, Any]], *, show_secrets: bool) -> str:
    shown = objects if show_secrets else [seal(item, lambda _: _REDACTED) for item in objects]
    options: dict[str, Any] = {"sort_keys": False, "explicit_start": True, "allow_unicode": True, "width": 120}
    return str(yaml.dump_all(shown, Dumper=_Dumper, **options))
