"""The folder of a demo: what cannot be used is refused before any work, and two demos cannot share one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devnet.demo import check_folder, demo_folder
from devnet.errors import DevnetError
from lease.exit_codes import FINDING, TROUBLE, USAGE

CHECKOUT = Path(__file__).resolve().parents[3]
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def lessor(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command on a machine without any tool; what would build one ends with the words of a missing Go."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("LESSOR_")}
    argv = [str(Path(sys.executable).with_name("lessor")), *arguments]
    return subprocess.run(
        argv,
        cwd=CHECKOUT,
        env=plain | {"PATH": "/nowhere"} | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def without_tools(tmp_path: Path) -> dict[str, str]:
    return {"LESSOR_CACHE": str(tmp_path / "cache")}


def test_a_new_folder_is_made_and_an_empty_or_earlier_one_is_taken(tmp_path):
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "provider.log").touch()
    check_folder(tmp_path / "a" / "b")


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("file", "File exists"),
        ("file/below", "Not a directory"),
        ("/proc/nothing", "No such file"),
        ("x" * 300, "too long"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(tmp_path, folder, problem):
    (tmp_path / "file").touch()
    with pytest.raises(DevnetError, match=problem):
        check_folder(tmp_path / folder)


def test_a_folder_with_files_of_others_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(DevnetError, match="other files"):
        check_folder(tmp_path)


def test_a_second_demo_in_the_folder_is_refused_until_the_first_one_ends(tmp_path):
    with demo_folder(tmp_path):
        (tmp_path / "provider.log").touch()
        done = lessor("demo", "--data", str(tmp_path))
        assert (done.returncode, "another demo runs in" in done.stdout) == (TROUBLE, True), done.stdout
        assert (tmp_path / "provider.log").exists()
    with demo_folder(tmp_path):
        pass


def test_an_error_in_the_demo_is_not_taken_for_another_demo(tmp_path):
    with pytest.raises(BlockingIOError), demo_folder(tmp_path):
        raise BlockingIOError


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--data", "/proc/nothing"], TROUBLE),
        (["--sdl", "README.md"], FINDING),
        (["--sdl", "missing.yaml"], TROUBLE),
        (["--denom", "two words"], USAGE),
        (["--node", "real", "--data", "/run/lessor-demo"], TROUBLE),
        (["--kubeconfig", "README.md"], TROUBLE),
        (["--kubeconfig", "missing"], TROUBLE),
        (["--kubeconfig", "{kubeconfig}", "--context", "nowhere"], TROUBLE),
        (["--kubeconfig", "{kubeconfig}", "--sdl", "examples/demo.yaml"], TROUBLE),
    ],
)
def test_every_argument_is_checked_before_work(tmp_path, without_tools, options, code):
    """Neither a tool is built or searched, nor an earlier demo's folder cleared."""
    data, kubeconfig = tmp_path / "earlier", tmp_path / "kubeconfig"
    data.mkdir()
    (data / "provider.log").touch()
    kubeconfig.write_text(KUBECONFIG)
    named = [option.format(kubeconfig=kubeconfig) for option in options]
    done = lessor("demo", "--data", str(data), *named, **without_tools)
    said = done.stdout + done.stderr
    assert done.returncode == code
    assert "Go" not in said and "pulumi" not in said and "Traceback" not in said, said
    assert (data / "provider.log").exists()
    assert not Path(without_tools["LESSOR_CACHE"]).exists()


@pytest.mark.parametrize("command", [["demo"], ["devnet", "up"]])
def test_a_folder_is_checked_before_tools_are_built(without_tools, command):
    done = lessor(*command, "--data", "/proc/nothing", **without_tools)
    assert done.returncode == TROUBLE
    assert "/proc/nothing" in done.stdout + done.stderr
    assert "Go" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", [["demo"], ["devnet", "up"]])
def test_a_folder_that_a_real_node_cannot_use_is_not_even_made(without_tools, command):
    done = lessor(*command, "--node", "real", "--data", "/run/lessor-test/data", **without_tools)
    assert done.returncode == TROUBLE
    assert "inside an enclosure /run is another folder" in done.stdout + done.stderr
    assert not Path("/run/lessor-test").exists()
