"""The six processes of the control plane and their command lines (toolchain.md §2), with their ports and files.

Without a real node every process listens on 127.0.0.1 or on nothing.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

from devnet.controlplane.certificates import Certificates, Outward

__all__ = ["AUDIT_LOG", "AUDIT_POLICY", "Layout", "Member", "free_ports", "members", "write_configuration"]

_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "endpointslice-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "resourcequota-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",  # removes the not-ready taint of new nodes
    "taint-eviction-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
    "ttl-after-finished-controller",
)


@dataclass(frozen=True)
class Member:
    """One process; `name` is also the name of its program and of its log."""

    name: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


AUDIT_POLICY, AUDIT_LOG = "audit-policy.yaml", "audit.log"
"""An audit policy in the folder of a control plane, and the log that it asks for, one JSON object a line."""


@dataclass(frozen=True)
class Layout:
    """The files and ports of one control plane."""

    data: Path
    etcd_port: int
    peer_port: int
    api_port: int
    outward: Outward | None = None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, self-contained."""
        return self.data / "admin.kubeconfig"

    @property
    def certificates(self) -> Certificates:
        """The certificates, made by `make_certificates`."""
        return Certificates(self.data / "pki")

    @property
    def api_server(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self.api_port}"


def free_ports(count: int) -> list[int]:
    """`count` different ports of 127.0.0.1 that were free when this function looked."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def write_configuration(layout: Layout, kwok: Sequence[object]) -> None:
    """Write the kubeconfig, the scheduler's configuration and kwok's, which consists of the documents `kwok`."""
    layout.kubeconfig.touch(mode=0o600)
    layout.kubeconfig.write_text(yaml.safe_dump(_kubeconfig(layout)))
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(layout.kubeconfig), "qps": 500, "burst": 1000},
    }
    (layout.data / "scheduler.yaml").write_text(yaml.safe_dump(scheduler))
    (layout.data / "kwok.yaml").write_text(yaml.safe_dump_all(kwok, sort_keys=False))


def _kubeconfig(layout: Layout) -> dict[str, object]:
    def text(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    pki = layout.certificates
    cluster = {"server": layout.api_server, "certificate-authority-data": text(pki.certificate("ca"))}
    user = {
        "client-certificate-data": text(pki.certificate("admin")),
        "client-key-data": text(pki.key("admin")),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devnet", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "devnet", "context": {"cluster": "devnet", "user": "admin"}}],
        "current-context": "devnet",
    }


def members(layout: Layout) -> tuple[Member, ...]:
    """All processes, in the order in which they start."""
    kubeconfig = str(layout.kubeconfig)
    return (
        _etcd(layout),
        _api_server(layout),
        _controller_manager(layout),
        Member(
            "kube-scheduler",
            (f"--config={layout.data / 'scheduler.yaml'}", "--bind-address=127.0.0.1", "--secure-port=0"),
        ),
        Member("kwok", (f"--kubeconfig={kubeconfig}", f"--config={layout.data / 'kwok.yaml'}")),
        Member(
            "metallb-controller",
            # port -1: its metrics would listen on every interface; it logs an error and continues (toolchain.md §2)
            ("--namespace=metallb-system", "--port=-1", "--webhook-mode=disabled", "--disable-cert-rotation"),
            env=(("KUBECONFIG", kubeconfig),),
        ),
    )


def _etcd(layout: Layout) -> Member:
    client, peer = (f"http://127.0.0.1:{port}" for port in (layout.etcd_port, layout.peer_port))
    return Member(
        "etcd",
        (
            "--name=e",
            f"--data-dir={layout.data / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=e={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            "--heartbeat-interval=50",
            "--election-timeout=500",
            "--quota-backend-bytes=536870912",
            "--snapshot-count=5000",
        ),
    )


def _api_server(layout: Layout) -> Member:
    pki = layout.certificates
    return Member(
        "kube-apiserver",
        (
            f"--etcd-servers=http://127.0.0.1:{layout.etcd_port}",
            *_listen_options(layout.outward),
            f"--secure-port={layout.api_port}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--cert-dir={layout.data / 'pki'}",
            f"--tls-cert-file={pki.certificate('apiserver')}",
            f"--tls-private-key-file={pki.key('apiserver')}",
            f"--client-ca-file={pki.certificate('ca')}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki.key('service-accounts')}",
            f"--service-account-signing-key-file={pki.key('service-accounts')}",
            f"--kubelet-client-certificate={pki.certificate('kubelet-client')}",
            f"--kubelet-client-key={pki.key('kubelet-client')}",
            f"--kubelet-certificate-authority={pki.certificate('ca')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            "--event-ttl=15m",
            *_audit_options(layout),
        ),
    )


def _audit_options(layout: Layout) -> tuple[str, ...]:
    """A log of the requests, when the folder has an audit policy."""
    if not (policy := layout.data / AUDIT_POLICY).exists():
        return ()
    return (f"--audit-policy-file={policy}", f"--audit-log-path={layout.data / 'logs' / AUDIT_LOG}")


def _listen_options(outward: Outward | None) -> tuple[str, ...]:
    if outward is None:
        return ("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none")
    # on every interface of the enclosure's network namespace; pods use the server's Service
    return ("--bind-address=0.0.0.0", f"--advertise-address={outward.address}")


def _controller_manager(layout: Layout) -> Member:
    pki = layout.certificates
    return Member(
        "kube-controller-manager",
        (
            f"--kubeconfig={layout.kubeconfig}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--leader-elect=false",
            f"--root-ca-file={pki.certificate('ca')}",
            f"--service-account-private-key-file={pki.key('service-accounts')}",
            "--use-service-account-credentials=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--profiling=false",
            f"--controllers={','.join(_CONTROLLERS)}",
        ),
    )
