"""The one pure function that makes a `LeaseSpec` from the manifest, the reservation and the cluster
(docs/architecture.md §4).

Requests, limits and environment follow kubernetes-objects.md §2.5, hostnames §2.9 and §6, addresses §2.8. The function
checks every value again, whatever was checked before, because its output reaches nodes and the shared HTTP edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lease.addresses import sharing_key
from lease.errors import ManifestRefused, SpecRefused
from lease.gpu_variables import fixed_variables
from lease.hostnames import is_route_host
from lease.ids import LeaseId, auto_hostname
from lease.manifest import Credentials, Expose, Group, HttpOptions, Service
from lease.resources import Volume
from lease.spec import (
    FIRST_FORM,
    FORM,
    ClusterFacts,
    EnvironmentVariable,
    GpuPlacement,
    HostnameSpec,
    LeasedIpSpec,
    LeaseSpec,
    PortSpec,
    RegistryCredentials,
    ServiceSpec,
    VolumeKind,
    VolumeSpec,
)
from lease.validation.provider import check_for_provider
from lease.versions import versioned

__all__ = [
    "PERMISSIONS",
    "UNRENTED_EPHEMERAL_BYTES",
    "SpecSettings",
    "committed",
    "facts_for",
    "lease_spec",
    "sharing_keys",
]

PERMISSIONS = ("logs", "events")
"""The entries of `permissions.read` that give a right (kubernetes-objects.md §2.3)."""

UNRENTED_EPHEMERAL_BYTES = 512 * 2**20
"""Disk for the root file system and the logs of a service that rents no ephemeral volume. Without a limit such a
service could fill its node's disk.
"""


class SpecSettings(BaseModel):
    """The provider's settings that shape a lease. Overcommit in percent: 50 means that a request is two thirds of the
    rented amount.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    static_hosts: bool = False
    ingress_domain: str = ""
    overcommit_cpu_percent: int = Field(default=0, ge=0)
    overcommit_memory_percent: int = Field(default=0, ge=0)
    overcommit_storage_percent: int = Field(default=0, ge=0)
    runtime_class: str = Field(default="", description='for services without an NVIDIA card; "" and "none" set none')
    user_namespaces: bool = Field(default=False, description="for services without a GPU")


@dataclass(frozen=True, slots=True)
class _Context:
    """What every service of the lease shares."""

    lease: LeaseId
    resource_version: str
    placements: Mapping[int, GpuPlacement | None]
    cluster: ClusterFacts
    settings: SpecSettings
    previous: Mapping[str, ServiceSpec]
    form: int


