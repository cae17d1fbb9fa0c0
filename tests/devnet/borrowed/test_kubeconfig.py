"""One context of a kubeconfig in a separate file."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import yaml

from devnet.borrowed.kubeconfig import chosen_context, write_kubeconfig
from devnet.errors import ClusterUnusable
from devnet.kube_api import KubeApi

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
        {"name": "alice", "user": {"client-certificate": "alice.crt", "client-key": "alice.key"}},
        {"name": "bob", "user": {"token": "secret"}},
    ],
}


@pytest.fixture
def kubeconfig(tmp_path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(DOCUMENT))
    (tmp_path / "pki").mkdir()
    for name in ("pki/ca.crt", "alice.crt", "alice.key"):
        (tmp_path / name).touch()
    return path


def test_the_current_context_is_the_default_and_its_files_get_absolute_paths(kubeconfig, tmp_path):
    found = chosen_context(kubeconfig)
    assert found["current-context"] == "kind-one"
    assert found["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    user = found["users"][0]["user"]
    assert user == {"client-certificate": str(tmp_path / "alice.crt"), "client-key": str(tmp_path / "alice.key")}
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


def document(**changes: object) -> dict[str, object]:
    """A kubeconfig with one context; `changes` replace the cluster, the user, or a whole list."""
    cluster, user = changes.pop("cluster", {"server": "https://127.0.0.1:1"}), changes.pop("user", {"token": "t"})
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    } | changes


def exec_plugin(*command: str, version: str = "v1beta1") -> dict[str, object]:
    plugin = {"apiVersion": f"client.authentication.k8s.io/{version}", "command": command[0], "args": [*command[1:]]}
    return document(user={"exec": plugin})


@pytest.mark.parametrize(
    "wrong",
    [
        *(document(cluster={"server": server}) for server in (7, None, "", "::::", "https://h:abc", "ftp://h")),
        *(
            document(cluster={"server": server})
            for server in ("https://a\x1b[31m/", "https://[::1", "https://" + "a" * 99999)
        ),
        document(cluster={"server": "https://" + "ü" * 80 + ".example"}),
        *(
            document(cluster={"server": "https://127.0.0.1:1", "certificate-authority": ca})
            for ca in (7, "no", "/", "a\0")
        ),
        *(
            document(cluster={"server": "https://127.0.0.1:1", "certificate-authority-data": ca})
            for ca in (7, "%", "aGk=")
        ),
        *(document(user=user) for user in ("text", ["list"], {"token": 7}, {"tokenFile": "no"}, {"exec": "text"})),
        document(user={"client-certificate": __file__}),
        document(cluster="text"),
        *(exec_plugin(*command) for command in (["/no/such"], ["false"], ["echo"], ["echo", "[]"], ["echo", "{}"])),
        exec_plugin("echo", version="v9"),
        document(contexts=[{"name": "c", "context": "text"}]),
        document(contexts=[{"name": ["c"]}, {"name": 7}, {"name": "b"}]),
        document(**{"current-context": ["c"]}),
    ],
    ids=lambda wrong: repr(wrong)[:10],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_value_is_refused_with_a_text(tmp_path, wrong):
    (tmp_path / "config").write_text(yaml.safe_dump(wrong))
    with pytest.raises(ClusterUnusable) as refused:
        KubeApi(write_kubeconfig(chosen_context(tmp_path / "config"), tmp_path / "alone")).get("version")
    assert len(str(refused.value)) < 1000
    gc.collect()  # lightkube leaves its temporary file of a certificate to the collector, which warns


@pytest.mark.parametrize("text", ["a: 2001-13-45", f"a: {'9' * 5000}", "[" * 3000])
def test_a_value_that_yaml_cannot_hold_is_refused(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(ClusterUnusable, match="cannot be read as a kubeconfig"):
        chosen_context(tmp_path / "config")


def test_a_file_without_end_is_refused(tmp_path):
    with pytest.raises(ClusterUnusable, match="no kubeconfig is that long"):
        chosen_context(Path("/dev/zero"))


def test_of_two_entries_of_one_name_the_first_holds(tmp_path):
    twice = document()
    twice["contexts"] = [
        {"name": "c", "context": {"cluster": "k", "user": "u"}},
        {"name": "c", "context": {"cluster": "other", "user": "other"}},
    ]
    (tmp_path / "config").write_text(yaml.safe_dump(twice))
    assert chosen_context(tmp_path / "config")["contexts"][0]["context"]["cluster"] == "k"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ClusterUnusable, match="No such file"):
        chosen_context(tmp_path / "nothing")


def test_only_the_owner_can_read_the_credentials(kubeconfig, tmp_path):
    path = write_kubeconfig(chosen_context(kubeconfig, "production"), tmp_path / "alone")
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["current-context"] == "production"
