"""What lies in the data folder: key, kubeconfig copy, lock, and what a killed run leaves in a stack's folder."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stacks.common.config import EngineConfig
from stacks.common.errors import DataInUse, EngineError, OperationRefused
from stacks.common.files import hold, place_kubeconfig, prepare_home, prepare_key
from stacks.worker.state import doubted, prune_history, recover, trust

CHECKPOINT = {"version": 3, "checkpoint": {"stack": "organization/lease/s", "latest": {"resources": [{"urn": "u"}]}}}


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    return EngineConfig(data=tmp_path / "data", kubeconfig=tmp_path / "k", pulumi=Path("/bin/false"))


@pytest.fixture
def state(config: EngineConfig) -> Path:
    file = config.state_file("s")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(CHECKPOINT))
    return file


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    prepare_key(tmp_path / "key")
    first = (tmp_path / "key").read_text()
    prepare_key(tmp_path / "key")

    assert len(first) >= 32 and (tmp_path / "key").read_text() == first
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_start_that_dies_while_it_makes_the_key_is_made_good_by_the_next(tmp_path, monkeypatch):
    def die(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(os, "fsync", die)
        prepare_key(tmp_path / "key")
    prepare_key(tmp_path / "key")

    assert len((tmp_path / "key").read_text()) >= 32


def test_an_empty_key_is_not_replaced_in_silence(tmp_path):
    (tmp_path / "key").touch()

    with pytest.raises(EngineError, match="restore it"):
        prepare_key(tmp_path / "key")


def test_a_data_folder_has_one_engine(tmp_path):
    held = hold(tmp_path / "data")
    with pytest.raises(DataInUse, match="in use by another"):
        hold(tmp_path / "data")
    os.close(held)

    os.close(hold(tmp_path / "data"))


def test_file_names_in_a_kubeconfig_stay_right_in_its_copy(tmp_path):
    source = tmp_path / "somewhere" / "config"
    source.parent.mkdir()
    users = [{"name": "u", "user": {"client-key": "key.pem", "token": "t"}}]
    clusters = [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "/etc/ca.pem"}}]
    source.write_text(yaml.safe_dump({"clusters": clusters, "users": users}))

    place_kubeconfig(source, tmp_path / "copy")

    copy = yaml.safe_load((tmp_path / "copy").read_text())
    assert copy["users"][0]["user"] == {"client-key": str(source.parent / "key.pem"), "token": "t"}
    assert copy["clusters"][0]["cluster"]["certificate-authority"] == "/etc/ca.pem"
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", [None, "a: [", "just text", "clusters: 5", "users: [1]", "clusters: [{name: c}]"])
def test_an_unusable_kubeconfig_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "config").write_text(text)

    with pytest.raises(EngineError, match=str(tmp_path / "config")):
        place_kubeconfig(tmp_path / "config", tmp_path / "copy")


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", "a" * 64, "ü", "a\0", "a b"])
def test_only_a_plain_name_is_a_stack(config, name):
    with pytest.raises(ValueError, match="is not the name of a lease stack"):
        config.folder(name)


def test_pending_operations_leave_a_doubt_and_the_rest_of_the_state_is_kept(config, state):
    pending = json.loads(json.dumps(CHECKPOINT))
    pending["checkpoint"]["latest"]["pending_operations"] = [{"type": "creating"}, {"type": "creating"}]
    state.write_text(json.dumps(pending))

    assert recover(config, "s") == ["2 pending operation(s) will be checked in the cluster"]
    assert json.loads(state.read_text()) == CHECKPOINT
    assert recover(config, "s") == [] and doubted(config, "s"), "a second kill does not remove the doubt"
    trust(config, "s")
    assert not doubted(config, "s")


def test_a_state_that_needs_nothing_is_not_written(config, state):
    before = state.stat().st_mtime_ns

    assert recover(config, "s") == []
    assert state.stat().st_mtime_ns == before


@pytest.mark.parametrize("rubbish", [b"", b"{", b"null", b"[]", b'{"checkpoint": 1}', b"\xff\xfe", b"[" * 100_000])
def test_an_unreadable_state_gives_way_to_its_backup(config, state, rubbish):
    state.with_name("s.json.bak").write_text(json.dumps(CHECKPOINT))
    state.write_bytes(rubbish)

    assert "backup" in recover(config, "s")[0]
    assert json.loads(state.read_text()) == CHECKPOINT


def test_an_unreadable_state_without_a_backup_is_made_anew(config, state):
    state.write_text("{")

    assert "an empty one replaces it" in recover(config, "s")[0]
    assert not state.exists()


@pytest.mark.parametrize("text", [json.dumps({"pid": 999_999_999}), "", "{", "[]", json.dumps({"pid": "x"})])
def test_a_lock_that_nobody_holds_is_removed(config, state, text):
    lock = put_lock(config, text)

    assert "lock" in recover(config, "s")[0]
    assert not lock.exists()


def test_a_lock_of_a_process_that_is_no_pulumi_is_stale(config, state):
    lock = put_lock(config, json.dumps({"pid": os.getpid()}))

    recover(config, "s")
    assert not lock.exists(), "process ids are used again"


def test_an_operators_own_command_line_is_respected(config, state, tmp_path):
    fake = tmp_path / "pulumi"
    fake.write_text("#!/bin/sh\nread line\n")
    fake.chmod(0o755)
    import subprocess

    with subprocess.Popen([fake], stdin=subprocess.PIPE) as operator:
        lock = put_lock(config, json.dumps({"pid": operator.pid}))
        wait_for_name(operator.pid, "pulumi")
        with pytest.raises(OperationRefused, match=str(operator.pid)):
            recover(config, "s")
        assert lock.exists() and operator.poll() is None


@given(st.lists(st.integers(1, 10**6), unique=True, max_size=12), st.integers(1, 5))
def test_history_keeps_the_newest_updates_records(tmp_path_factory, times, kept):
    folder = tmp_path_factory.mktemp("history")
    config = EngineConfig(data=folder, kubeconfig=folder, pulumi=folder, history=kept)
    history = config.folder("s") / ".pulumi" / "history" / "lease" / "s"
    history.mkdir(parents=True)
    for moment in times:
        for kind in ("history", "checkpoint"):
            (history / f"s-{10**18 + moment}.{kind}.json").touch()

    prune_history(config, "s")

    left = [int(file.name.split("-")[1].split(".")[0]) - 10**18 for file in history.iterdir()]
    assert sorted(left) == sorted(times)[-kept:]
    assert not list(history.glob("*.checkpoint.json")), "whole checkpoints are not kept"


def test_the_quiet_home_has_the_installed_plugins_and_a_file_where_logs_would_be(tmp_path: Path) -> None:
    installed, other, quiet = tmp_path / "installed", tmp_path / "other", tmp_path / "quiet"
    for home in (installed, other):
        (home / "plugins" / f"resource-of-{home.name}").mkdir(parents=True)
    prepare_home(installed, quiet)
    assert [path.name for path in (quiet / "plugins").iterdir()] == ["resource-of-installed"]
    assert (quiet / "logs").is_file() and stat.S_IMODE(quiet.stat().st_mode) == 0o700
    prepare_home(other, quiet)
    assert [path.name for path in (quiet / "plugins").iterdir()] == ["resource-of-other"], "the installation moved"


def test_a_kubeconfig_that_was_seen_is_read_again_when_either_side_changed(config: EngineConfig) -> None:
    config.data.mkdir()
    document = {"clusters": [], "users": [], "contexts": [], "current-context": "a"}
    config.kubeconfig.write_text(yaml.safe_dump(document))
    place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
    first = config.kubeconfig_copy.stat().st_mtime_ns
    place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
    assert config.kubeconfig_copy.stat().st_mtime_ns == first
    config.kubeconfig_copy.write_text("damaged")
    place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
    assert yaml.safe_load(config.kubeconfig_copy.read_text()) == document
    config.kubeconfig.write_text(yaml.safe_dump(document | {"current-context": "other"}))
    place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
    assert yaml.safe_load(config.kubeconfig_copy.read_text())["current-context"] == "other"


def put_lock(config: EngineConfig, text: str) -> Path:
    lock = config.folder("s") / ".pulumi" / "locks" / "organization" / "lease" / "s" / "a-b-c.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(text)
    return lock


def wait_for_name(pid: int, name: str) -> None:
    import time

    for _ in range(200):
        if Path(f"/proc/{pid}/comm").read_text().strip() == name:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} never became {name}")
