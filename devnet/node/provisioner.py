"""`python -m devnet.node.provisioner PLANE FOLDER`: gives claims of the devnet's storage classes real directories.

A volume is `FOLDER/<name of the volume>`, a directory of its own, which goes when its volume is reclaimed. A claim of
class beta3 gets an ext4 file system of exactly its size instead, mounted from a file beside the directory. The
controller binds claim and volume; this program makes and removes what is behind them.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devnet.controlplane.api import Api, ApiError
from devnet.controlplane.certificates import Certificates
from devnet.controlplane.contents import PROVISIONER, STORAGE_CLASSES
from devnet.node.configuration import NODE_NAME

__all__: list[str] = []

_PAUSE_S = 0.2
_ASKED = "volume.kubernetes.io/storage-provisioner"
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_SIZED_CLASS = "beta3"
_UNITS: Mapping[str, int] = {"": 1, **{f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGTP", start=1)}}


def _provision(api: Api, folder: Path) -> None:
    """Make a volume for every claim that the controller has handed over and that has none."""
    volumes = {volume["metadata"]["name"] for volume in api.request("GET", "/api/v1/persistentvolumes")["items"]}
    for claim in api.request("GET", "/api/v1/persistentvolumeclaims")["items"]:
        name = f"pvc-{claim['metadata']['uid']}"
        if _is_waiting(claim) and name not in volumes:
            _make_directory(folder / name, claim)
            api.request("POST", "/api/v1/persistentvolumes", _volume(name, claim, folder / name))


def _is_waiting(claim: Mapping[str, Any]) -> bool:
    metadata, spec = claim["metadata"], claim["spec"]
    return (
        (metadata.get("annotations") or {}).get(_ASKED) == PROVISIONER
        and spec.get("storageClassName") in STORAGE_CLASSES
        and not spec.get("volumeName")
        and "deletionTimestamp" not in metadata
    )


def _reclaim(api: Api, folder: Path) -> None:
    """Remove every released volume of this provisioner whose policy is Delete, its data first."""
    for volume in api.request("GET", "/api/v1/persistentvolumes")["items"]:
        metadata = volume["metadata"]
        if (metadata.get("annotations") or {}).get(_PROVISIONED) != PROVISIONER:
            continue
        released = volume.get("status", {}).get("phase") == "Released"
        if released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            _remove_directory(folder / metadata["name"])
            path = f"/api/v1/persistentvolumes/{metadata['name']}"
            # no protection controller runs here that would take the finalizer off
            api.request("PATCH", path, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
            with contextlib.suppress(ApiError):
                api.request("DELETE", path)


def _volume(name: str, claim: Mapping[str, Any], path: Path) -> dict[str, Any]:
    metadata, spec = claim["metadata"], claim["spec"]
    node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED: PROVISIONER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: metadata[key] for key in ("namespace", "name", "uid")},
            },
            "hostPath": {"path": str(path), "type": "Directory"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
        },
    }


def _make_directory(path: Path, claim: Mapping[str, Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    if claim["spec"].get("storageClassName") == _SIZED_CLASS and not path.is_mount():
        image = path.with_suffix(".ext4")
        with image.open("wb") as file:
            file.truncate(_bytes(claim["spec"]["resources"]["requests"]["storage"]))
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, path], check=True)
        path.chmod(0o777)


def _remove_directory(path: Path) -> None:
    if path.is_mount():
        subprocess.run(["umount", path], check=True)
    shutil.rmtree(path, ignore_errors=True)
    path.with_suffix(".ext4").unlink(missing_ok=True)


def _bytes(quantity: str) -> int:
    match = re.fullmatch(r"(\d+)([KMGTP]i)?", quantity)
    if match is None:
        raise ValueError(f"a volume of {quantity} cannot be made: the devnet knows whole numbers with Ki to Pi")
    return int(match[1]) * _UNITS[match[2] or ""]


def _serve(plane: Path, folder: Path, port: int) -> None:
    api = Api(port, Certificates(plane / "pki"))
    while True:
        try:
            _provision(api, folder)
            _reclaim(api, folder)
        except (ApiError, OSError, http.client.HTTPException, subprocess.CalledProcessError, ValueError) as error:
            print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
