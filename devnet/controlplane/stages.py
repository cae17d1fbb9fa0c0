"""kwok's configuration: nodes become ready, pods run, jobs succeed, claims bind (toolchain.md §2).

kwok's kubelet server is off: no logs, no exec, no listener.
"""

from __future__ import annotations

from collections.abc import Sequence

from devnet.controlplane.contents import SIMULATED

__all__ = ["kwok_documents"]

_API = "kwok.x-k8s.io/v1alpha1"

_NODE_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
addresses:
- {type: InternalIP, address: {{ NodeIP | Quote }}}
- {type: Hostname, address: {{ NodeName | Quote }}}
phase: Running
"""

_POD_RUNS = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
{{ end }}
{{ with PodIPsWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs: [{ip: {{ index . 0 | Quote }}}]
{{ end }}
"""

_POD_SUCCEEDS = """
{{ $now := Now }}
phase: Succeeded
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
{{ end }}
"""

_VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pvc-{{ .metadata.uid }}
  annotations: {pv.kubernetes.io/provisioned-by: devnet.lessor.example/volume}
spec:
  accessModes: [{{ index .spec.accessModes 0 | Quote }}]
  capacity: {storage: {{ .spec.resources.requests.storage | Quote }}}
  persistentVolumeReclaimPolicy: Delete
  storageClassName: {{ .spec.storageClassName | Quote }}
  volumeMode: {{ or .spec.volumeMode "Filesystem" | Quote }}
  claimRef:
    apiVersion: v1
    kind: PersistentVolumeClaim
    namespace: {{ .metadata.namespace | Quote }}
    name: {{ .metadata.name | Quote }}
    uid: {{ .metadata.uid | Quote }}
  hostPath: {path: /nonexistent/lessor-devnet}
"""

Condition = dict[str, object]


def _cel(expression: str) -> Condition:
    return {"cel": {"expression": expression}}


def _key(path: str, operator: str, *values: str) -> Condition:
    """A condition by path: kwok's CEL expressions cannot read the lists of pods and nodes, paths can."""
    return {"key": path, "operator": operator, **({"values": list(values)} if values else {})}


_ALIVE = _key(".metadata.deletionTimestamp", "DoesNotExist")
_DELETED = _key(".metadata.deletionTimestamp", "Exists")
_UNREADY = _key('.status.conditions.[] | select( .type == "Ready" ) | .status', "NotIn", "True")
_PENDING = _key(".status.phase", "In", "Pending")
_RUNNING = _key(".status.phase", "In", "Running")
_UNPROVISIONED = (
    _cel("has(self.metadata.annotations)"),
    _cel("'volume.kubernetes.io/storage-provisioner' in self.metadata.annotations"),
)
"""The volume controller found no existing volume for the claim; provisioners wait for this annotation."""
_OF_A_JOB = _key(".metadata.ownerReferences.[].kind", "In", "Job")


def kwok_documents(storage_classes: Sequence[str]) -> list[object]:
    """kwok's configuration, whose stages give a volume to claims of `storage_classes`.

    kwok makes the volume, as a provisioner would; the real controller binds the claim. A real node has its own
    provisioner, so that `storage_classes` is empty there.
    """
    return [
        _options(),
        _stage("node-ready", "Node", [_UNREADY], status=_NODE_READY),
        _stage("pod-runs", "Pod", [_ALIVE, _PENDING, _UNREADY], status=_POD_RUNS),
        _stage("pod-succeeds", "Pod", [_ALIVE, _RUNNING, _OF_A_JOB], status=_POD_SUCCEEDS),
        _stage("pod-ends", "Pod", [_DELETED], {"delete": True}),
        *(_volume_stages(storage_classes) if storage_classes else ()),
    ]


def _volume_stages(storage_classes: Sequence[str]) -> list[object]:
    of_class = _cel(f"self.spec.storageClassName in {list(storage_classes)!r}")
    return [
        _stage(
            "claim-is-provisioned",
            "PersistentVolumeClaim",
            [
                _cel("has(self.spec.storageClassName)"),
                of_class,
                _ALIVE,
                _cel("!has(self.spec.volumeName)"),
                *_UNPROVISIONED,
            ],
            {"apply": {"template": _VOLUME}},
        ),
        _stage(
            "volume-is-reclaimed",
            "PersistentVolume",
            [
                of_class,
                _key(".status.phase", "In", "Released"),
                _key(".spec.persistentVolumeReclaimPolicy", "In", "Delete"),
            ],
            # no protection controller runs here, which would remove the finalizer
            {"patch": {"root": "metadata", "template": "finalizers: null", "type": "merge"}},
            {"delete": True},
        ),
    ]


def _options() -> dict[str, object]:
    """All options; with a file kwok has no defaults. Without `nodePort` and `serverAddress` it does not listen."""
    options = {
        "enableDebuggingHandlers": False,
        "manageAllNodes": False,
        "manageNodesWithAnnotationSelector": "=".join(SIMULATED),
        "cidr": "10.244.0.0/16",
        "nodeIP": "127.0.0.1",
        "nodeLeaseParallelism": 4,
        "nodeLeaseDurationSeconds": 40,
        "podPlayStageParallelism": 8,
        "nodePlayStageParallelism": 4,
        "podsOnNodeSyncParallelism": 1,
        "enablePodsOnNodeSyncStreamWatch": True,
    }
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "kwok"},
        "options": options,
    }


def _stage(name: str, kind: str, when: Sequence[Condition], *steps: object, status: str = "") -> dict[str, object]:
    spec: dict[str, object] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": list(when)},
    }
    if status:
        steps = ({"patch": {"root": "status", "subresource": "status", "template": status}}, *steps)
    spec["steps"] = list(steps)
    return {"apiVersion": _API, "kind": "Stage", "metadata": {"name": name}, "spec": spec}
