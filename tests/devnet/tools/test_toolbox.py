"""Tools are found on PATH if they are new enough, then in the cache; the doctor lists them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from devnet.errors import ToolsMissing
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, Cache, Found, ensure_tools, survey
from devnet.tools.recipes import tool
from devnet.tools.versions import parse, probe
from lease.exit_codes import TROUBLE
from provider.cli import build_app
from tests.devnet.tools.family import script


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """The only folder on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def find(name: str, tmp_path: Path) -> Found:
    [found] = survey([name], cache=Cache(tmp_path / "cache"))
    return found


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("etcd Version: 3.6.16\nGit SHA: x", (3, 6, 16)),
        ("Kubernetes v1.36.3", (1, 36, 3)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", (1, 32, 4)),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)", (0, 8, 0)),
        ("v3.274.1", (3, 274, 1)),
        ("go1.26", (1, 26, 0)),
        ("\n\x06v4.25.0", (4, 25, 0)),
        ("", None),
        ("version unknown", None),
        ("7", None),
        ("99999999999999999999.1.1", None),
    ],
)
def test_a_version_is_read_from_the_output_of_programs(text, version):
    assert parse(text) == version


@given(st.text())
def test_any_output_of_a_program_can_be_parsed(text):
    version = parse(text)
    assert version is None or all(part >= 0 for part in version)


@pytest.mark.parametrize(
    ("name", "says", "where", "note"),
    [
        ("etcd", "etcd Version: 3.6.16", "PATH", ""),
        ("etcd", "etcd Version: 4.0.0", "PATH", ""),
        ("etcd", "etcd Version: 3.5.21", "missing", "its version 3.5.21 is older than 3.6.0"),
        ("kubectl", "Client Version: v1.32.4", "missing", "its version 1.32.4 is older than 1.35.0"),
        ("kubectl", "Client Version: v1.36.0", "PATH", ""),
        ("kwok", "", "missing", "its version (unknown) is older than 0.8.0"),
        ("kwok", "\x00\xff garbage", "missing", "its version (unknown) is older than 0.8.0"),
        ("metallb-controller", "v0.15.2", "missing", ""),  # comes with definitions that only our build has
    ],
)
def test_a_program_on_path_is_used_if_it_is_new_enough(path, name, says, where, note):
    script(path / name, f"echo '{says}'")
    found = find(name, path.parent)
    assert found.where == where
    assert note in found.note
    if where == "PATH":
        assert found.path == path / name
    else:
        assert "run `lessor doctor --build`" in found.note


def test_a_program_that_fails_or_cannot_run_is_not_used(tmp_path, path):
    script(path / "etcd", "exit 1")
    assert find("etcd", tmp_path).where == "missing"
    (path / "etcd").write_bytes(b"\x7fELF not really")
    assert find("etcd", tmp_path).where == "missing"


def test_pulumi_on_path_is_used_only_with_its_language_host(tmp_path, path):
    script(path / "pulumi", "echo v3.280.0")
    found = find("pulumi", tmp_path)
    assert (found.where, "pulumi-language-python is not on PATH beside it" in found.note) == ("missing", True)
    script(path / "pulumi-language-python", "exit 0")
    assert find("pulumi", tmp_path).where == "PATH"
    assert find("pulumi-language-python", tmp_path).where == "PATH"


@pytest.mark.parametrize("text", ["exit 0", "echo no-port; sleep 1", "echo 70000", "echo 1"])
def test_a_program_that_is_not_a_plugin_has_no_version(tmp_path, text):
    program = script(tmp_path / "pulumi-resource-kubernetes", text)
    assert probe(tool("pulumi-resource-kubernetes"), program) is None


def test_missing_tools_are_named_with_the_remedy(tmp_path, path):
    with pytest.raises(ToolsMissing, match=r"not built yet: etcd, kwok\. Run `make tools`"):
        ensure_tools(["etcd", "kwok"], build=False, cache=Cache(tmp_path / "cache"))


def test_the_toolbox_gives_paths_and_an_environment(tmp_path, path):
    script(path / "etcd", "echo etcd Version: 3.6.16")
    toolbox = ensure_tools(["etcd"], build=False, cache=Cache(tmp_path / "cache"))
    assert toolbox.program("etcd") == path / "etcd"
    env = toolbox.env({"PATH": "/usr/bin", "OTHER": "kept"})
    assert (env["PATH"], env["OTHER"]) == ("/usr/bin", "kept")
    assert "PULUMI_HOME" not in env
    with pytest.raises(KeyError):
        toolbox.program("kwok")


def doctor(*arguments: str):
    return CliRunner().invoke(build_app(), ["doctor", *arguments])


def test_the_doctor_lists_every_tool_and_fails_when_one_is_missing(tmp_path, path, monkeypatch):
    monkeypatch.setenv("LESSOR_CACHE", str(tmp_path / "cache"))
    script(path / "etcd", "echo etcd Version: 3.6.16")
    result = doctor("--json")
    assert result.exit_code == 1
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert list(rows) == [*CONTROL_PLANE, *ENGINE]
    assert rows["etcd"] == {
        "name": "etcd",
        "where": "PATH",
        "path": str(path / "etcd"),
        "version": "3.6.16",
        "note": "",
        "for": "devnet",
    }
    assert {row["where"] for name, row in rows.items() if name != "etcd"} == {"missing"}
    assert all("--build" in row["note"] for name, row in rows.items() if name != "etcd")


def test_the_doctor_s_table_names_tools_and_remedies(tmp_path, path, monkeypatch):
    monkeypatch.setenv("LESSOR_CACHE", str(tmp_path / "cache"))
    result = doctor()
    assert result.exit_code == 1
    assert all(name in result.stdout for name in (*CONTROL_PLANE, *ENGINE))
    assert "--build" in result.stdout


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "the resident engine lacks lessor-engine and pulumi-resource-kubernetes"),
        ({"LESSOR_ENGINE": "stock"}, "Engine: stock, by LESSOR_ENGINE"),
        ({"LESSOR_STACK_SECRETS": "vault"}, "cannot read the secrets of a Vault"),
    ],
)
def test_the_doctor_names_the_engine_that_will_run_and_what_it_lacks(tmp_path, path, monkeypatch, variables, said):
    for name, value in {"LESSOR_CACHE": str(tmp_path / "cache"), **variables}.items():
        monkeypatch.setenv(name, value)
    assert said in doctor().stderr


def test_the_programs_of_a_real_node_are_listed_when_asked_for(tmp_path, path, monkeypatch):
    monkeypatch.setenv("LESSOR_CACHE", str(tmp_path / "cache"))
    rows = json.loads(doctor("--json", "--node", "real").stdout)
    assert [row["name"] for row in rows] == [*CONTROL_PLANE, *ENGINE, *NODE]


def test_the_doctor_names_what_a_build_needs(tmp_path, path, monkeypatch):
    monkeypatch.setenv("LESSOR_CACHE", str(tmp_path / "cache"))
    result = doctor("--build")
    assert result.exit_code == TROUBLE
    assert "needs Go 1.26.0 or newer" in result.stderr
    assert not (tmp_path / "cache" / "tools").exists()


@pytest.mark.devnet
def test_pulumi_finds_the_built_plugin_in_its_home(toolbox):
    argv = [str(toolbox.program("pulumi")), "plugin", "ls", "--json"]
    listed = subprocess.run(argv, env=toolbox.env(), capture_output=True, text=True, check=True, timeout=30).stdout
    assert [(each["name"], each["version"]) for each in json.loads(listed)] == [("kubernetes", "4.25.0")]
