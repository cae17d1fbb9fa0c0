"""The state of a stack whose objects another provider made: written, not applied (decision 38).

Pulumi's own import reads every field of an object, defaults of the API server too, takes them as the program's inputs,
and fails where the program says anything else. Here the inputs are those that the program registers, so the first
preview has no change, and nothing is written to the cluster.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from components.labels import Object
from components.lease import lease_parts
from components.parts import LeaseParts
from components.registration import CLUSTER, FIELD_MANAGER, conventions, plugin_version, type_token
from components.secrets import seal
from lease.spec import LeaseSpec
from stacks.common.config import PROJECT, EngineConfig
from stacks.common.files import hold, place_kubeconfig, prepare_key, write_private
from stacks.common.transit import TransitKey

__all__ = ["importing"]

_SECRET = "4dabf18193072939515e22adb298388d"  # noqa: S105  key of Pulumi's special values
_SECRET_VALUE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  its value for a secret
_WRITER = "lessor"
_NONCE = 12
_Resource = dict[str, Any]


@contextmanager
def importing(config: EngineConfig) -> Iterator[Callable[[LeaseSpec], bool]]:
    """A function that writes the stack of a spec and returns whether it did; with a backend or a secrets service that
    is not the engine's own it writes none, and the first update makes the stack. The data folder is held meanwhile.

    Raises `DataInUse` while a provider runs here, and `EngineError`.
    """
    descriptor = hold(config.data)
    try:
        prepare_key(config.key_file)
        place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
        config.stacks.mkdir(mode=0o700, exist_ok=True)
        yield lambda spec: _write(config, spec)
    finally:
        os.close(descriptor)


def _write(config: EngineConfig, spec: LeaseSpec) -> bool:
    """Write the stack anew. The state is written last: it exists exactly when the stack does."""
    if config.backend or config.secrets != "transit":
        return False
    stack, key = spec.namespace, os.urandom(32)
    folder, state = config.folder(stack), config.state_file(stack)
    shutil.rmtree(folder, ignore_errors=True)
    state.parent.mkdir(mode=0o700, parents=True)
    sealed = TransitKey.load(config.key_file).encrypt(config.vault_key, key)
    service = {"url": f"hashivault://{config.vault_key}", "encryptedkey": base64.b64encode(sealed.encode()).decode()}
    settings = {"secretsprovider": service["url"], "encryptedkey": service["encryptedkey"]}
    write_private(config.settings_file(stack), yaml.safe_dump(settings))
    write_private(folder / ".pulumi" / "meta.yaml", "version: 1\n")
    write_private(state, json.dumps(_checkpoint(config, spec, service=service, key=key)))
    return True


def _checkpoint(config: EngineConfig, spec: LeaseSpec, *, service: dict[str, str], key: bytes) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    cipher = AESGCM(key)
    latest = {
        "manifest": {"time": now, "magic": hashlib.sha256(_WRITER.encode()).hexdigest(), "version": _WRITER},
        "secrets_providers": {"type": "cloud", "state": service},
        "resources": [
            resource | {"created": now, "modified": now}
            for resource in _resources(config, spec, lambda value: _encrypted(cipher, value))
        ],
        "metadata": {},
    }
    return {"version": 3, "checkpoint": {"stack": f"organization/{PROJECT}/{spec.namespace}", "latest": latest}}


def _encrypted(cipher: AESGCM, value: str) -> dict[str, str]:
    """A secret in Pulumi's form for cloud services: the nonce, then the text with its tag."""
    nonce = os.urandom(_NONCE)
    sealed = cipher.encrypt(nonce, json.dumps(value).encode(), None)
    text = ":".join(("v1", base64.b64encode(nonce).decode(), base64.b64encode(sealed).decode()))
    return {_SECRET: _SECRET_VALUE, "ciphertext": text}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an object is in the stack: its component, and the URNs on which it depends."""

    component: str
    name: str
    dependencies: tuple[str, ...] = ()
    deleted_with: str = ""


def _resources(config: EngineConfig, spec: LeaseSpec, secret: Callable[[str], Any]) -> Iterator[_Resource]:
    """All resources in the order in which the program registers them (components/resources/)."""
    base = f"urn:pulumi:{spec.namespace}::{PROJECT}::"
    top, plugin = f"{base}pulumi:pulumi:Stack::{PROJECT}-{spec.namespace}", str(uuid.uuid4())
    outputs = {"namespace": spec.namespace, "spec-hash": spec.content_hash()}
    yield {"urn": top, "custom": False, "type": "pulumi:pulumi:Stack", "outputs": outputs}
    kubernetes = f"{base}pulumi:providers:kubernetes::cluster"
    yield _provider(config, kubernetes, plugin) | {"parent": top}
    lease = f"{base}lessor:lease:Lease::{spec.namespace}"
    made = {"urn": lease, "custom": False, "type": "lessor:lease:Lease", "outputs": {"namespace": spec.namespace}}
    yield made | {"parent": top}
    known: set[str] = set()
    for place, manifest in _objects_with_places(base, lease_parts(spec), spec.namespace):
        kind = f"lessor:lease:{place.component}"
        component = f"{base}lessor:lease:Lease${kind}::{place.name}"
        if component not in known:
            known.add(component)
            yield {"urn": component, "custom": False, "type": kind, "parent": lease}
        yield _object(base, place, manifest, secret) | {"parent": component, "provider": f"{kubernetes}::{plugin}"}


def _provider(config: EngineConfig, urn: str, plugin: str) -> _Resource:
    inputs = {"kubeconfig": str(config.kubeconfig_copy), **CLUSTER, "version": plugin_version()}
    inputs |= {"context": config.context} if config.context else {}
    return {
        "urn": urn,
        "custom": True,
        "id": plugin,
        "type": "pulumi:providers:kubernetes",
        "inputs": {"__internal": {}, **inputs},
        "outputs": inputs,
    }


def _object(base: str, place: _Place, manifest: Object, secret: Callable[[str], Any]) -> _Resource:
    inputs = seal(conventions(manifest), secret)
    meta, version = manifest["metadata"], manifest["apiVersion"]
    hidden = {"additionalSecretOutputs": ["data", "stringData"]} if manifest["kind"] == "Secret" else {}
    return {
        "urn": _urn(base, place.component, manifest),
        "custom": True,
        "id": "/".join(filter(None, (meta.get("namespace"), meta["name"]))),
        "type": type_token(version, manifest["kind"]),
        "inputs": inputs,
        "outputs": {"__fieldManager": FIELD_MANAGER, "__initialApiVersion": version, "__inputs": inputs, **inputs},
        **({"dependencies": list(place.dependencies)} if place.dependencies else {}),
        **({"deletedWith": place.deleted_with} if place.deleted_with else {}),
        **hidden,
    }


def _urn(base: str, component: str, manifest: Object) -> str:
    token = type_token(manifest["apiVersion"], manifest["kind"])
    return f"{base}lessor:lease:Lease$lessor:lease:{component}${token}::{manifest['metadata']['name']}"


def _objects_with_places(base: str, parts: LeaseParts, stack: str) -> Iterator[tuple[_Place, Object]]:
    home = _urn(base, "Namespace", parts.namespace)
    yield _Place("Namespace", stack), parts.namespace

    def inside(component: str, name: str, after: Iterable[str] = ()) -> _Place:
        return _Place(component, name, (home, *after), home)

    isolating = (*parts.credentials, *parts.bounds, *parts.policies)
    yield from _at_place(inside("Isolation", stack), isolating)
    first = [_urn(base, "Isolation", item) for item in isolating]
    for part in parts.services:
        yield from _at_place(inside("Workload", part.name), part.access)
        rights = [_urn(base, "Workload", item) for item in part.access]
        yield inside("Workload", part.name, (*first, *rights)), part.workload
        yield from _at_place(inside("Service", part.name), part.services)
    for hostname in parts.hostnames:
        yield inside("Hostname", hostname["metadata"]["name"]), hostname
    for address in parts.addresses:
        yield from _at_place(_Place("LeasedIp", address.sharing_key, (home,)), address.services)


def _at_place(place: _Place, manifests: Sequence[Object]) -> Iterator[tuple[_Place, Object]]:
    return ((place, manifest) for manifest in manifests)
