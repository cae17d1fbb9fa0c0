"""Groups a tenant could send, from ordinary to odd, and the lease that is built from one: for laws about builders."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.ids import LeaseId
from lease.manifest import Credentials, Expose, Group, HttpOptions, Params, Permissions, Service, StorageMount
from lease.resources import Attribute, Resources, Volume
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, LeaseSpec
from lease.validation.provider import NEXT_CASES

__all__ = ["World", "lease_of", "worlds"]

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
_BARE = "".join(map(chr, range(0x7F, 0xA0))) + "\0\ufffe\uffff"
_WORD = st.text(st.characters(codec="utf-8", exclude_characters=_BARE), max_size=20)
"""Of commands and paths, which may hold less than a variable."""
_WORDS = st.none() | st.lists(_WORD, max_size=3).map(tuple)
_NAME = st.sampled_from(("web", "db", "a", "web-np", "w" * 60, "s" * 52)) | st.from_regex(
    r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True
)
_IMAGE = st.sampled_from(("nginx", "ghcr.io/a/b:1.2@sha256:" + "0" * 64, "Bad:Image:")) | st.text(
    st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=40
)
_ENV = st.builds(
    "{}{}".format,
    st.sampled_from(("A", "A.B", "-x", "_", "AKASH_OWNER", "a-b")),
    st.just("") | st.builds("={}".format, _TEXT),
)
_HOST = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?){0,3}", fullmatch=True)
_STATUS = st.sampled_from([case for case in NEXT_CASES if case != "off"])
_CASES = st.just(("off",)) | st.lists(_STATUS, max_size=4).map(tuple)
_HTTP = st.builds(
    HttpOptions,
    max_body_size=st.integers(0, 104857600),
    read_timeout=st.integers(0, 60000),
    send_timeout=st.integers(0, 60000),
    next_tries=st.integers(0, 2**32 - 1),
    next_timeout=st.integers(0, 2**32 - 1),
    next_cases=_CASES,
    proxy_buffer_size=st.integers(0, 1048576),
)
_PORT = st.sampled_from((80, 443, 53, 65535)) | st.integers(1, 65535)
_EXPOSE = st.builds(
    Expose,
    port=_PORT,
    external_port=st.sampled_from((0, 80)) | _PORT,
    proto=st.sampled_from(("TCP", "UDP")),
    global_=st.booleans(),
    hosts=st.none() | st.lists(_HOST, max_size=2).map(tuple),
    http_options=_HTTP,
    ip=st.sampled_from(("", "", "front", "me_you")),
)
_CLASSES = (
    (),
    (Attribute("persistent", "false"),),
    (Attribute("class", "ram"), Attribute("persistent", "false")),
    *((Attribute("class", name), Attribute("persistent", "true")) for name in ("beta2", "default")),
)
_VOLUME = st.builds(
    Volume,
    st.sampled_from(("default", "data", "shm", "a-b")) | st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True),
    st.integers(5 * 2**20, 2**50),
    st.sampled_from(_CLASSES),
)
_VOLUMES = st.lists(_VOLUME, min_size=1, max_size=4, unique_by=lambda volume: volume.name).map(tuple)
_PLACEMENT = st.builds(
    GpuPlacement,
    vendor=st.sampled_from(("nvidia", "amd")),
    model=st.sampled_from(("a100", "rtx4090", "h100.80")),
    memory_size=st.sampled_from(("", "80Gi")),
    interface=st.sampled_from(("", "pcie", "sxm4")),
)


@dataclass(frozen=True, slots=True)
class World:
    """A group and the cluster it is for."""

    group: Group
    placement: GpuPlacement
    cluster: ClusterFacts
    settings: SpecSettings


@st.composite
def _service(draw: st.DrawFn) -> Service:
    volumes = draw(_VOLUMES)
    mounted = draw(st.lists(st.sampled_from(volumes), max_size=3, unique_by=lambda volume: volume.name))
    mounts = tuple(
        StorageMount(volume.name, f"/{number}{draw(_WORD).replace(':', '')}", draw(st.booleans()))
        for number, volume in enumerate(mounted)
    )
    cards = draw(st.sampled_from((0, 0, 1, 8)))
    resources = Resources(
        id=draw(st.integers(1, 3)),
        cpu_milli=draw(st.integers(1, 2**32 - 1)),
        memory_bytes=draw(st.integers(1, 100 * 2**40)),
        storage=volumes,
        gpu_units=cards,
        gpu_attributes=(Attribute("vendor/nvidia/model/*", "true"),) if cards else (),
    )
    read = draw(st.sampled_from((None, (), ("logs",), ("events", "logs", "unknown"))))
    return Service(
        name=draw(_NAME),
        image=draw(_IMAGE),
        resources=resources,
        count=draw(st.sampled_from((0, 1, 3, 2**31 - 1))),
        command=draw(_WORDS),
        args=draw(_WORDS),
        env=draw(st.none() | st.lists(_ENV, max_size=4).map(tuple)),
        expose=draw(st.lists(_EXPOSE, max_size=6).map(tuple)),
        params=Params(storage=mounts, permissions=Permissions(read)),
        credentials=draw(st.none() | st.builds(Credentials, _TEXT, _TEXT, _TEXT, _TEXT)),
    )


_CLUSTER = st.builds(
    ClusterFacts,
    ingress_mode=st.sampled_from(IngressMode),
    public_hostname=st.sampled_from(("", "provider.example.com")),
    network_policies=st.sampled_from((True, True, False)),
    api_server_endpoints=st.sampled_from(((), ("192.0.2.1:6443", "[2001:db8::1]:443"))),
    pull_secret=st.sampled_from(("", "my-registry")),
    proxy_buffer_size=st.sampled_from(("", "16k")),
)
_SETTINGS = st.builds(
    SpecSettings,
    static_hosts=st.booleans(),
    ingress_domain=st.just("ingress.example.com"),
    overcommit_cpu_percent=st.integers(0, 1000),
    overcommit_memory_percent=st.integers(0, 1000),
    overcommit_storage_percent=st.integers(0, 1000),
    runtime_class=st.sampled_from(("", "none", "gvisor")),
)
_GROUP = st.builds(
    Group,
    st.just("dc"),
    st.lists(_service(), min_size=1, max_size=3, unique_by=lambda service: service.name).map(tuple),
)


def worlds() -> st.SearchStrategy[World]:
    """Anything from a small service to one that uses all there is, most of it valid."""
    return st.builds(World, _GROUP, _PLACEMENT, _CLUSTER, _SETTINGS)


def lease_of(world: World, lease: LeaseId) -> LeaseSpec:
    """The lease's spec. Raises `SpecRefused` where the group fits no provider."""
    services = world.group.services or ()
    group = replace(world.group, services=tuple(sorted(services, key=lambda service: service.name)))
    return lease_spec(
        lease=lease,
        group=group,
        resource_version="42",
        placements=dict.fromkeys((1, 2, 3), world.placement),
        addresses={key: f"198.51.100.{n}" for n, key in enumerate(sharing_keys(lease.owner, group), 1)},
        cluster=world.cluster,
        settings=world.settings,
    )
