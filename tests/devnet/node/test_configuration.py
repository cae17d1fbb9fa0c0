"""The files of a real node's programs."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from devnet.controlplane.certificates import Outward, make_certificates
from devnet.node.configuration import NODE_NAME, NodeFiles


def test_a_kubeconfig_that_is_written_again_stays_whole_for_a_program_that_reads_it(tmp_path: Path) -> None:
    plane = tmp_path / "plane"
    make_certificates(plane / "pki", Outward("172.20.0.2", NODE_NAME))
    admin = {"contexts": [{"name": "devnet", "context": {"cluster": "devnet", "user": "admin"}}], "users": []}
    (plane / "admin.kubeconfig").write_text(yaml.safe_dump(admin))
    files = NodeFiles(tmp_path, plane)
    files.configuration.mkdir()
    path = files.kubeconfig(f"system:node:{NODE_NAME}")
    with path.open() as opened:
        assert files.kubeconfig(f"system:node:{NODE_NAME}") == path
        assert os.fstat(opened.fileno()).st_ino != path.stat().st_ino, "the file of a reader was written into"
        assert yaml.safe_load(opened.read())["users"][0]["name"] == f"system:node:{NODE_NAME}"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in files.configuration.iterdir()] == [path.name]
