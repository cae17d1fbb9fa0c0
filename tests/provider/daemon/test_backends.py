"""Which Pulumi the provider uses, and what it says when a part of it is missing: before the first bid."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from devnet.tools.cache import Cache
from devnet.tools.toolbox import _note_engine
from provider.daemon.backends import engine_config, open_backends
from provider.errors import SettingsError
from provider.settings import Settings
from stacks.engine import EngineError

WORDS = "abandon " * 11 + "about"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing on PATH, an empty home and an empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LESSOR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path


def a_pulumi(folder: Path, *, name: str = "pulumi") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    return program


def with_plugin(home: Path) -> Path:
    name = f"resource-kubernetes-v{version('pulumi-kubernetes')}"
    (home / "plugins" / name).mkdir(parents=True)
    (home / "plugins" / name / "pulumi-resource-kubernetes").touch()
    return home


def built(place: Path) -> tuple[Path, Path]:
    """What `make tools` leaves."""
    pulumi, home = a_pulumi(place / "cache" / "tools" / "bin"), with_plugin(place / "cache" / "pulumi" / "key")
    _note_engine(Cache(place / "cache"), pulumi=pulumi, home=home)
    return pulumi, home


def settings(place: Path, pulumi_home: Path | None = None) -> Settings:
    return Settings(home=place / "lessor", kubeconfig=place / "kubeconfig", mnemonic=WORDS, pulumi_home=pulumi_home)


def test_the_pulumi_that_make_tools_has_built_is_found(place: Path) -> None:
    pulumi, home = built(place)
    config = engine_config(settings(place))
    assert (config.pulumi, config.home) == (pulumi, home)


def test_a_pulumi_on_path_goes_first_with_the_home_that_has_the_plugin(place: Path) -> None:
    _, home = built(place)
    own = a_pulumi(place / "bin")
    assert (engine_config(settings(place)).pulumi, engine_config(settings(place)).home) == (own, home)
    users = with_plugin(place / "home" / ".pulumi")
    assert engine_config(settings(place)).home == users
    assert engine_config(settings(place, place / "other")).home == place / "other"


@pytest.mark.parametrize("note", ["", "[]", '{"pulumi": "/nowhere/pulumi", "pulumi_home": "/nowhere"}'])
def test_without_any_pulumi_the_remedy_is_said(place: Path, note: str) -> None:
    (place / "cache" / "engine.json").write_text(note)
    with pytest.raises(SettingsError, match=r"there is no Pulumi: .*`make tools`.*`lessor doctor`"):
        engine_config(settings(place))


async def test_without_the_kubernetes_plugin_the_provider_does_not_start(place: Path) -> None:
    """It used to start and to bid, and no lease could be served."""
    a_pulumi(place / "bin")
    wanted = f"Kubernetes plugin {version('pulumi-kubernetes')} is not in {place}/home/.pulumi/plugins.*`make tools`"
    with pytest.raises(EngineError, match=wanted):
        async with open_backends(settings(place)):
            raise AssertionError("it has started")
    assert not (place / "lessor" / "lessor.db").exists(), "nothing was opened"


def test_the_note_of_make_tools_is_written_anew_only_when_it_changes(place: Path) -> None:
    pulumi, home = built(place)
    note = place / "cache" / "engine.json"
    before = note.stat().st_ino
    _note_engine(Cache(place / "cache"), pulumi=pulumi, home=home)
    assert note.stat().st_ino == before
    assert json.loads(note.read_text()) == {"pulumi": str(pulumi), "pulumi_home": str(home)}


def test_the_resident_engine_is_taken_from_path_or_from_what_was_built(place: Path) -> None:
    pulumi, home = built(place)
    assert engine_config(settings(place)).resident is None
    made = a_pulumi(place / "made", name="lessor-engine")
    _note_engine(Cache(place / "cache"), pulumi=pulumi, home=home, resident=made)
    assert engine_config(settings(place)).resident == made
    own = a_pulumi(place / "bin", name="lessor-engine")
    assert engine_config(settings(place)).resident == own
