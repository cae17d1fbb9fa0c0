"""A manifest that is answered with 200 must be one that can be built: what the checks before the answer let pass, the
builder takes. Otherwise a tenant is told yes, and his lease fails where he does not see it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from components.lease import lease_objects
from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.errors import ManifestRefused
from lease.manifest import (
    Credentials,
    Expose,
    Group,
    HttpOptions,
    Manifest,
    Params,
    Permissions,
    Service,
    StorageMount,
)
from lease.resources import Attribute, Resources, Volume
from lease.spec import ClusterFacts
from lease.validation import check_for_provider, check_new_manifest, validate_manifest
from lease.validation.manifest import expose_sort_key
from tests.components.specs import LEASE

UNKNOWN = "dd056dcd-154b-4c76-9bd3-c8f88648b5ff"
"""A marker of Pulumi that is a label, a name of a class and a hostname too."""
CHARACTERS = "a0-._/: \t\n\0\x1b\x7f\x85\x9f\u2028\ufffe\uffffZé😀$;{}\"'=*"
ODD = st.one_of(
    st.text(CHARACTERS, max_size=6),
    st.sampled_from(["", UNKNOWN, "a" * 63, "a" * 64, "default", "web-np", "ram", ".", "..a"]),
)
NAMES = st.one_of(st.sampled_from(["web", "web-np", "apiserver-web", "apiserver-z", "z-np", "z-ip", "w" * 60]), ODD)
CLASSES = st.one_of(st.sampled_from(["beta2", "default", "ram", "Beta2", "a_b", "a..b", "a.b"]), ODD)
SIZES = st.sampled_from([0, 1, 10**9, 2**62, 2**63 - 1, 2**63])
PATHS = st.one_of(st.just("/data"), st.just("/dev/shm"), ODD, ODD.map(lambda text: f"/{text}"))
NUMBERS = st.sampled_from([0, 1, 80, 443, 65535, 65536])


def rarely(plain: Any, odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what is usual: a manifest with one oddity gets further than one with ten."""
    return st.integers(0, 40).flatmap(lambda number: st.just(plain) if number else odd)


@st.composite
def volumes(draw: st.DrawFn, index: int) -> tuple[Volume, tuple[StorageMount, ...]]:
    kind = draw(st.sampled_from(["ephemeral", "ram", "persistent"]))
    storage_class = draw(rarely("ram" if kind == "ram" else "beta2", CLASSES))
    attributes = (Attribute("class", storage_class), Attribute("persistent", str(kind == "persistent").lower()))
    name = draw(rarely(f"d{index}", ODD))
    volume = Volume(name, draw(rarely(10**9, SIZES)), () if kind == "ephemeral" else attributes)
    mount = StorageMount(name, draw(rarely(f"/data{index}", PATHS)), draw(st.booleans()))
    return volume, (mount,) if kind != "ephemeral" or draw(st.booleans()) else ()


@st.composite
def exposes(draw: st.DrawFn) -> Expose:
    outside = draw(st.booleans())
    hosts = (draw(rarely(f"h{draw(st.integers(0, 10**6))}.example", ODD)),) if draw(st.booleans()) else ()
    options = HttpOptions(
        draw(rarely(1048576, SIZES)), next_cases=(draw(rarely("error", st.sampled_from(["off", "500", "x"]))),)
    )
    return Expose(
        port=draw(rarely(8080, NUMBERS)),
        external_port=draw(rarely(80, NUMBERS)),
        proto=draw(st.sampled_from(["TCP", "UDP"])),
        global_=outside,
        hosts=hosts,
        http_options=options,
        ip=draw(rarely("", ODD)) if outside else "",
    )


@st.composite
def services(draw: st.DrawFn) -> Service:
    made = [draw(volumes(index)) for index in range(draw(st.integers(1, 3)))]
    resources = Resources(
        1, draw(rarely(100, SIZES)), draw(rarely(10**9, SIZES)), tuple(volume for volume, _ in made), endpoints=()
    )
    params = Params(
        storage=tuple(mount for _, mounts in made for mount in mounts),
        permissions=Permissions(("logs",)) if draw(st.booleans()) else None,
    )
    texts = st.lists(rarely("word", ODD), max_size=2).map(tuple)
    credentials = Credentials(*(draw(rarely("word-word", ODD)) for _ in range(4)))
    return Service(
        name=draw(rarely("web" if draw(st.booleans()) else "apiserver-web", NAMES)),
        image=draw(rarely("nginx", ODD)),
        command=draw(texts),
        args=draw(texts),
        env=draw(st.lists(rarely("A=1", st.tuples(rarely("B", ODD), ODD).map("=".join)), max_size=2).map(tuple)),
        resources=resources,
        count=draw(rarely(1, SIZES)),
        expose=tuple(sorted(draw(st.lists(exposes(), max_size=2)), key=expose_sort_key)),
        params=params,
        credentials=draw(st.sampled_from([None, credentials])),
    )


@settings(max_examples=250, deadline=None)
@given(st.lists(services(), min_size=1, max_size=2))
def test_what_is_taken_can_be_built(made: list[Service]) -> None:
    group = Group("dc", tuple(sorted(made, key=lambda service: service.name.encode())))
    try:
        validate_manifest(with_an_entrance(group))
        check_for_provider(group, require_hosts=False)
        check_new_manifest(group, owner=LEASE.owner)
    except ManifestRefused as refused:
        event("refused before the answer")
        assert str(refused)
        return
    event("taken")
    spec = lease_spec(
        lease=LEASE,
        group=group,
        resource_version="1",
        placements={},
        addresses=dict.fromkeys(sharing_keys(LEASE.owner, group), "192.0.2.9"),
        cluster=ClusterFacts(api_server_endpoints=("192.0.2.1:6443",)),
        settings=SpecSettings(static_hosts=True, ingress_domain="ingress.example"),
    )
    assert lease_objects(spec)


def with_an_entrance(group: Group) -> Manifest:
    """A manifest needs a global service somewhere; it may stand in another group, which is not looked at here."""
    door = Service(
        "entrance", "nginx", Resources(1, 100, 10**9, (), endpoints=()), 1, expose=(Expose(80, global_=True),)
    )
    return (group, Group("entrance", (door,)))
