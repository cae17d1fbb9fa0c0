"""`lessor doctor --kubeconfig` names the nodes on which a pod may have any number of processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devnet.pid_limits import pid_problems
from provider.cli import build_app

UNLIMITED = "a pod may have any number of processes"


def a_kubectl(folder: Path, nodes: dict[str, object], *, lists: bool = True) -> str:
    """A program that answers as kubectl does; a node without an answer is refused."""
    for name, answer in nodes.items():
        if answer is not None:
            (folder / name).write_text(answer if isinstance(answer, str) else json.dumps(answer))
    program = folder / "kubectl"
    names = "\\n".join(f"node/{name}" for name in nodes)
    listing = f"printf '{names}\\n'" if lists else "echo 'the server is away' >&2; exit 1"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$6" = nodes ]; then {listing}; exit; fi\n'
        'node="${7#/api/v1/nodes/}"; node="${node%/proxy/configz}"\n'
        f'cat "{folder}/$node" 2>/dev/null || {{ echo "nodes $node is forbidden" >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"kubeletconfig": {"podPidsLimit": 4096}}, ""),
        ({"kubeletconfig": {"podPidsLimit": -1}}, UNLIMITED),
        ({"kubeletconfig": {"podPidsLimit": 0}}, UNLIMITED),
        ({"kubeletconfig": {}}, UNLIMITED),
        ({"kubeletconfig": None}, "has another form"),
        ([], "has another form"),
        ("no json", "has another form"),
        (None, "nodes n1 is forbidden"),
    ],
)
def test_a_node_without_a_limit_of_processes_is_named(tmp_path: Path, answer: object, said: str) -> None:
    kubectl = a_kubectl(tmp_path, {"n0": {"kubeletconfig": {"podPidsLimit": 100}}, "n1": answer})
    found = pid_problems(tmp_path / "config", kubectl=kubectl)
    assert len(found) == bool(said)
    assert all("node n1" in line and said in line for line in found)


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    (line,) = pid_problems(tmp_path / "config", kubectl=a_kubectl(tmp_path, {}, lists=False))
    assert line.endswith("the nodes cannot be listed: the server is away")
    (line,) = pid_problems(tmp_path / "config", kubectl=str(tmp_path / "none"))
    assert "No such file" in line


def test_the_doctor_warns_of_such_nodes_when_it_has_the_operators_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_kubectl(tmp_path, {"n0": {"kubeletconfig": {}}})
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    config = tmp_path / "config"
    config.touch()
    found = CliRunner().invoke(build_app(), ["doctor", "--json", "--kubeconfig", str(config)])
    assert f"PIDs: node n0: {UNLIMITED}" in found.stderr
