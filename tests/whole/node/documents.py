"""SDLs for tests on the real node: what differs from a small service is said, the rest is filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from lease.sdl import Sdl, read_sdl

__all__ = ["Fields", "document", "expose", "service", "small", "volume"]


Fields = Mapping[str, Any]


def service(
    *exposes: Fields,
    cpu: str = "100m",
    memory: str = "64Mi",
    storage: Sequence[Fields] = ({"size": "128Mi"},),
    count: int = 1,
    gpus: int = 0,
    **more: Any,
) -> Fields:
    """One service; `gpus` are of any model, `more` are fields of the SDL's service (`command`, `env`, `params`)."""
    resources: dict[str, Any] = {"cpu": {"units": cpu}, "memory": {"size": memory}, "storage": list(storage)}
    if gpus:
        resources["gpu"] = {"units": gpus, "attributes": {"vendor": {"nvidia": None}}}
    fields = {"image": "registry.example/stand-in:1", "expose": list(exposes)} | more
    return {"fields": fields, "resources": resources, "count": count}


def expose(port: int, to: str = "", *, external: int = 0, ip: str = "", **more: Any) -> Fields:
    """A port: to one service, or without `to` to the world, by the leased address of the endpoint `ip` if given."""
    target = {"service": to} if to else {"global": True} | ({"ip": ip} if ip else {})
    return {"port": port, "as": external or port, "to": [target]} | more


def document(services: Mapping[str, Fields], *, endpoints: Sequence[str] = ()) -> Sdl:
    """The SDL of these services in one group."""
    text = {
        "version": "2.0",
        **({"endpoints": {name: {"kind": "ip"} for name in endpoints}} if endpoints else {}),
        "services": {name: dict(item["fields"]) for name, item in services.items()},
        "profiles": {
            "compute": {name: {"resources": item["resources"]} for name, item in services.items()},
            "placement": {"cluster": {"pricing": {name: {"denom": "uact", "amount": 1000} for name in services}}},
        },
        "deployment": {name: {"cluster": {"profile": name, "count": item["count"]}} for name, item in services.items()},
    }
    return read_sdl(yaml.safe_dump(text).encode())


def small(**services: Fields) -> Sdl:
    """Services of 40 mCPU and 64 MiB on port 80, each with these fields changed. `volume`: see `volume`."""
    return document({name: _small(name, **fields) for name, fields in services.items()})


def _small(name: str, *, volume: Fields | None = None, **fields: Any) -> Fields:
    storage: list[Fields] = [{"size": "64Mi"}]
    if volume:
        storage.append({"name": "data", **volume})
        fields.setdefault("params", {"storage": {"data": {"mount": "/data"}}})
    own = {"image": f"docker.io/example/{name}:1", **fields}
    return service(expose(80), cpu="40m", storage=storage, **own)


def volume(size: str, *, storage_class: str = "beta2") -> Fields:
    """A persistent volume, mounted at /data."""
    return {"size": size, "attributes": {"persistent": True, "class": storage_class}}
