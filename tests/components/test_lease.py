"""The whole lease: order, secrets, determinism, and registering without importing Pulumi."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.credentials import credentials_objects
from components.errors import BuildError
from components.lease import _Kept, keep_built, lease_objects, lease_parts
from components.secrets import seal
from lease.spec import LeaseSpec, RegistryCredentials
from tests.components.specs import NAMESPACE, environment, everything, hostname, leased_ip, port, service, spec


def test_objects_come_in_one_fixed_order():
    assert [f"{item['kind']}/{item['metadata']['name'][:30]}" for item in lease_objects(everything())] == [
        f"Namespace/{NAMESPACE[:30]}",
        "Secret/docker-creds-web",
        "NetworkPolicy/akash-deployment-restrictions",
        "NetworkPolicy/akash-web-np",
        "NetworkPolicy/akash-web-ip",
        "NetworkPolicy/akash-apiserver-store",
        "Deployment/web",
        "Service/web",
        "Service/web-np",
        "ServiceAccount/store",
        "Role/store",
        "RoleBinding/store",
        "StatefulSet/store",
        "Service/store",
        "Ingress/test.localhost",
        "IPAddressPool/" + lease_objects(everything())[15]["metadata"]["name"][:30],
        "L2Advertisement/" + lease_objects(everything())[15]["metadata"]["name"][:30],
        "Service/web-ip-53-udp",
        "Service/web-ip-80-tcp",
    ]


def test_every_object_but_the_namespace_and_the_pool_lives_in_the_leases_namespace():
    homes = {item["kind"]: item["metadata"].get("namespace") for item in lease_objects(everything())}
    assert homes.pop("Namespace") is None
    assert {homes.pop("IPAddressPool"), homes.pop("L2Advertisement")} == {"metallb-system"}
    assert set(homes.values()) == {NAMESPACE}


def test_each_service_carries_the_version_at_which_it_last_changed():
    versions = {
        (item["kind"], item["metadata"]["name"]): item["metadata"]["labels"].get(
            "akash.network/manifest.resource.version"
        )
        for item in lease_objects(everything())
    }
    assert versions["Deployment", "web"] == "42"
    assert versions["StatefulSet", "store"] == versions["Role", "store"] == "57"


def test_a_spec_that_went_through_its_json_makes_the_same_objects():
    assert lease_objects(LeaseSpec.from_json(everything().canonical_json())) == lease_objects(everything())


def test_the_pull_secret_is_dockers_own_file():
    credentials = RegistryCredentials(host=" r.example ", email=" ", username=" u\n", password="\tp:w ")
    secret = credentials_objects(spec(service(credentials=credentials)))[0]
    assert (secret["metadata"]["name"], secret["type"]) == ("docker-creds-web", "kubernetes.io/dockerconfigjson")
    assert list(secret["data"]) == [".dockerconfigjson"]
    config = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    auth = base64.b64encode(b"u:p:w").decode()
    assert config == {"auths": {" r.example ": {"username": "u", "password": "p:w", "auth": auth}}}


def test_sealing_hides_every_secret_text_and_leaves_the_manifest_alone():
    made = lease_objects(everything())
    before = json.dumps(made)
    sealed = json.dumps([seal(item, lambda _: "***") for item in made])
    assert "s3cret" in before
    assert "s3cret" not in sealed
    credentials = everything().services[0].credentials
    assert credentials is not None
    assert credentials.password.get_secret_value() not in sealed
    one_secret, of_web, of_store = 1, 7, 6
    assert sealed.count("***") == one_secret + of_web + of_store
    assert json.dumps(made) == before


CLASHES = {
    "a service named like a node port": {
        "services": (service(ports=(port(8080, global_=True),)), service("web-np", ports=(port(1),)))
    },
    "two services of one name": {"services": (service(), service())},
    "one hostname twice": {"hostnames": (hostname(), hostname())},
    "one port on two addresses": {"leased_ips": (leased_ip(), leased_ip(sharing_key="other", address="192.0.2.8"))},
}


@pytest.mark.parametrize("changes", CLASHES.values(), ids=CLASHES.keys())
def test_two_objects_of_one_name_are_refused(changes):
    with pytest.raises(BuildError, match="each name once"):
        lease_objects(spec(**changes))


def test_the_same_leased_expose_twice_is_one_service():
    made = lease_objects(spec(leased_ips=(leased_ip(), leased_ip(port=81), leased_ip())))
    balancers = [item for item in made if item["metadata"]["name"] == "web-ip-80-tcp"]
    assert [item["spec"]["ports"][0]["targetPort"] for item in balancers] == [8080]


def test_builders_never_import_pulumi():
    code = "import sys, components.lease, components.secrets, policies.judge; sys.exit('pulumi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


ports = st.builds(
    port,
    st.integers(1, 65535),
    st.integers(0, 65535),
    proto=st.sampled_from(("TCP", "UDP")),
    global_=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ports, max_size=12),
    st.lists(
        st.tuples(st.sampled_from("AB"), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)),
        max_size=9,
    ),
)
def test_no_list_repeats_a_key_that_server_side_apply_merges_by(exposes, variables):
    numbered = tuple(item.model_copy(update={"index": index}) for index, item in enumerate(exposes))
    made = lease_objects(spec(service(ports=numbered, environment=environment(*variables))))
    for item in made:
        if item["kind"] == "Deployment":
            container = item["spec"]["template"]["spec"]["containers"][0]
            assert_unique(entry["name"] for entry in container.get("env", []))
            assert_unique(entry["containerPort"] for entry in container.get("ports", []))
        if item["kind"] == "Service":
            assert_unique((entry["port"], entry["protocol"]) for entry in item["spec"]["ports"])
            assert_unique(entry["name"] for entry in item["spec"]["ports"])


def assert_unique(keys):
    listed = list(keys)
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("count", [1, 50])
def test_replicas_are_the_services_count(count):
    deployment = next(item for item in lease_objects(spec(service(count=count))) if item["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == count


def test_a_process_that_keeps_what_it_built_builds_another_spec_anew(monkeypatch):
    monkeypatch.setattr("components.lease._kept", _Kept())
    first, same = everything(), everything()
    assert lease_parts(first) is not lease_parts(first)
    keep_built()
    kept = lease_parts(first)
    assert lease_parts(first) is kept and lease_parts(same) is kept
    assert lease_parts(spec()) != kept
    assert lease_parts(first) is not kept and lease_parts(first) == kept
    keep_built(2)
    two = lease_parts(first), lease_parts(spec())
    assert (lease_parts(first), lease_parts(spec())) == two
    assert lease_parts(first) is two[0]
