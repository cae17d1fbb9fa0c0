"""The top-level project with the stock command line: preview, up, unchanged, destroy; its objects; its errors."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import yaml
from lightkube import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment, StatefulSet
from lightkube.resources.core_v1 import Namespace, ServiceAccount
from lightkube.resources.networking_v1 import Ingress, IngressClass
from lightkube.resources.rbac_authorization_v1 import ClusterRole, ClusterRoleBinding
from lightkube.resources.storage_v1 import StorageClass
from lightkube.types import PatchType

from devnet.controlplane import ControlPlane
from devnet.tools import Toolbox
from lease.spec import LeaseSpec
from provider.operators.inventory.discovery_pod import DiscoveryOptions, discovery_pod
from stacks.cluster.admission import CERTIFICATE_SECRET
from stacks.engine import EngineConfig, PulumiEngine
from stacks.kube import connect
from tests.stacks.leases import demo

ROOT = Path(__file__).resolve().parents[3]
DEV = ROOT / "Pulumi.dev.yaml"
PLURALS = ("manifests", "providerhosts", "providerleasedips")
CRDS = [f"{plural}.akash.network" for plural in PLURALS]

# one cluster-wide set of names: a cluster of its own, and one worker for all of these
pytestmark = [pytest.mark.devnet, pytest.mark.xdist_group("cluster-program")]


class Cli:
    """`pulumi` on the top-level project, seen from a folder of links: settings and backend are not the checkout's."""

    def __init__(self, env: dict[str, str], program: Path, folder: Path) -> None:
        self.env = env
        self.program = program
        self.folder = folder
        self.settings = folder / "Pulumi.t.yaml"

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), "-C", str(self.folder), "--non-interactive", "--color", "never", *args]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=180, check=False)

    def ok(self, *args: str) -> str:
        done = self(*args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def stack(self, verb: str, *args: str) -> subprocess.CompletedProcess[str]:
        return self(verb, "-s", "t", *args)


@pytest.fixture(scope="module")
def cluster(toolbox, tmp_path_factory) -> Iterator[ControlPlane]:
    with ControlPlane.start(tmp_path_factory.mktemp("cluster-program"), toolbox) as plane:
        yield plane


@pytest.fixture(scope="module")
def kube(cluster):
    import lightkube
    from lightkube.config.kubeconfig import KubeConfig

    client = lightkube.Client(KubeConfig.from_file(cluster.kubeconfig).get())
    yield client
    client.close()


@pytest.fixture(scope="module")
def fresh(cluster, toolbox, tmp_path_factory) -> Path:
    """A folder with a stack that was just made; each test has a copy of it."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "backend").mkdir()
    for name in ("Pulumi.yaml", "stacks", "policies", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    cli_in(folder, cluster, toolbox).ok("stack", "init", "t")
    return folder


@pytest.fixture
def pulumi(fresh, cluster, toolbox, tmp_path) -> Cli:
    shutil.copytree(fresh, tmp_path, symlinks=True, dirs_exist_ok=True)
    return cli_in(tmp_path, cluster, toolbox)


def cli_in(folder: Path, cluster: ControlPlane, toolbox: Toolbox) -> Cli:
    env = cluster.env() | {
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "for-this-test-only",
    }
    return Cli(env, toolbox.program("pulumi"), folder)


def test_the_life_of_the_cluster_stack(pulumi, kube, cluster, tmp_path):
    preview = pulumi.stack("preview", "--policy-pack", str(ROOT / "policies"))
    assert preview.returncode == 0, preview.stdout + preview.stderr
    assert "Policies:" in preview.stdout, "they see the cluster's objects too"
    assert not exists(kube, CustomResourceDefinition, CRDS[0])

    done = pulumi.stack("up", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in CRDS:
        definition = kube.get(CustomResourceDefinition, name)
        assert definition.metadata.annotations["helm.sh/resource-policy"] == "keep"
        version = next(version for version in definition.spec.versions if version.name == "v2beta2")
        assert version.served and version.storage and version.subresources.status is not None
    for name in ("lease", "akash-services"):
        kube.get(Namespace, name)
    assert kube.get(IngressClass, "akash-ingress-class").spec.controller == "k8s.io/ingress-nginx"
    kube.get(ServiceAccount, "lessor", namespace="akash-services")
    assert kube.get(ClusterRoleBinding, "lessor-provider").roleRef.name == "lessor-provider"
    outputs = json.loads(pulumi.ok("stack", "output", "-s", "t", "--json"))
    assert outputs["manifest-namespace"] == "lease" and outputs["ingress-class"] == "akash-ingress-class"

    again = pulumi.stack("up", "--yes", "--skip-preview", "--expect-no-changes")
    assert again.returncode == 0, again.stdout + again.stderr

    records_are_stored_and_bad_ones_refused(kube)
    no_right_is_unlimited(kube)
    the_rights_are_enough_for_a_lease(pulumi, cluster, tmp_path)
    the_account_is_kept_to_what_belongs_to_leases(pulumi, cluster, tmp_path)

    gone = pulumi.stack("destroy", "--yes", "--skip-preview")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert exists(kube, IngressClass, "akash-ingress-class"), "tenants' Ingresses name it"
    for name in CRDS:
        assert kube.get(CustomResourceDefinition, name).metadata.deletionTimestamp is None
    assert kube.get(Namespace, "lease").metadata.deletionTimestamp is None, "it holds the record of every lease"


@pytest.mark.long
def test_the_processes_run_in_the_cluster_and_an_unchanged_stack_stays_as_it_is(pulumi, kube, cluster, tmp_path):
    account = "akash1" + "q" * 38
    processes = {"image": "registry.example/lessor:1.0", "account": account, "environment": {"AP_NODE": "http://n:1"}}
    config = {"lessor:processes": processes, "lessor:runtime-classes": {"nvidia": "nvidia"}}
    config["lessor:metallb"] = {"install": True, "namespace": "metallb-own"}
    pulumi.settings.write_text(yaml.safe_dump({**yaml.safe_load(pulumi.settings.read_text()), "config": config}))
    done = pulumi.stack("up", "--yes", "--skip-preview", "--policy-pack", str(ROOT / "policies"))
    assert done.returncode == 0, done.stdout + done.stderr
    again = pulumi.stack("preview", "--expect-no-changes")
    assert again.returncode == 0, again.stdout + again.stderr
    drift = pulumi.stack("refresh", "--preview-only", "--expect-no-changes")
    assert drift.returncode == 0, drift.stdout + drift.stderr
    provider = kube.get(StatefulSet, "akash-provider", namespace="akash-services")
    assert provider.spec.replicas == 1
    outputs = json.loads(pulumi.ok("stack", "output", "-s", "t", "--json"))
    assert outputs["environment"]["AP_K8S_MANIFEST_NS"] == "lease"
    the_inventory_operator_changes_nothing_of_a_node_but_its_labels(pulumi, cluster, tmp_path)

    kube.patch(StatefulSet, "akash-provider", {"spec": {"replicas": 0}}, namespace="akash-services")
    shown = pulumi.stack("refresh", "--preview-only", "--diff")
    assert "replicas" in shown.stdout, "somebody's change is shown, and nothing is changed"
    gone = pulumi.stack("destroy", "--yes", "--skip-preview")
    assert gone.returncode == 0, gone.stdout + gone.stderr


@pytest.mark.long
def test_the_devnet_configuration_is_applied_shows_drift_and_leaves_leases_alone(pulumi, kube, cluster, tmp_path):
    pulumi.settings.write_text(pulumi.settings.read_text() + DEV.read_text())
    for command in (("up", "--yes", "--skip-preview"), ("preview", "--expect-no-changes")):
        done = pulumi.stack(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    outputs = json.loads(pulumi.ok("stack", "output", "-s", "t", "--json"))
    assert outputs["environment"]["LESSOR_METALLB_NAMESPACE"] == "metallb-system"
    assert kube.get(StorageClass, "beta2").metadata.labels["akash.network"] == "true"

    changed = {"metadata": {"labels": {"akash.network": "changed-by-hand"}}}
    kube.patch(IngressClass, "akash-ingress-class", changed, patch_type=PatchType.MERGE)
    drift = pulumi.stack("refresh", "--preview-only", "--diff")
    assert drift.returncode == 0 and "changed-by-hand" in drift.stdout
    assert kube.get(IngressClass, "akash-ingress-class").metadata.labels["akash.network"] == "changed-by-hand"
    repaired = pulumi.stack("up", "--yes", "--skip-preview", "--refresh")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert kube.get(IngressClass, "akash-ingress-class").metadata.labels["akash.network"] == "true"

    lease = asyncio.run(a_lease_runs(pulumi, cluster, tmp_path))
    gone = pulumi.stack("destroy", "--yes", "--skip-preview")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    for kind, name, namespace in (
        (Deployment, "web", lease.namespace),
        (Ingress, lease.hostnames[0].hostname, lease.namespace),
        (IngressClass, "akash-ingress-class", None),
        (CustomResourceDefinition, CRDS[0], None),
        (Namespace, "lease", None),
    ):
        assert kube.get(kind, name, namespace=namespace).metadata.deletionTimestamp is None

    configured = yaml.safe_load(pulumi.settings.read_text())["config"]
    configure(pulumi, {**configured, "lessor:keep-leases": False})
    for command in (("up", "--yes", "--skip-preview"), ("destroy", "--yes", "--skip-preview")):
        done = pulumi.stack(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert not exists(kube, CustomResourceDefinition, CRDS[0]) and not exists(kube, IngressClass, "akash-ingress-class")


async def a_lease_runs(pulumi: Cli, cluster: ControlPlane, tmp_path: Path) -> LeaseSpec:
    """A lease that nobody ends; what it is."""
    config = EngineConfig(
        data=tmp_path / "engine",
        kubeconfig=cluster.kubeconfig,
        pulumi=pulumi.program,
        pulumi_home=cluster.toolbox.pulumi_home,
    )
    engine, spec = PulumiEngine(config), demo()
    result = await engine.up(spec)
    await engine.close()
    assert result.error == ""
    return spec


def the_inventory_operator_changes_nothing_of_a_node_but_its_labels(
    pulumi: Cli, cluster: ControlPlane, tmp_path: Path
) -> None:
    kubectl = str(cluster.toolbox.program("kubectl"))
    names = subprocess.check_output([kubectl, "get", "nodes", "-o", "name"], env=pulumi.env, text=True, timeout=30)
    if not names.split():
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b"}}}
        command = [kubectl, "create", "-f", "-"]
        subprocess.run(command, env=pulumi.env, input=json.dumps(node), text=True, timeout=30, check=True)
    name = (names.split() or ["node/n1"])[0]
    document = yaml.safe_load(account(pulumi, cluster, tmp_path, "operator-inventory").read_text())
    headers = {"Content-Type": "application/merge-patch+json"}

    def patch(change: dict) -> str:
        with httpx2.Client(**connect(document, "").arguments(), timeout=30) as client:
            answer = client.patch(f"api/v1/{name.replace('node/', 'nodes/')}", json=change, headers=headers)
        return "" if answer.is_success else answer.text

    assert patch({"metadata": {"labels": {"akash.network": "true"}, "annotations": {"akash.network/x": "1"}}}) == ""
    assert "the managed labels of a node only" in patch({"metadata": {"labels": {"a": "c"}}})
    assert "the managed labels of a node only" in patch({"metadata": {"labels": {"kubernetes.io/hostname": None}}}) or (
        patch({"metadata": {"labels": {"a": None}}}) != ""
    )
    assert "its own annotations of a node only" in patch({"metadata": {"annotations": {"b": "c"}}})
    assert "no spec of a node" in patch({"spec": {"unschedulable": True}})
    it_makes_discovery_pods_only(document, name.removeprefix("node/"))


def it_makes_discovery_pods_only(document: dict, node: str) -> None:
    """The account makes the operator's own discovery pod, and none with more rights or another name."""
    own = discovery_pod(node, DiscoveryOptions("akash-services", "lessor:1"))

    def create(**changes: object) -> str:
        pod = {**own, "spec": {**own["spec"], **changes}}
        with httpx2.Client(**connect(document, "").arguments(), timeout=30) as client:
            answer = client.post("api/v1/namespaces/akash-services/pods?dryRun=All", json=pod)
        return "" if answer.is_success else answer.text

    assert create() == ""
    assert "has no rights" in create(serviceAccountName="lessor")
    assert "no part of its node and no Secret" in create(hostNetwork=True)
    key = [{"name": "key", "secret": {"secretName": "lessor-key"}}]
    assert "no part of its node and no Secret" in create(volumes=key)
    variables = [{"name": "M", "valueFrom": {"secretKeyRef": {"name": "lessor-key", "key": "mnemonic"}}}]
    container = {**own["spec"]["containers"][0], "env": variables}
    assert "no part of its node and no Secret" in create(containers=[container])
    own["metadata"]["name"] = "akash-provider-0"
    assert "discovery pods only" in create()


def records_are_stored_and_bad_ones_refused(kube) -> None:
    manifest, host, leased = (
        create_namespaced_resource("akash.network", "v2beta2", kind, plural)
        for kind, plural in zip(("Manifest", "ProviderHost", "ProviderLeasedIP"), PLURALS, strict=True)
    )
    lease = {"owner": "akash1owner", "dseq": "18446744073709551615", "gseq": 1, "oseq": 1, "provider": "akash1provider"}
    service = {
        "name": "web",
        "image": "nginx",
        "env": ["A=b"],
        "count": 1,
        "resources": {"id": 1, "cpu": {"units": 100}, "gpu": {"units": 0}, "memory": {"size": "134217728"}},
        "expose": [{"port": 80, "external_port": 80, "proto": "TCP", "global": True, "endpoint_sequence_number": 0}],
        "params": {"storage": [{"name": "data", "mount": "/d", "readOnly": True}], "permissions": None},
        "scheduler_params": None,
        "credentials": None,
    }
    spec = {"lease_id": lease, "group": {"name": "g", "services": [service]}}
    stored = kube.create(manifest(metadata=ObjectMeta(name="m", namespace="lease"), spec=spec))
    assert stored["spec"] == spec, "nothing is pruned, renamed or turned into another type"
    ip = {
        "lease_id": lease,
        "service_name": "web",
        "port": 80,
        "external_port": 80,
        "protocol": "UDP",
        "sharing_key": "k",
    }
    kube.create(leased(metadata=ObjectMeta(name="k-udp-80", namespace="lease"), spec=ip))
    status = {"status": {"state": "allocated", "address": "203.0.113.9", "pool": "ip-x", "later": {"field": 1}}}
    assert (
        kube.patch(leased.Status, "k-udp-80", status, namespace="lease", patch_type=PatchType.MERGE)["status"]
        == status["status"]
    )
    own = {"hostname": "a.example", "owner": "akash1owner", "provider": "akash1provider", "service_name": "web"}
    own |= {"dseq": 2**63 - 1, "gseq": 1, "oseq": 1, "external_port": 80}  # type: ignore[dict-item]
    assert kube.create(host(metadata=ObjectMeta(name="a.example", namespace="lease"), spec=own))["spec"] == own
    wrong: list = [
        (host, own | {"external_port": 70000}),
        (host, own | {"dseq": "12"}),
        (host, own | {"owner": "cosmos1owner"}),
        (leased, ip | {"protocol": "SCTP"}),
        (leased, ip | {"lease_id": lease | {"dseq": 12}}),
        (manifest, spec | {"group": {"name": "g", "services": [service | {"count": -1}]}}),
    ]
    for kind, bad in wrong:
        with pytest.raises(ApiError) as refused:
            kube.create(kind(metadata=ObjectMeta(name="bad", namespace="lease"), spec=bad))
        assert refused.value.status.code == 422


def no_right_is_unlimited(kube) -> None:
    rules = kube.get(ClusterRole, "lessor-provider").rules
    assert all("*" not in (*rule.verbs, *rule.resources, *rule.apiGroups) for rule in rules)
    granted = {(g, r, v) for rule in rules for g in rule.apiGroups for r in rule.resources for v in rule.verbs}
    for needed in (
        ("", "namespaces", "patch"),
        ("apps", "statefulsets", "delete"),
        ("akash.network", "providerleasedips/status", "patch"),
        ("metallb.io", "ipaddresspools", "create"),
        ("", "resourcequotas", "patch"),
        ("", "pods", "create"),
        ("", "pods/exec", "create"),
    ):
        assert needed in granted
    unused = {("", "pods", "update"), ("", "nodes", "patch"), ("", "configmaps", "list")}
    dangerous = {("", "nodes", "delete"), ("rbac.authorization.k8s.io", "clusterroles", "create")}
    assert not (unused | dangerous) & granted


def account(pulumi: Cli, cluster: ControlPlane, tmp_path: Path, name: str = "lessor") -> Path:
    """A kubeconfig of an account of the stack, the provider's own by default."""
    command = [cluster.toolbox.program("kubectl"), "create", "token", name, "-n", "akash-services"]
    token = subprocess.check_output(command, env=pulumi.env, text=True, timeout=30).strip()  # type: ignore[arg-type]
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"] = [{"name": document["users"][0]["name"], "user": {"token": token}}]
    (tmp_path / "account").write_text(yaml.safe_dump(document))
    return tmp_path / "account"


def the_rights_are_enough_for_a_lease(pulumi: Cli, cluster: ControlPlane, tmp_path: Path) -> None:
    """A lease with everything, applied, updated and destroyed as the provider's own account."""
    config = EngineConfig(
        data=tmp_path / "engine",
        kubeconfig=account(pulumi, cluster, tmp_path),
        pulumi=pulumi.program,
        pulumi_home=cluster.toolbox.pulumi_home,
    )

    async def live() -> list[str]:
        engine, spec = PulumiEngine(config), demo()
        reading = spec.services[1].model_copy(update={"permissions_read": ("logs", "events")})
        wide = spec.model_copy(update={"services": (spec.services[0], reading)})
        results = [await engine.up(wide), await engine.up(spec), await engine.destroy(spec.namespace)]
        await engine.close()
        return [result.error for result in results]

    assert asyncio.run(live()) == ["", "", ""]


SPACE = "0" * 45
"""A name as a lease's namespace has it."""


def the_account_is_kept_to_what_belongs_to_leases(pulumi: Cli, cluster: ControlPlane, tmp_path: Path) -> None:
    """Whoever has the account cannot become cluster-admin: each way is refused by the API server."""
    env = {**pulumi.env, "KUBECONFIG": str(account(pulumi, cluster, tmp_path))}

    def apply(*objects: dict, dry_run: str = "none") -> str:
        command = [str(cluster.toolbox.program("kubectl")), "apply", "--server-side", "--validate=false", "-f", "-"]
        command.append(f"--dry-run={dry_run}")
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        done = subprocess.run(command, env=env, input=text, capture_output=True, text=True, timeout=60, check=False)  # type: ignore[arg-type]
        return "" if done.returncode == 0 else done.stderr

    assert apply(a_namespace(SPACE)) == ""
    assert apply(a_role(apiGroups=[""], resources=["pods"], verbs=["get"])) == ""
    assert apply(a_secret(SPACE, "mine")) == ""
    assert apply(a_secret("lease", "applied-x")) == ""
    assert apply(a_secret("lease", "released-hostnames")) == ""
    assert apply(a_secret("akash-services", CERTIFICATE_SECRET)) == ""
    assert apply(a_first_container(capabilities={"add": ["CHOWN"], "drop": ["NET_RAW"]})) == ""
    assert apply(an_ingress(**{"nginx.ingress.kubernetes.io/proxy-body-size": "1m"})) == ""
    assert apply(a_pod(), dry_run="server") == ""
    assert apply(a_kube_lease("lease")) == ""
    assert _WHERE in apply(a_kube_lease("kube-system"))
    volumes_of_leases_are_marked_and_no_others(pulumi, cluster, env)
    for name, (obj, words) in ESCALATIONS.items():
        assert words in apply(obj), name


def volumes_of_leases_are_marked_and_no_others(pulumi: Cli, cluster: ControlPlane, account_env: dict) -> None:
    """A volume is an object of the cluster: a request for it has no namespace."""
    kubectl = str(cluster.toolbox.program("kubectl"))

    def run(env: dict, *arguments: str, text: str = "") -> str:
        done = subprocess.run([kubectl, *arguments], env=env, input=text, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stderr

    for name, namespace in (("of-a-lease", SPACE), ("of-another", "kube-system")):
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "claimRef": {"namespace": namespace, "name": "c"},
            },
        }
        assert run(pulumi.env, "create", "-f", "-", text=json.dumps(volume)) == ""
    mark = '{"metadata": {"labels": {"akash.network/quarantine.until": "x"}}}'
    patch = ("patch", "persistentvolume", "--type=merge", "-p", mark)
    assert run(account_env, *patch, "of-a-lease") == ""
    assert "changes volumes of leases only" in run(account_env, *patch, "of-another")
    run(pulumi.env, "delete", "persistentvolume", "of-a-lease", "of-another", "--wait=false")


