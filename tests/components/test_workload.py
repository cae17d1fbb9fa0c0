"""Workloads, containers, volumes and placement (kubernetes-objects.md §2.5–2.6, §2.12, T8, T9, T16)."""

from __future__ import annotations

import pytest
import yaml

from components.errors import BuildError
from components.quantity import decimal, milli
from components.workload import workload_object
from lease.build import committed
from lease.spec import ClusterFacts, GpuPlacement, RegistryCredentials, VolumeKind, VolumeSpec
from tests.components.specs import AKASH_ENVIRONMENT, NAMESPACE, environment, port, service, spec

GOLDEN = f"""
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: {NAMESPACE}
  labels: &l
    akash.network: "true"
    akash.network/namespace: {NAMESPACE}
    akash.network/manifest.resource.version: "42"
    akash.network/manifest-service: web
spec:
  replicas: 1
  revisionHistoryLimit: 10
  strategy: {{type: RollingUpdate, rollingUpdate: {{maxSurge: 0, maxUnavailable: 1}}}}
  selector: {{matchLabels: {{akash.network: "true", akash.network/manifest-service: web,
    akash.network/namespace: {NAMESPACE}}}}}
  template:
    metadata: {{labels: *l}}
    spec:
      affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [
        {{matchExpressions: [{{key: akash.network, operator: In, values: ["true"]}}]}}]}}}}}}
      automountServiceAccountToken: false
      securityContext: {{runAsNonRoot: false}}
      containers:
        - name: web
          image: quay.io/ovrclk/demo-app
          imagePullPolicy: IfNotPresent
          securityContext: {{runAsNonRoot: false, privileged: false, allowPrivilegeEscalation: false}}
          ports: [{{containerPort: 80}}]
          resources:
            requests: {{cpu: 10m, memory: "134217728", ephemeral-storage: "536870912"}}
            limits: {{cpu: 10m, memory: "134217728", ephemeral-storage: "536870912"}}
          env:
            - {{name: AKASH_GROUP_SEQUENCE, value: "1"}}
            - {{name: AKASH_DEPLOYMENT_SEQUENCE, value: "12345678"}}
            - {{name: AKASH_ORDER_SEQUENCE, value: "1"}}
            - {{name: AKASH_OWNER, value: akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx}}
            - {{name: AKASH_PROVIDER, value: akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js}}
            - {{name: AKASH_CLUSTER_PUBLIC_HOSTNAME, value: app.localhost}}
"""


def pod_of(*args, **changes):
    made = service(*args, **changes)
    return workload_object(spec(made), made)["spec"]["template"]["spec"]


def container_of(**changes):
    return pod_of(**changes)["containers"][0]


def affinity_keys(**changes):
    required = pod_of(**changes)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term.keys() for term in required["nodeSelectorTerms"]] == [{"matchExpressions"}]
    first, *rest = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert first == {"key": "akash.network", "operator": "In", "values": ["true"]}
    assert all(item["operator"] == "Gt" and item["values"] == ["0"] for item in rest)
    return [item["key"].removeprefix("akash.network/capabilities.") for item in rest]


def test_the_golden_example_is_built_to_the_letter():
    assert workload_object(spec(), service()) == yaml.safe_load(GOLDEN)


def test_a_container_sees_the_six_akash_variables_after_its_own_in_order():
    container = container_of(environment=environment(("A", "1"), *AKASH_ENVIRONMENT))
    assert [(item["name"], item["value"]) for item in container["env"]] == [("A", "1"), *AKASH_ENVIRONMENT]


def test_an_empty_variable_is_sent_without_a_value():
    assert container_of(environment=environment(("EMPTY", "")))["env"] == [{"name": "EMPTY"}]


def test_a_repeated_variable_keeps_its_first_place_and_its_last_value():
    container = container_of(environment=environment(("A", "1"), ("B", "2"), ("A", "3")))
    assert container["env"] == [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]


@pytest.mark.parametrize(("read", "token"), [((), False), (("logs",), True)])
def test_the_service_account_token_is_always_decided_and_only_given_with_permissions(read, token):
    pod = pod_of(permissions_read=read)
    assert pod["automountServiceAccountToken"] is token
    assert pod.get("serviceAccountName") == ("web" if token else None)


