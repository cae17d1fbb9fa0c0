"""The API server's own fence: what a namespace of a lease admits, by a real kube-apiserver."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from components.labels import ADMISSION
from components.lease import lease_objects
from lease.spec import FORM
from tests.conftest import DevnetCluster
from tests.data import SDL
from tests.whole.corpus.documents import NEVER_BID, all_nodes, leases_of, valid_names

SPACE = "admission-of-a-lease"


def pods(nodes: list[Any], api_server: str) -> Iterator[dict[str, Any]]:
    """A pod of each service of each valid document. Accounts are left out: they would have to exist."""
    for number, name in enumerate(valid_names()):
        if name in NEVER_BID:
            continue
        text = (SDL / f"{name}.yaml").read_bytes()
        for spec in leases_of(name, text, number=number, nodes=nodes, api_server=api_server):
            assert spec.form == FORM
            for item in lease_objects(spec):
                if item["kind"] in ("Deployment", "StatefulSet"):
                    yield pod(f"p{number}-{spec.lease.gseq}-{item['metadata']['name'][:40]}", item["spec"])


def pod(name: str, workload: dict[str, Any]) -> dict[str, Any]:
    claims = {claim["metadata"]["name"] for claim in workload.get("volumeClaimTemplates") or ()}
    spec = {key: value for key, value in workload["template"]["spec"].items() if key != "serviceAccountName"}
    spec["volumes"] = [
        *(spec.get("volumes") or []),
        *({"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in sorted(claims)),
    ]
    meta = {"name": name, "namespace": SPACE, "labels": workload["template"]["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def create(cluster: DevnetCluster, *objects: dict[str, Any], dry: bool = True) -> subprocess.CompletedProcess[str]:
    command = [str(cluster.toolbox.program("kubectl")), "create", "-f", "-", *(["--dry-run=server"] if dry else [])]
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return subprocess.run(
        command, env=cluster.plane.env(), input=document, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.devnet
@pytest.mark.xdist_group("corpus")
def test_a_baseline_namespace_admits_the_pods_of_every_valid_document_and_no_escape(
    corpus_cluster: DevnetCluster,
) -> None:
    made = list(pods(all_nodes(), corpus_cluster.api_server.removeprefix("https://")))
    labels = {ADMISSION: "baseline"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
    create(corpus_cluster, space, account, dry=False)
    done = create(corpus_cluster, *made)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("created (server dry run)") == len(made) > 100
    escaping = made[0] | {"spec": made[0]["spec"] | {"hostPID": True}}
    refused = create(corpus_cluster, escaping)
    assert refused.returncode != 0
    assert 'violates PodSecurity "baseline' in refused.stderr
