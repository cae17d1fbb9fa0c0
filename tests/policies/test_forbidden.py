"""Each known way out of a lease is refused by the mandatory rule beside it, whatever else the lease is."""

from __future__ import annotations

import copy

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from components.lease import lease_objects
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, LeaseSpec, VolumeKind, VolumeSpec
from policies.facts import facts_of
from policies.judge import RULES, judge
from policies.rules import Domain
from tests.components.specs import environment, fenced, hostname, leased_ip, service
from tests.policies.corpus import corpus_leases
from tests.policies.shapes import shapes

CARD = GpuPlacement(vendor="nvidia", model="a100")
SHAPES = {f"{shape.rule}: {shape.name}": shape for shape in shapes()}
LEAST_SHAPES = 200


def by_gateway() -> LeaseSpec:
    lease = fenced()
    cluster = lease.cluster.model_copy(update={"ingress_mode": IngressMode.GATEWAY_API})
    return lease.model_copy(update={"cluster": cluster})


def with_a_card() -> LeaseSpec:
    lease = fenced()
    ai = service("ai", gpu_units=1, gpu=CARD, runtime_class="nvidia", ports=())
    return lease.model_copy(update={"services": (*lease.services, ai)})


BASES = tuple((tuple(lease_objects(lease)), facts_of(lease)) for lease in (fenced(), by_gateway(), with_a_card()))


@pytest.mark.parametrize("lease", [fenced(), by_gateway(), with_a_card()], ids=["ingress", "gateway", "card"])
def test_the_lease_itself_breaks_no_rule(lease: LeaseSpec) -> None:
    assert judge(lease_objects(lease), lease=facts_of(lease)) == ()
    assert judge(lease_objects(lease)) == (), "nor without the facts of its lease"


@pytest.mark.parametrize("name", SHAPES)
def test_each_forbidden_shape_breaks_its_mandatory_rule(name: str) -> None:
    shape = SHAPES[name]
    fitting = 0
    for objects, facts in BASES:
        changed = copy.deepcopy(list(objects))
        try:
            shape.put(changed)
        except LookupError:
            continue
        fitting += 1
        found = judge(changed, [rule for rule in RULES if rule.id == shape.rule], lease=facts)
        assert any(each.mandatory for each in found)
    assert fitting, "no lease of this test has the place of the shape"


def test_every_rule_of_leases_has_forbidden_shapes_and_there_are_hundreds() -> None:
    of_leases = {rule.id for rule in RULES if Domain.LEASE in rule.domains}
    assert {shape.rule for shape in shapes()} == of_leases
    assert len(SHAPES) == len(shapes()) > LEAST_SHAPES


@st.composite
def leases(draw: st.DrawFn) -> LeaseSpec:
    """Valid leases of many forms: services with and without cards, claims, rights, leased addresses and hostnames."""
    names = draw(st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), min_size=1, max_size=3, unique=True))
    services = [
        service(
            name,
            count=draw(st.integers(1, 5)),
            cpu_limit_milli=draw(st.integers(10, 64_000)),
            memory_limit_bytes=draw(st.integers(134217728, 2**40)),
            environment=environment(("A", draw(st.text("a \n€=", max_size=8))), ("NVIDIA_VISIBLE_DEVICES", "void")),
            permissions_read=draw(st.sampled_from([(), ("logs",), ("events", "logs")])),
            volumes=draw(st.sampled_from([(), (RAM,), (CLAIM,)])),
        )
        for name in names
    ]
    first = services[0].name
    return fenced().model_copy(
        update={
            "services": tuple(services),
            "hostnames": draw(st.sampled_from([(), (hostname(service=first),)])),
            "leased_ips": draw(st.sampled_from([(), (leased_ip(service=first),)])),
            "cluster": ClusterFacts(ingress_mode=draw(st.sampled_from(IngressMode))),
        }
    )


RAM = VolumeSpec(name="shm", kind=VolumeKind.RAM, size_bytes=2**20, mount="/dev/shm")
CLAIM = VolumeSpec(name="data", kind=VolumeKind.PERSISTENT, size_bytes=2**30, storage_class="beta2", mount="/data")


@settings(max_examples=100, deadline=None)
@given(leases(), st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=3, unique=True))
def test_no_lease_however_formed_hides_a_forbidden_shape(lease: LeaseSpec, chosen: list[str]) -> None:
    """One shape breaks its own rule in every lease that has its place; several at once are refused too."""
    objects = copy.deepcopy(list(lease_objects(lease)))
    assert judge(objects, lease=facts_of(lease)) == ()
    put = []
    for shape in (SHAPES[name] for name in chosen):
        try:
            shape.put(objects)
        except LookupError:
            continue
        put.append(shape.rule)
    assume(put)
    found = {each.rule for each in judge(objects, lease=facts_of(lease)) if each.mandatory}
    assert found
    if len(put) == 1 and SHAPES[chosen[0]].name not in NEEDS_A_NEIGHBOUR:
        assert put[0] in found


NEEDS_A_NEIGHBOUR = {"more than the quota", "a token without a Role", "a token whose Role is another's"}
"""Shapes that are forbidden only beside another object, or only when the lease rents less."""


@pytest.mark.parametrize("mode", list(IngressMode))
def test_every_valid_sdl_of_the_corpus_keeps_every_rule(mode: IngressMode) -> None:
    many = 100
    leases = corpus_leases(mode)
    assert len(leases) > many
    for name, lease in leases.items():
        assert judge(lease_objects(lease), form=lease.form, lease=facts_of(lease)) == (), name