def test_one_service_with_permissions_gives_its_sibling_nothing():
    reader, sibling = service("reader", permissions_read=("logs",)), service("sibling")
    pod = workload_object(spec(reader, sibling), sibling)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False


CREDENTIALS = RegistryCredentials(host="r.example", email="", username="u", password="p")


@pytest.mark.parametrize(
    ("credentials", "provider_wide", "names"),
    [
        (None, "", None),
        (None, " my-registry ", ["my-registry"]),
        (CREDENTIALS, "my-registry", ["docker-creds-web"]),
    ],
)
def test_own_credentials_come_before_the_provider_wide_pull_secret(credentials, provider_wide, names):
    made = service(credentials=credentials)
    pod = workload_object(spec(made, cluster=ClusterFacts(pull_secret=provider_wide)), made)["spec"]["template"]["spec"]
    assert [item["name"] for item in pod.get("imagePullSecrets", [])] == (names or [])


@pytest.mark.parametrize(
    ("runtime", "expected"), [("", None), ("none", None), ("gvisor", "gvisor"), ("nvidia", "nvidia")]
)
def test_a_requested_runtime_class_is_applied(runtime, expected):
    assert pod_of(runtime_class=runtime).get("runtimeClassName") == expected


def test_equal_container_ports_are_declared_once():
    ports = (port(53, global_=True), port(53, index=1, proto="UDP", global_=True), port(80, index=2))
    assert container_of(ports=ports)["ports"] == [{"containerPort": 53}, {"containerPort": 80}]


def test_a_service_without_exposes_declares_no_ports():
    assert "ports" not in container_of(ports=())


def test_a_persistent_volume_makes_a_stateful_set_with_a_claim_template():
    data = VolumeSpec(name="data", kind=VolumeKind.PERSISTENT, size_bytes=2**30, storage_class="beta2", mount="/data")
    made = service(volumes=(data,), count=3)
    built = workload_object(spec(made), made)
    assert built["kind"] == "StatefulSet"
    assert {key: built["spec"][key] for key in ("replicas", "revisionHistoryLimit", "updateStrategy")} == {
        "replicas": 3,
        "revisionHistoryLimit": 1,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    }
    assert "serviceName" not in built["spec"]
    assert "strategy" not in built["spec"]
    assert built["spec"]["volumeClaimTemplates"] == [
        {
            "metadata": {"name": "web-data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1073741824"}},
                "volumeMode": "Filesystem",
                "storageClassName": "beta2",
            },
        }
    ]


def test_class_default_names_no_class_in_the_claim_but_is_asked_of_the_node():
    data = VolumeSpec(name="data", kind=VolumeKind.PERSISTENT, size_bytes=1, storage_class="default", mount="/data")
    made = service(volumes=(data,))
    claim = workload_object(spec(made), made)["spec"]["volumeClaimTemplates"][0]
    assert "storageClassName" not in claim["spec"]
    assert affinity_keys(volumes=(data,)) == ["storage.class.default"]


def test_a_memory_volume_is_an_empty_dir_of_its_size():
    shm = VolumeSpec(name="shm", kind=VolumeKind.RAM, size_bytes=2**20, mount="/dev/shm")
    pod = pod_of(volumes=(shm,))
    assert pod["volumes"] == [{"name": "web-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1048576"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "web-shm", "mountPath": "/dev/shm"}]


def test_a_mounted_ephemeral_volume_exists_and_counts_as_ephemeral_storage():
    scratch = VolumeSpec(name="scratch", kind=VolumeKind.EPHEMERAL, size_bytes=2**20, mount="/scratch", read_only=True)
    pod = pod_of(volumes=(scratch,), ephemeral_request_bytes=2**20, ephemeral_limit_bytes=2**20)
    assert pod["volumes"] == [{"name": "web-scratch", "emptyDir": {"sizeLimit": "1048576"}}]
    container = pod["containers"][0]
    assert container["volumeMounts"] == [{"name": "web-scratch", "mountPath": "/scratch", "readOnly": True}]
    assert container["resources"]["limits"]["ephemeral-storage"] == "1048576"


