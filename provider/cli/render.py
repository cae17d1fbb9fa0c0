"""`lessor render`: the Kubernetes objects that an SDL becomes, without a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer
import yaml

from components.errors import BuildError
from components.lease import lease_objects
from components.secrets import seal
from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.errors import LeaseError
from lease.exit_codes import FINDING, TROUBLE, USAGE
from lease.gpus import parse_gpu_requests
from lease.ids import LeaseId
from lease.manifest import Group, Manifest
from lease.printable import printable
from lease.sdl import read_sdl
from lease.sdl.document import MAX_BYTES
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, LeaseSpec
from provider.cli.input_file import read_input
from provider.cli.names import account
from provider.cli.output import Output, OutputOption, print_result, table_lines
from provider.errors import ArgumentError
from provider.units import parse_endpoint, parse_hostname, parse_object_name

__all__ = ["render"]

_OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
_PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
_REDACTED = "(redacted)"
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def _each(parse: Callable[[str], str]) -> Callable[[list[str] | str | None], list[str] | str | None]:
    """A callback that parses each value of an option; a `ValueError` becomes the option's error."""

    def check(value: list[str] | str | None) -> list[str] | str | None:
        try:
            for text in [value] if isinstance(value, str) else value or []:
                if text:
                    parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return value

    return check


_File = Annotated[str, typer.Argument(help="An SDL; - reads standard input.", metavar="FILE")]
_Owner = Annotated[str, typer.Option(help="The tenant's address.", callback=account)]
_Dseq = Annotated[int, typer.Option(min=1, max=2**64 - 1, help="The deployment sequence.")]
_Provider = Annotated[str, typer.Option(help="The provider's address.", callback=account)]
_Group = Annotated[str, typer.Option(help="Render only this placement.")]
_Mode = Annotated[
    IngressMode, typer.Option(help="How hostnames are published: by Ingress objects or by the Gateway API.")
]
_Domain = Annotated[
    str,
    typer.Option(
        help="The ingress domain; without one, services get no hostname of the provider.",
        callback=_each(parse_hostname),
    ),
]
_PublicHostname = Annotated[
    str, typer.Option(help="The hostname at which node ports are reached.", callback=_each(parse_hostname))
]
_Address = Annotated[
    list[str] | None,
    typer.Option(help="A leased IP address; repeat it in the order of the SDL's endpoints."),
]
_RuntimeClass = Annotated[
    str,
    typer.Option(help="The runtime class of services without an NVIDIA card.", callback=_each(parse_object_name)),
]
_Policies = Annotated[bool, typer.Option(help="Render network policies.")]
_ApiServerEndpoint = Annotated[
    list[str] | None,
    typer.Option(
        help="address:port of the API server, for services that may read it. May be repeated.",
        callback=_each(parse_endpoint),
    ),
]
_ShowSecrets = Annotated[
    bool, typer.Option("--show-secrets", help="Print environment values and credentials in clear.")
]


def render(
    file: _File,
    *,
    owner: _Owner = _OWNER,
    dseq: _Dseq = 1,
    provider: _Provider = _PROVIDER,
    group: _Group = "",
    mode: _Mode = IngressMode.INGRESS,
    domain: _Domain = "",
    public_hostname: _PublicHostname = "provider.example.com",
    address: _Address = None,
    runtime_class: _RuntimeClass = "",
    policies: _Policies = True,
    api_server_endpoint: _ApiServerEndpoint = None,
    show_secrets: _ShowSecrets = False,
    output: OutputOption = Output.YAML,
) -> None:
    """Print the Kubernetes objects of an SDL as YAML, without a cluster.

    Where a provider would take the choices of a reservation, stand-ins are printed: the first card that fits, addresses
    reserved for documentation, rollout label 0.

    Example: `lessor render examples/web.yaml | kubectl diff -f -`
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
        _refuse(f"cannot read {file}: {error.strerror}; name an SDL, or - for standard input", code=TROUBLE)
    except ArgumentError as error:
        _refuse(str(error), code=USAGE)
    except (LeaseError, BuildError) as error:
        _refuse(str(error))
    shown = objects if show_secrets else [seal(item, lambda _: _REDACTED) for item in objects]
    if output is Output.YAML:  # one document for each object, as kubectl reads them
        sys.stdout.write(_documents(shown))
    else:
        rows = [(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in shown]
        print_result(shown, table_lines(rows, header=("KIND", "NAMESPACE", "NAME")), output)


def _refuse(reason: str, *, code: int = FINDING) -> NoReturn:
    typer.secho(printable(reason), fg="red", err=True)
    raise typer.Exit(code) from None


@dataclass(frozen=True, slots=True)
class _World:
    """What the chain and the cluster would supply."""

    owner: str
    dseq: int
    provider: str
    cluster: ClusterFacts
    settings: SpecSettings
    addresses: tuple[str, ...]


def _manifest(file: str) -> Manifest:
    return read_sdl(read_input(file, limit=MAX_BYTES), file=file).manifest


def _specs(manifest: Manifest, only: str, world: _World) -> Iterator[LeaseSpec]:
    """One spec for each placement; gseq counts them in their order."""
    names = [group.name for group in manifest]
    if only and only not in names:
        raise ArgumentError(f"--group: no placement is named {only!r}; the SDL has: {', '.join(names)}")
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
    """The first card that each service accepts, by resource id; model `any` where the service accepts every model."""
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
    """An address for each sharing key: first those of --address, then addresses reserved for documentation."""
    keys = sharing_keys(world.owner, group)
    stand_ins = (f"192.0.2.{number}" for number in range(1, 255))
    return dict(zip(keys, (*world.addresses, *stand_ins), strict=False))


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and quotes every text that some YAML parser might read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def _documents(objects: list[dict[str, Any]]) -> str:
    options: dict[str, Any] = {"sort_keys": False, "explicit_start": True, "allow_unicode": True, "width": 120}
    return str(yaml.dump_all(objects, Dumper=_Dumper, **options))
