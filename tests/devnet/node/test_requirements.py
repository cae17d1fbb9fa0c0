"""A machine that cannot have a real node is told what it lacks, and the one command that brings it."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest

from devnet.node import requirements
from devnet.node.requirements import DEBIAN_PACKAGES, missing_requirements


@pytest.fixture(autouse=True)
def able_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has all; each test takes something away."""
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-13-amd64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "_CONTROLLERS", ())
    monkeypatch.setattr(requirements, "_CNI", Path("/"))
    monkeypatch.setattr(requirements, "_SECCOMP", ("/",))


def test_a_machine_that_has_all_lacks_nothing() -> None:
    assert missing_requirements() == ()


def test_missing_packages_are_named_with_the_command_that_installs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program in ("ipset", "busybox") else program)
    (problem,) = missing_requirements()
    assert problem.startswith("Debian packages are missing: busybox-static ipset; run `apt-get install ")
    assert DEBIAN_PACKAGES in problem


def test_a_compiler_is_asked_for_only_while_something_is_to_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program in ("gcc", "pkg-config") else program)
    monkeypatch.setattr(requirements, "_SECCOMP", ("/no/such/header.h",))
    assert missing_requirements(build=False) == ()
    assert "gcc libseccomp-dev pkg-config" in missing_requirements()[0]


@pytest.mark.parametrize(("release", "enough"), [("5.3.18", False), ("5.4.0-rc1", True), ("6.12.41+deb13", True)])
def test_the_kernel_must_be_new_enough(release: str, *, enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    assert (missing_requirements() == ()) is enough


def test_a_user_without_root_is_told_what_root_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (problem,) = missing_requirements()
    assert problem == "root is needed for namespaces, mounts and cgroups; run the command as root, for example by sudo"


def test_a_machine_with_cgroup_v2_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "_CONTROLLERS", ("no-such-controller",))
    (problem,) = missing_requirements()
    assert "no-such-controller are not mounted" in problem and "cgroup v2 alone is not supported" in problem
