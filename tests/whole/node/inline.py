"""Small SDL documents for the tests of this folder: each names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from lease.sdl import Sdl, read_sdl

__all__ = ["MIB", "small", "volume"]

MIB = 2**20


def small(**services: Mapping[str, Any]) -> Sdl:
    """Services of 100 mCPU and 64 MiB on port 80, with these keys changed. `volume`: a key of ours, see `volume`."""
    compute, deployment, texts = {}, {}, {}
    for name, changes in services.items():
        kept = dict(changes)
        storage: list[Any] = [{"size": "64Mi"}]
        if attributes := kept.pop("volume", None):
            storage.append({"name": "data", **attributes})
            kept.setdefault("params", {"storage": {"data": {"mount": "/data"}}})
        resources = {"cpu": {"units": "100m"}, "memory": {"size": "64Mi"}, "storage": storage}
        compute[name] = {"resources": resources}
        deployment[name] = {"cluster": {"profile": name, "count": 1}}
        expose = [{"port": 80, "to": [{"global": True}]}]
        texts[name] = {"image": f"docker.io/example/{name}:1", "expose": expose, **kept}
    pricing = {name: {"denom": "uact", "amount": 1000} for name in services}
    document = {
        "version": "2.0",
        "services": texts,
        "profiles": {"compute": compute, "placement": {"cluster": {"pricing": pricing}}},
        "deployment": deployment,
    }
    return read_sdl(yaml.safe_dump(document).encode(), file="inline.yaml")


def volume(size: str, *, storage_class: str = "beta2") -> dict[str, Any]:
    """A persistent volume, mounted at /data."""
    return {"size": size, "attributes": {"persistent": True, "class": storage_class}}