def a_kube_lease(namespace: str) -> dict:
    meta = {"name": "lessor", "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {"holderIdentity": "a"}}


def a_secret(namespace: str, name: str, type_: str = "Opaque") -> dict:
    meta = {"name": name, "namespace": namespace}
    if type_ != "Opaque":
        meta["annotations"] = {"kubernetes.io/service-account.name": "default"}  # type: ignore[assignment]
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": type_}


def a_role(**rule: list) -> dict:
    meta = {"name": "r", "namespace": SPACE}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": [rule]}


def a_deployment(namespace: str = SPACE, **pod: object) -> dict:
    labels = {"a": "b"}
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "d", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def a_pod(namespace: str = SPACE) -> dict:
    meta, spec = {"name": "p", "namespace": namespace}, {"containers": [a_container()]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def a_container(**fields: object) -> dict:
    return {"name": "c", "image": "i", **fields}


def a_first_container(**context: object) -> dict:
    """A Deployment whose container that runs before the others has this security context."""
    return a_deployment(hostUsers=False, initContainers=[a_container(name="first", securityContext=context)])


def an_ingress(**annotations: str) -> dict:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    meta = {"name": "i", "namespace": SPACE, "annotations": annotations}
    spec = {"defaultBackend": backend}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta, "spec": spec}


def a_namespace(name: str, **labels: str) -> dict:
    meta = {"name": name, "labels": {"akash.network": "true", **labels}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


_WHERE = "the account writes only in namespaces of leases"
ESCALATIONS = {
    "a token of another account": (a_secret(SPACE, "t", "kubernetes.io/service-account-token"), "is no token"),
    "a token in kube-system": (a_secret("kube-system", "t", "kubernetes.io/service-account-token"), _WHERE),
    "a Secret in kube-system": (a_secret("kube-system", "t"), _WHERE),
    "another record": (a_secret("lease", "other"), _WHERE),
    "the Secret of its own key": (a_secret("akash-services", "lessor-key"), _WHERE),
    "a pod beside the provider": (a_deployment("akash-services"), _WHERE),
    "a pod in kube-system": (a_deployment("kube-system", serviceAccountName="x"), _WHERE),
    "a pod without a controller": (a_pod(), "as a dry run only"),
    "a pod with the node's disk": (
        a_deployment(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        "has no part of its node",
    ),
    "a pod in the node's network": (a_deployment(hostNetwork=True), "has no part of its node"),
    "a port of the node": (
        a_deployment(containers=[a_container(ports=[{"containerPort": 80, "hostPort": 80}])]),
        "has no part of its node",
    ),
    "a privileged container": (
        a_deployment(containers=[a_container(securityContext={"privileged": True})]),
        "no rights over its node",
    ),
    "a privileged container before the others": (a_first_container(privileged=True), "no rights over its node"),
    "an added capability": (a_first_container(capabilities={"add": ["SYS_ADMIN"]}), "no rights over its node"),
    "all files of the kernel": (a_first_container(procMount="Unmasked"), "no rights over its node"),
    "all calls of the kernel": (a_first_container(seccompProfile={"type": "Unconfined"}), "no rights over its node"),
    "configuration of the edge": (
        an_ingress(**{"nginx.ingress.kubernetes.io/server-snippet": "deny all;"}),
        "no configuration of the edge",
    ),
    "a namespace of another name": (a_namespace("other"), "namespaces of leases only"),
    "kube-system relabelled": (a_namespace("kube-system"), "namespaces of leases only"),
    "a privileged namespace": (
        a_namespace(SPACE, **{"pod-security.kubernetes.io/enforce": "privileged"}),
        "admission level privileged",
    ),
    "a Role of Secrets": (a_role(apiGroups=[""], resources=["secrets"], verbs=["get"]), "reads pods, logs"),
    "a foreign subject": (
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": SPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}],
        },
        "an account of the same namespace",
    ),
    "ExternalName": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": SPACE},
            "spec": {"type": "ExternalName", "externalName": "metadata.internal"},
        },
        "no other name of a foreign host",
    ),
}


