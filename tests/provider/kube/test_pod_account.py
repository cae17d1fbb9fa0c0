"""The account of a pod as a kubeconfig, for the provider's client and for Pulumi's plugin."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from provider.kube.pod_account import in_a_pod, place_pod_kubeconfig, pod_kubeconfig
from stacks.common import read_kubeconfig
from stacks.kube import connect

KUBELET = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The folder that a kubelet mounts, with some authority of this machine."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    authority = ssl.create_default_context().get_ca_certs(binary_form=True)[0]
    (folder / "ca.crt").write_text(ssl.DER_cert_to_PEM_cert(authority))
    (folder / "token").write_text("first\n")
    return folder


def test_the_account_is_found_by_its_token(account: Path, tmp_path: Path) -> None:
    assert in_a_pod(account)
    assert not in_a_pod(tmp_path)


def test_the_kubeconfig_of_a_pod_is_one_that_connects_and_reads_the_token_again(account: Path, tmp_path: Path) -> None:
    found = connect(read_kubeconfig(place_pod_kubeconfig(tmp_path / "home", account, KUBELET)))
    assert found.address == "https://10.96.0.1:443"
    assert found.credentials.renew() and found.credentials.header == "Bearer first"
    (account / "token").write_text("second\n")
    assert found.credentials.renew() and found.credentials.header == "Bearer second"


def test_an_address_of_ipv6_has_brackets(account: Path) -> None:
    found = pod_kubeconfig(account, {**KUBELET, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert found["clusters"][0]["cluster"]["server"] == "https://[fd00::1]:443"


def test_the_file_is_of_its_user_alone_holds_no_token_and_is_written_when_it_changes(
    account: Path, tmp_path: Path
) -> None:
    file = place_pod_kubeconfig(tmp_path / "home", account, KUBELET)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "first" not in file.read_text()
    before = file.stat().st_ino
    assert place_pod_kubeconfig(tmp_path / "home", account, KUBELET).stat().st_ino == before
    place_pod_kubeconfig(tmp_path / "home", account, {**KUBELET, "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert "10.0.0.1" in file.read_text()
