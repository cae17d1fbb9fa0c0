"""The state that is written for an adopted lease is the one that the program would have left."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lease.spec import LeaseSpec
from stacks.common.transit import TransitKey
from stacks.engine import DataInUse, EngineConfig, importing, recorded_stacks
from tests.components.specs import everything
from tests.components.test_registration import SIGNATURE, plain, registrations


def a_spec() -> LeaseSpec:
    """Every kind of object of a lease, with its addresses in the operator's pool."""
    spec = everything()
    leased = tuple(each.model_copy(update={"pool": "default"}) for each in spec.leased_ips)
    return spec.model_copy(update={"leased_ips": leased})


def config_in(folder: Path, **more: Any) -> EngineConfig:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text("apiVersion: v1\nkind: Config\n")
    return EngineConfig(data=folder / "engine", kubeconfig=kubeconfig, pulumi=Path("/usr/bin/pulumi"), **more)


def written(config: EngineConfig, spec: LeaseSpec) -> dict[str, Any]:
    with importing(config) as import_stack:
        assert import_stack(spec)
    state: dict[str, Any] = json.loads(config.state_file(spec.namespace).read_bytes())
    return state


def named(urn: str) -> tuple[str, str]:
    """Type and name of the resource, without the types of its parents and the stack."""
    _, _, kinds, name = urn.split("::")[:4]
    return kinds.rpartition("$")[2], name


def opened(value: Any, key: bytes) -> Any:
    match value:
        case {"ciphertext": str(text)}:
            _, nonce, sealed = text.split(":")
            return json.loads(AESGCM(key).decrypt(base64.b64decode(nonce), base64.b64decode(sealed), None))
        case dict():
            return {name: opened(item, key) for name, item in value.items()}
        case list():
            return [opened(item, key) for item in value]
    return value


def data_key(config: EngineConfig, spec: LeaseSpec) -> bytes:
    """As the resident engine reads it from the stack's settings."""
    settings = yaml.safe_load(config.settings_file(spec.namespace).read_text())
    assert settings["secretsprovider"] == "hashivault://lessor"
    sealed = base64.b64decode(settings["encryptedkey"]).decode()
    return TransitKey.load(config.key_file).decrypt(config.vault_key, sealed)


def test_each_resource_has_the_place_the_inputs_and_the_dependencies_of_the_programs(tmp_path: Path) -> None:
    spec, config = a_spec(), config_in(tmp_path)
    state = written(config, spec)
    resources, key = state["checkpoint"]["latest"]["resources"], data_key(config, spec)
    ours = {named(item["urn"]): item for item in resources}
    theirs = {
        (item["type"], item["name"]): item for item in registrations(spec) if item["type"] != "pulumi:pulumi:Stack"
    }
    assert ours.keys() - {("pulumi:pulumi:Stack", f"lease-{spec.namespace}")} == theirs.keys()
    for place, wanted in theirs.items():
        found = ours[place]
        if place[0].startswith("lessor:"):
            continue
        if not place[0].startswith("kubernetes:"):
            assert found["inputs"]["clusterIdentifier"] == plain(wanted["object"])["clusterIdentifier"]
            continue
        assert named(found["parent"]) == named(wanted["parent"])
        assert {named(urn) for urn in found.get("dependencies", ())} == {
            named(urn) for urn in wanted.get("dependencies", ()) if named(urn) != named(wanted["parent"])
        }, place
        assert bool(found.get("deletedWith")) == bool(wanted.get("deletedWith"))
        assert opened(found["inputs"], key) == plain(wanted["object"])
        assert found.get("additionalSecretOutputs") == wanted.get("additionalSecretOutputs")


def test_what_a_resource_needs_stands_before_it(tmp_path: Path) -> None:
    known: set[str] = set()
    for item in written(config_in(tmp_path), a_spec())["checkpoint"]["latest"]["resources"]:
        needed = {item.get("parent"), item.get("deletedWith"), *item.get("dependencies", ())} - {None}
        provider = item.get("provider", "").rpartition("::")[0]
        assert needed | ({provider} if provider else set()) <= known
        known.add(item["urn"])


def test_no_secret_is_in_a_file(tmp_path: Path) -> None:
    spec, config = a_spec(), config_in(tmp_path)
    state = json.dumps(written(config, spec))
    secrets = [variable.value.get_secret_value() for each in spec.services for variable in each.environment]
    texts = "".join(path.read_text() for path in config.folder(spec.namespace).rglob("*") if path.is_file())
    for secret in filter(lambda text: len(text) > 6 and not text.isdigit() and not text.startswith("akash1"), secrets):
        assert json.dumps(secret) not in state
        assert f'"{secret}"' not in texts
    assert SIGNATURE in state


def test_a_stack_may_be_written_again_and_is_the_same_but_for_its_keys(tmp_path: Path) -> None:
    spec, config = a_spec(), config_in(tmp_path)
    written(config, spec)
    (config.folder(spec.namespace) / "begun.json").write_text("[]")
    written(config, spec)
    assert recorded_stacks(config) == [spec.namespace]
    assert not config.begun_file(spec.namespace).exists()


@pytest.mark.parametrize("more", [{"backend": "file:///tmp/elsewhere"}, {"secrets": "passphrase"}])
def test_another_backend_or_secrets_service_gets_no_state(tmp_path: Path, more: dict[str, Any]) -> None:
    spec, config = a_spec(), config_in(tmp_path, **more)
    with importing(config) as import_stack:
        assert not import_stack(spec)
    assert not config.folder(spec.namespace).exists()


def test_while_a_provider_runs_nothing_is_written(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with (
        importing(config),
        pytest.raises(DataInUse, match="is in use by another lessor"),
        importing(config),
    ):
        raise AssertionError("never reached")