def test_a_wrong_configuration_stops_the_preview_with_the_path_of_every_wrong_key(pulumi):
    wrong = {"lessor:ingres-class": "x", "lessor:metallb": {"namespce": "x"}, "lessor:manifest-namespace": "No!"}
    configure(pulumi, wrong)

    done = pulumi.stack("preview")

    assert done.returncode != 0
    for words in (
        "lessor:ingres-class: there is no such setting",
        "lessor:metallb.namespce: there is no such setting",
        "lessor:manifest-namespace: ",
        "'No!'",
    ):
        assert words in done.stdout, done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.long
def test_without_metallb_the_preview_says_what_to_install(pulumi, kube, cluster):
    name = "l2advertisements.metallb.io"
    definition = kube.get(CustomResourceDefinition, name)
    kube.delete(CustomResourceDefinition, name)
    try:
        missing = pulumi.stack("preview")
        configure(pulumi, {"lessor:metallb": {"required": False}})
        without = pulumi.stack("preview")
    finally:
        wait_gone(kube, name)
        definition.metadata = ObjectMeta(name=name, annotations=definition.metadata.annotations)
        kube.create(definition)

    assert missing.returncode != 0
    assert f"lacks {name}" in missing.stdout and "install MetalLB" in missing.stdout
    assert without.returncode == 0, without.stdout


def test_an_unreachable_cluster_is_named(pulumi, tmp_path):
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(Path(pulumi.env["KUBECONFIG"]).read_text().replace("https://127.0.0.1:", "https://127.0.0.1:1"))
    pulumi.env["KUBECONFIG"] = str(nowhere)

    done = pulumi.stack("preview")

    assert done.returncode != 0
    assert "https://127.0.0.1:1" in done.stdout


def configure(pulumi: Cli, settings: dict) -> None:
    document = yaml.safe_load(pulumi.settings.read_text()) or {}
    pulumi.settings.write_text(yaml.safe_dump(document | {"config": settings}))


def exists(kube, kind, name) -> bool:
    try:
        kube.get(kind, name)
    except ApiError:
        return False
    return True


def wait_gone(kube, name: str) -> None:
    import time

    for _ in range(200):
        if not exists(kube, CustomResourceDefinition, name):
            return
        time.sleep(0.05)
    raise AssertionError(f"{name} is still there")
