"""The configuration files and command lines of the node's programs, as tried (real-node.md)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devnet.controlplane.certificates import Certificates
from devnet.controlplane.contents import storage_labels
from devnet.node.images import PAUSE
from devnet.node.mounts import KUBELET
from devnet.node.network import NODE_ADDRESS, PODS

__all__ = ["CONTAINERD_SOCKET", "NODE_NAME", "REGISTRY_PORT", "NodeFiles"]

NODE_NAME = "real-1"
REGISTRY_PORT = 5000
CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")
_NODE_PODS = "10.244.0.0/24"
_POD_PIDS = 1024
_DISABLED_PLUGINS = (
    "io.containerd.nri.v1.nri",
    *(f"io.containerd.snapshotter.v1.{name}" for name in ("btrfs", "zfs", "devmapper", "blockfile", "erofs")),
    "io.containerd.differ.v1.erofs",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
)
_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "lessor",
    "plugins": [
        {
            "type": "ptp",
            "mtu": 1500,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni-ipam",
                "routes": [{"dst": "0.0.0.0/0"}],
                "ranges": [[{"subnet": _NODE_PODS}]],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
# restrict_oom_score_adj: a process without CAP_SYS_RESOURCE may not lower oom_score_adj (real-node.md, trap 1)
_CONTAINERD = """version = 3
root = "{root}"
state = "/run/containerd"
disabled_plugins = {disabled}
[grpc]
  address = "{socket}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = "runc"
{runtimes}
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{networks}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "{registries}"
"""
_RUNTIME = """[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
  BinaryName = "{runc}"
  SystemdCgroup = false"""
_RUNTIMES = ("runc", "nvidia")
"""The handlers of RuntimeClasses; all are runc."""


@dataclass(frozen=True)
class NodeFiles:
    """Where the node keeps its files: `folder` is the node's own, `plane` the control plane's."""

    folder: Path
    plane: Path

    @property
    def configuration(self) -> Path:
        """Folder of the files that `write` makes."""
        return self.folder / "configuration"

    def write(self, runc: Path) -> None:
        """Write every configuration file."""
        self.configuration.mkdir(exist_ok=True)
        self._write_containerd(runc)
        self._write_yaml("kubelet", self._kubelet())
        self._write_yaml("kube-proxy", self._proxy())
        (self.configuration / "resolv.conf").write_text("nameserver 172.20.0.1\n")

    def kubeconfig(self, user: str) -> Path:
        """Path of a kubeconfig with the certificate of this user of the control plane, written first.

        The start of each program writes all of them again, while a program started just before may read its own.
        """
        document = yaml.safe_load((self.plane / "admin.kubeconfig").read_text())
        document["users"] = [{"name": user, "user": self._credentials(user)}]
        document["contexts"][0]["context"]["user"] = user
        path = self.configuration / f"{user.replace(':', '-')}.kubeconfig"
        partial = path.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(yaml.safe_dump(document))
        return partial.replace(path)

    def kubelet_arguments(self) -> tuple[str, ...]:
        """Arguments of the kubelet."""
        labels = {"akash.network": "true", **storage_labels()}
        return (
            f"--config={self.configuration / 'kubelet.yaml'}",
            f"--kubeconfig={self.kubeconfig(f'system:node:{NODE_NAME}')}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={NODE_ADDRESS}",
            f"--root-dir={KUBELET}",
            f"--cert-dir={KUBELET / 'pki'}",
            "--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
        )

    def policy_arguments(self) -> tuple[str, ...]:
        """Arguments of the NetworkPolicy controller: the firewall of kube-router and nothing else of it."""
        off = ("run-router", "run-service-proxy", "run-loadbalancer", "enable-cni")
        return (
            f"--kubeconfig={self.kubeconfig('admin')}",
            f"--hostname-override={NODE_NAME}",
            "--run-firewall=true",
            *(f"--{name}=false" for name in off),
            "--service-cluster-ip-range=10.96.0.0/16",
            "--iptables-sync-period=1m",
            "--health-port=0",
        )

    def _credentials(self, user: str) -> dict[str, str]:
        pki = Certificates(self.plane / "pki")
        return {
            "client-certificate-data": _base64(pki.certificate(user)),
            "client-key-data": _base64(pki.key(user)),
        }

    def _write_yaml(self, name: str, document: object) -> None:
        (self.configuration / f"{name}.yaml").write_text(yaml.safe_dump(document))

    def _kubelet(self) -> dict[str, Any]:
        thresholds = ("memory.available", "nodefs.available", "imagefs.available", "nodefs.inodesFree")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "address": "0.0.0.0",  # noqa: S104  of the enclosure's network namespace
            "readOnlyPort": 0,
            "healthzBindAddress": "127.0.0.1",
            **self._kubelet_access(),
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.configuration / "resolv.conf"),
            "podLogsDir": str(self.folder / "pod-logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "podPidsLimit": _POD_PIDS,
            "evictionHard": dict.fromkeys((*thresholds, "imagefs.inodesFree"), "0%"),
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
            "logging": {"verbosity": 2},
        }

    def _kubelet_access(self) -> dict[str, Any]:
        pki = Certificates(self.plane / "pki")
        return {
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(pki.certificate("ca"))},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pki.certificate(NODE_NAME)),
            "tlsPrivateKeyFile": str(pki.key(NODE_NAME)),
        }

    def _proxy(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": PODS,
            "hostnameOverride": NODE_NAME,
            "clientConnection": {"kubeconfig": str(self.kubeconfig("admin"))},
            "bindAddress": NODE_ADDRESS,
            "oomScoreAdj": 0,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            # nf_conntrack_max and its timeouts are the machine's
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "iptables": {"minSyncPeriod": "100ms", "syncPeriod": "30s"},
        }

    def _write_containerd(self, runc: Path) -> None:
        registries, networks = self.configuration / "registries", self.configuration / "cni"
        (registries / "_default").mkdir(parents=True, exist_ok=True)
        networks.mkdir(exist_ok=True)
        address = f"http://127.0.0.1:{REGISTRY_PORT}"
        hosts = f'server = "{address}"\n[host."{address}"]\n  capabilities = ["pull", "resolve"]\n'
        (registries / "_default" / "hosts.toml").write_text(hosts)
        (networks / "10-lessor.conflist").write_text(json.dumps(_NETWORK))
        text = _CONTAINERD.format(
            root=self.folder / "containerd",
            disabled=json.dumps(_DISABLED_PLUGINS),
            socket=CONTAINERD_SOCKET,
            runtimes="\n".join(_RUNTIME.format(name=name, runc=runc) for name in _RUNTIMES),
            networks=networks,
            pause=PAUSE,
            registries=registries,
        )
        (self.configuration / "containerd.toml").write_text(text)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