def test_every_mount_has_its_volume():
    kinds = {"a": VolumeKind.EPHEMERAL, "b": VolumeKind.RAM, "c": VolumeKind.PERSISTENT}
    volumes = tuple(VolumeSpec(name=n, kind=k, size_bytes=1, mount=f"/{n}") for n, k in reversed(kinds.items()))
    made = service(volumes=volumes)
    built = workload_object(spec(made), made)["spec"]
    pod = built["template"]["spec"]
    known = {item["name"] for item in pod["volumes"]} | {c["metadata"]["name"] for c in built["volumeClaimTemplates"]}
    assert [item["name"] for item in pod["containers"][0]["volumeMounts"]] == ["web-a", "web-b", "web-c"]
    assert known == {"web-a", "web-b", "web-c"}


GPU = GpuPlacement(vendor="nvidia", model="a100")


@pytest.mark.parametrize(
    ("asked", "suffixes"),
    [
        ({}, [""]),
        ({"memory_size": "80Gi"}, ["", ".ram.80Gi"]),
        ({"interface": "pcie"}, ["", ".interface.pcie"]),
        ({"memory_size": "80Gi", "interface": "SXM4"}, ["", ".ram.80Gi", ".interface.sxm"]),
    ],
)
def test_gpu_memory_and_interface_reach_the_affinity(asked, suffixes):
    keys = affinity_keys(gpu_units=1, gpu=GPU.model_copy(update=asked))
    assert keys == [f"gpu.vendor.nvidia.model.a100{suffix}" for suffix in suffixes]


def test_each_persistent_volume_asks_for_its_class_after_the_gpu():
    volumes = tuple(
        VolumeSpec(name=name, kind=VolumeKind.PERSISTENT, size_bytes=1, storage_class="beta3") for name in ("a", "b")
    )
    keys = affinity_keys(gpu_units=1, gpu=GPU, volumes=volumes)
    assert keys == ["gpu.vendor.nvidia.model.a100", "storage.class.beta3", "storage.class.beta3"]


@pytest.mark.parametrize(("vendor", "resource"), [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu")])
def test_gpus_are_requested_and_limited_by_the_vendors_resource(vendor, resource):
    resources = container_of(gpu_units=8, gpu=GpuPlacement(vendor=vendor, model="m"))["resources"]
    assert resources["requests"][resource] == resources["limits"][resource] == "8"


@pytest.mark.parametrize("gpu", [None, GpuPlacement(vendor="intel", model="m")])
def test_gpus_of_an_unknown_vendor_are_refused_with_the_known_ones(gpu):
    with pytest.raises(BuildError, match="nvidia, amd"):
        container_of(gpu_units=1, gpu=gpu)


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu_units": 1, "gpu": GpuPlacement(vendor="nvidia", model="a100/../x")},
        {"gpu_units": 1, "gpu": GpuPlacement(vendor="nvidia", model="")},
        {"gpu_units": 1, "gpu": GpuPlacement(vendor="nvidia", model="a", memory_size="80 Gi")},
        {"gpu_units": 1, "gpu": GpuPlacement(vendor="nvidia", model="a", interface="pcie\n")},
        {"volumes": (VolumeSpec(name="d", kind=VolumeKind.PERSISTENT, size_bytes=1, storage_class="x" * 64),)},
        {"name": "Web"},
        {"name": "a" * 64},
        {"name": "web.evil"},
    ],
)
def test_a_value_that_is_no_part_of_a_label_or_name_is_refused(changes):
    with pytest.raises(BuildError):
        container_of(**changes) if "name" not in changes else pod_of(**changes)


@pytest.mark.parametrize(
    ("percent", "request_"), [(-200, 100), (-100, 100), (0, 100), (100, 50), (200, 33), (999_900, 1), (50, 67)]
)
def test_a_request_is_what_is_rented_divided_by_the_overcommit(percent, request_):
    assert committed(100, percent) == request_


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1"),
        (1000, "1k"),
        (134217728, "134217728"),
        (1048576000, "1048576k"),
        (10**9, "1G"),
        (10**21, "1000E"),
    ],
)
def test_whole_quantities_are_spelt_as_the_api_server_spells_them(value, text):
    assert decimal(value) == text


@pytest.mark.parametrize(("value", "text"), [(1, "1m"), (500, "500m"), (2000, "2"), (2500, "2500m"), (10**6, "1k")])
def test_thousandths_are_spelt_as_the_api_server_spells_them(value, text):
    assert milli(value) == text