def committed(value: int, overcommit_percent: int) -> int:
    """The request for `value` rented, at least 1: value / (1 + percent/100), halves rounded up.

    The Go provider divides the percentage as an integer, so that a percentage below 100 has no effect
    (kubernetes-objects.md Q16).
    """
    if overcommit_percent <= 0:
        return value
    level = 100 + overcommit_percent
    return max(1, (2 * 100 * value + level) // (2 * level))


def sharing_keys(owner: str, group: Group) -> tuple[str, ...]:
    """The keys for which `lease_spec` needs an address, in order, without repetition."""
    exposes = (expose for service in group.services or () for expose in service.expose or ())
    return tuple(dict.fromkeys(sharing_key(owner, expose.ip) for expose in exposes if expose.global_ and expose.ip))


def lease_spec(
    *,
    lease: LeaseId,
    group: Group,
    resource_version: str,
    placements: Mapping[int, GpuPlacement | None],
    addresses: Mapping[str, str],
    cluster: ClusterFacts,
    settings: SpecSettings,
    withheld: frozenset[str] = frozenset(),
    previous: LeaseSpec | None = None,
    form: int = FORM,
    pools: Mapping[str, str] | None = None,
) -> LeaseSpec:
    """The spec of one lease, whose objects will have this `form`.

    `resource_version` is the Manifest object's. A service that is the same as in `previous` keeps the version it had,
    and one whose pods are the same keeps theirs, so that they do not roll. `placements` holds the reserved card by
    resource id, `addresses` the leased address by sharing key, `pools` the pool of an address that is in somebody
    else's, `withheld` the hostnames that another lease of the same owner keeps. Raises `SpecRefused`.
    """
    try:
        check_for_provider(group, require_hosts=False)
    except ManifestRefused as error:
        raise SpecRefused(error.problem) from None
    if not group.services:
        raise SpecRefused(f'group "{group.name}" contains no services')
    before = {service.name: service for service in previous.services} if previous else {}
    context = _Context(lease, resource_version, placements, cluster, settings, before, form)
    return LeaseSpec(
        form=form,
        lease=lease,
        group=group.name,
        first_resource_version=previous.first_resource_version if previous else resource_version,
        services=tuple(_service(context, service) for service in group.services),
        hostnames=tuple(_hostnames(lease, group.services, settings, withheld)),
        leased_ips=tuple(_leased_ips(lease, group.services, addresses, pools or {})),
        cluster=facts_for(cluster, form),
    )


def facts_for(cluster: ClusterFacts, form: int) -> ClusterFacts:
    """The facts that objects of this form depend on; a fact that an older form does not use would change its hash."""
    return cluster if form > FIRST_FORM else cluster.model_copy(update={"own_addresses": ()})


def _service(context: _Context, service: Service) -> ServiceSpec:
    """One service; it keeps its previous resource version if nothing else about it changed."""
    resources, settings = service.resources, context.settings
    volumes = tuple(_volumes(service))
    gpu = _gpu(context, service)
    fenced = context.form > FIRST_FORM
    ram = _in(VolumeKind.RAM, volumes)
    ephemeral = _in(VolumeKind.EPHEMERAL, volumes) or (UNRENTED_EPHEMERAL_BYTES if fenced else 0)
    ram_request = sum(committed(size, settings.overcommit_storage_percent) for size in _ram_sizes(volumes) if fenced)
    spec = ServiceSpec(
        name=service.name,
        image=service.image,
        command=service.command or (),
        args=service.args or (),
        environment=tuple(_environment(context, service)),
        count=service.count,
        resource_version=context.resource_version,
        resource_id=resources.id,
        cpu_request_milli=committed(resources.cpu_milli, settings.overcommit_cpu_percent),
        cpu_limit_milli=resources.cpu_milli,
        memory_request_bytes=committed(resources.memory_bytes, settings.overcommit_memory_percent) + ram_request,
        memory_limit_bytes=resources.memory_bytes + ram,
        ephemeral_request_bytes=committed(ephemeral, settings.overcommit_storage_percent) if ephemeral else 0,
        ephemeral_limit_bytes=ephemeral,
        gpu_units=resources.gpu_units,
        gpu=gpu,
        runtime_class=_runtime_class(gpu, settings),
        volumes=volumes,
        ports=tuple(_port(index, expose) for index, expose in enumerate(service.expose or ())),
        permissions_read=_permissions(service, known_only=fenced),
        credentials=_credentials(service.credentials),
        user_namespace=fenced and settings.user_namespaces and gpu is None,
    )
    return versioned(spec, context.previous.get(service.name), fenced=fenced)


def _in(kind: VolumeKind, volumes: Sequence[VolumeSpec]) -> int:
    """Bytes of all volumes of a kind."""
    return sum(volume.size_bytes for volume in volumes if volume.kind is kind)


def _ram_sizes(volumes: Sequence[VolumeSpec]) -> list[int]:
    return [volume.size_bytes for volume in volumes if volume.kind is VolumeKind.RAM and volume.size_bytes]


def _kind(volume: Volume) -> VolumeKind:
    if volume.persistent:
        return VolumeKind.PERSISTENT
    return VolumeKind.RAM if volume.storage_class == "ram" else VolumeKind.EPHEMERAL


def _volumes(service: Service) -> Iterator[VolumeSpec]:
    """The volumes in the manifest's order, each with its mount if it has one."""
    mounts = {mount.name: mount for mount in (service.params and service.params.storage) or ()}
    for volume in service.resources.storage or ():
        mount = mounts.get(volume.name)
        yield VolumeSpec(
            name=volume.name,
            kind=_kind(volume),
            size_bytes=volume.size_bytes,
            storage_class=volume.storage_class or "",
            mount=mount.mount if mount else "",
            read_only=mount.read_only if mount else False,
        )


def _gpu(context: _Context, service: Service) -> GpuPlacement | None:
    if not service.resources.gpu_units:
        return None
    placement = context.placements.get(service.resources.id)
    if placement is None:
        raise SpecRefused(
            f'service "{service.name}" rents {service.resources.gpu_units} GPU, '
            f"but the reservation chose no card for resource id {service.resources.id}; reserve again"
        )
    return placement


def _runtime_class(gpu: GpuPlacement | None, settings: SpecSettings) -> str:
    if gpu is not None and gpu.vendor == "nvidia":
        return "nvidia"
    return "" if settings.runtime_class == "none" else settings.runtime_class


def _environment(context: _Context, service: Service) -> Iterator[EnvironmentVariable]:
    """The tenant's variables, then the provider's where the tenant did not set the name (kubernetes-objects.md
    §2.5.1), then those that only the provider sets.
    """
    fixed, mine = fixed_variables(gpus=service.resources.gpu_units) if context.form > FIRST_FORM else ({}, frozenset())
    names = set()
    for entry in service.env or ():
        name, _, value = entry.partition("=")
        names.add(name)
        if name not in mine:
            yield EnvironmentVariable(name=name, value=SecretStr(value))
    lease = context.lease
    for name, value in (
        ("AKASH_GROUP_SEQUENCE", str(lease.gseq)),
        ("AKASH_DEPLOYMENT_SEQUENCE", str(lease.dseq)),
        ("AKASH_ORDER_SEQUENCE", str(lease.oseq)),
        ("AKASH_OWNER", lease.owner),
        ("AKASH_PROVIDER", lease.provider),
        ("AKASH_CLUSTER_PUBLIC_HOSTNAME", context.cluster.public_hostname),
    ):
        if name not in names:
            yield EnvironmentVariable(name=name, value=SecretStr(value))
    for name, value in fixed.items():
        yield EnvironmentVariable(name=name, value=SecretStr(value))


def _port(index: int, expose: Expose) -> PortSpec:
    return PortSpec(
        index=index,
        port=expose.port,
        external_port=expose.effective_port,
        proto=expose.proto,
        global_=expose.global_,
        ingress=expose.is_ingress,
        ip_name=expose.ip,
    )


def _permissions(service: Service, *, known_only: bool) -> tuple[str, ...]:
    """The `permissions.read` list. An unknown entry gives no rule and must not mount a token or open a network."""
    permissions = service.params.permissions if service.params else None
    read = (permissions.read or ()) if permissions else ()
    return tuple(entry for entry in read if entry in PERMISSIONS) if known_only else read


def _credentials(credentials: Credentials | None) -> RegistryCredentials | None:
    if credentials is None:
        return None
    return RegistryCredentials(
        host=credentials.host,
        email=credentials.email,
        username=credentials.username,
        password=SecretStr(credentials.password),
    )


def _edge_options(options: HttpOptions) -> dict[str, object]:
    """The HTTP options. A body size of 0 means that none were given, so that all take their defaults
    (kubernetes-objects.md §2.9).
    """
    if options.max_body_size == 0:
        options = HttpOptions(next_timeout=60000)
    return {
        "max_body_size": options.max_body_size,
        "read_timeout": options.read_timeout,
        "send_timeout": options.send_timeout,
        "next_tries": options.next_tries,
        "next_timeout": options.next_timeout,
        "next_cases": options.next_cases,
        "proxy_buffer_size": options.proxy_buffer_size,
    }


def _hostnames(
    lease: LeaseId, services: Sequence[Service], settings: SpecSettings, withheld: frozenset[str]
) -> Iterator[HostnameSpec]:
    """The listed hosts in lower case, then the provider's own name for the service, without repetition."""
    taken = set(withheld)
    for service in services:
        for expose in service.expose or ():
            if not expose.is_ingress:
                continue
            hosts = [host.lower() for host in expose.hosts or ()]
            if settings.static_hosts:
                hosts.append(auto_hostname(lease, service.name, settings.ingress_domain))
            for host in hosts:
                if host not in taken:
                    taken.add(host)
                    yield _hostname(service, expose, host)


def _hostname(service: Service, expose: Expose, host: str) -> HostnameSpec:
    if not is_route_host(host):
        problem = f'"{host}" is no hostname; check the manifest and the setting ingress domain'
        raise SpecRefused(f'service "{service.name}": {problem}')
    return HostnameSpec.model_validate(
        {
            "hostname": host,
            "service": service.name,
            "external_port": expose.effective_port,
            **_edge_options(expose.http_options),
        }
    )


def _leased_ips(
    lease: LeaseId, services: Sequence[Service], addresses: Mapping[str, str], pools: Mapping[str, str]
) -> Iterator[LeasedIpSpec]:
    """One leased IP for each global expose that names an IP. Of two exposes with the same address, port and protocol
    the first one counts.
    """
    taken: set[tuple[str, int, str]] = set()
    for service in services:
        for expose in service.expose or ():
            key = sharing_key(lease.owner, expose.ip)
            place = (key, expose.effective_port, expose.proto)
            if not (expose.global_ and expose.ip) or place in taken:
                continue
            taken.add(place)
            if not addresses.get(key):
                wanted = f"{expose.effective_port}/{expose.proto} on the leased IP {expose.ip!r}"
                problem = f"no address is given for {key!r}; allocate one first"
                raise SpecRefused(f'service "{service.name}" exposes {wanted}, but {problem}')
            yield LeasedIpSpec(
                service=service.name,
                port=expose.port,
                external_port=expose.effective_port,
                proto=expose.proto,
                sharing_key=key,
                address=addresses[key],
                pool=pools.get(key, ""),
            )
