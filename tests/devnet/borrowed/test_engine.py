"""The user's own Pulumi: nothing is built, and all missing parts are named together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devnet.borrowed import own_engine
from devnet.errors import EngineIncomplete
from tests.devnet.tools.family import script

PLUGINS = [{"name": "kubernetes", "kind": "resource", "version": "4.25.0"}]


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """The only folder on PATH besides the system's shell."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    return tmp_path / "bin"


def pulumi(path: Path, *, version: str = "v3.280.0", plugins: object = PLUGINS) -> None:
    script(path / "pulumi", f"case $1 in version) echo {version};; *) echo '{json.dumps(plugins)}';; esac")


def missing() -> str:
    with pytest.raises(EngineIncomplete) as told:
        own_engine()
    return str(told.value)


def test_a_complete_pulumi_on_path_is_used(path):
    pulumi(path)
    script(path / "pulumi-language-python", "exit 0")
    toolbox = own_engine()
    assert toolbox.program("pulumi") == path / "pulumi"
    assert toolbox.pulumi_home is None


def test_the_language_host_may_lie_beside_the_program_that_a_link_on_path_names(path, tmp_path, monkeypatch):
    pulumi(tmp_path / "opt")
    script(tmp_path / "opt" / "pulumi-language-python", "exit 0")
    path.mkdir()
    (path / "pulumi").symlink_to(tmp_path / "opt" / "pulumi")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    assert own_engine().pulumi_home == tmp_path / "home"


def test_a_missing_pulumi_is_reported_with_its_source(path):
    assert "pulumi 3.272.0 or newer on PATH: see https://www.pulumi.com/docs/install/" in missing()


def test_all_missing_parts_are_reported_together_with_their_remedies(path):
    pulumi(
        path, version="v3.100.0", plugins=[{"name": "kubernetes", "version": "4.30.0"}, {"name": "aws", "version": "1"}]
    )
    told = missing()
    assert f"{path / 'pulumi'} is 3.100.0" in told
    assert "pulumi-language-python, a part of Pulumi, beside" in told
    assert "Kubernetes plugin 4.25.0 (found: 4.30.0): pulumi plugin install resource kubernetes 4.25.0" in told


@pytest.mark.parametrize("plugins", [None, {}, 7, [{}], "text"])
def test_an_invalid_list_of_plugins_counts_as_empty(path, plugins):
    pulumi(path, plugins=plugins)
    assert "Kubernetes plugin 4.25.0:" in missing()
