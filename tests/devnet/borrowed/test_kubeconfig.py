"""One context of a kubeconfig in a separate file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from devnet.borrowed.kubeconfig import chosen_context, write_kubeconfig
from devnet.errors import ClusterUnusable

DOCUMENT = {
    "current-context": "kind-one",
    "contexts": [
        {"name": "kind-one", "context": {"cluster": "one", "user": "alice"}},
        {"name": "production", "context": {"cluster": "two", "user": "bob", "namespace": "shop"}},
        {"name": "broken", "context": {"cluster": "three", "user": "bob"}},
    ],
    "clusters": [
        {"name": "one", "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority": "pki/ca.crt"}},
        {"name": "two", "cluster": {"server": "https://example.com"}},
    ],
    "users": [
        {"name": "alice", "user": {"client-certificate": "/etc/alice.crt", "client-key": "alice.key"}},
        {"name": "bob", "user": {"token": "secret"}},
    ],
}


@pytest.fixture
def kubeconfig(tmp_path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(DOCUMENT))
    return path


def test_the_current_context_is_the_default_and_its_files_get_absolute_paths(kubeconfig, tmp_path):
    found = chosen_context(kubeconfig)
    assert found["current-context"] == "kind-one"
    assert found["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    user = found["users"][0]["user"]
    assert user == {"client-certificate": "/etc/alice.crt", "client-key": str(tmp_path / "alice.key")}
    assert "secret" not in str(found)


def test_a_named_context_is_used(kubeconfig):
    found = chosen_context(kubeconfig, "production")
    assert [each["name"] for key in ("contexts", "clusters", "users") for each in found[key]] == [
        "production",
        "two",
        "bob",
    ]
    assert found["contexts"][0]["context"]["namespace"] == "shop"


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ("nowhere", r"no context 'nowhere'; there are: broken, kind-one, production. Choose one by --context"),
        ("broken", r"names the cluster 'three', which does not exist"),
    ],
)
def test_an_incomplete_context_is_refused(kubeconfig, context, told):
    with pytest.raises(ClusterUnusable, match=told):
        chosen_context(kubeconfig, context)


@pytest.mark.parametrize("text", ["", "[]", "{", "a: b", "contexts: 7", "contexts: [7, {}]", "\x00"])
def test_a_file_that_is_not_a_kubeconfig_is_refused(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(ClusterUnusable, match="config"):
        chosen_context(tmp_path / "config")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ClusterUnusable, match="No such file"):
        chosen_context(tmp_path / "nothing")


def test_only_the_owner_can_read_the_credentials(kubeconfig, tmp_path):
    path = write_kubeconfig(chosen_context(kubeconfig, "production"), tmp_path / "alone")
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["current-context"] == "production"
