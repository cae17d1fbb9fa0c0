"""`Containerfile` and the script that needs no builder make the same image, and the cluster stack starts it."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from devnet.image import contents
from devnet.image.locked import needed, runtime_lock
from stacks.cluster.operators import operators
from stacks.cluster.processes import VOLUME, provider
from stacks.cluster.settings import ClusterStackSettings
from stacks.cluster.workloads import IMAGE_USER

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def last_stage() -> dict[str, list[str]]:
    """Each instruction of the last stage to what follows it."""
    text = (CHECKOUT / "Containerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.rpartition("\nFROM ")[2].splitlines()[1:]:
        instruction, _, rest = line.partition(" ")
        found.setdefault(instruction, []).append(rest)
    return found


def test_the_packages_are_the_same(last_stage: dict[str, list[str]]) -> None:
    (run,) = last_stage["RUN"]
    listed = re.search(r"--no-install-recommends ([a-z0-9+. -]+?) +&&", run)
    assert listed is not None and listed[1].split() == list(contents.PACKAGES)


def test_the_start_is_the_same(last_stage: dict[str, list[str]]) -> None:
    assert json.loads(last_stage["ENTRYPOINT"][0]) == list(contents.ENTRYPOINT)
    assert json.loads(last_stage["CMD"][0]) == list(contents.COMMAND)
    assert last_stage["USER"] == [f"{contents.USER}:{contents.USER}"]
    assert last_stage["WORKDIR"] == [contents.VOLUME]
    assert dict(text.split("=", 1) for text in last_stage["ENV"]) == contents.ENVIRONMENT
    assert dict(text.split("=", 1) for text in last_stage["LABEL"]) == contents.LABELS
    assert (
        f"--uid {contents.USER} " in last_stage["RUN"][0] and f"--home-dir {contents.VOLUME} " in last_stage["RUN"][0]
    )


def test_the_places_are_the_same(last_stage: dict[str, list[str]]) -> None:
    targets = {text.split()[-1] for text in last_stage["COPY"]}
    assert targets == {"/usr/local/bin/", f"{contents.PULUMI_HOME}/", contents.PREFIX}


def test_the_last_stage_has_no_tools_to_build_with(last_stage: dict[str, list[str]]) -> None:
    text = " ".join(last_stage["RUN"])
    assert not re.search(r"\b(gcc|make|git|curl|wget|pip|golang|build-essential|python3-venv)\b", text)


def test_the_cluster_stack_starts_programs_of_the_image_as_its_user() -> None:
    settings = ClusterStackSettings()
    assert (IMAGE_USER, VOLUME) == (contents.USER, contents.VOLUME)
    for process in (provider(settings), *operators(settings)):
        assert process.command[0] == contents.ENTRYPOINT[0]
    assert provider(settings).command == (*contents.ENTRYPOINT, *contents.COMMAND)


def test_the_runtime_has_what_lessor_needs_and_nothing_of_tests_and_builds() -> None:
    chosen = needed(CHECKOUT)
    assert _required("lessor", {"", "postgresql"}) - {"lessor"} <= chosen.keys()
    assert not chosen.keys() & {"pytest", "mypy", "ruff", "hatchling", "grpcio-tools", "hypothesis", "pip"}


def test_the_runtime_lock_keeps_versions_and_hashes() -> None:
    whole, part = (CHECKOUT / "requirements.lock").read_text(), runtime_lock(CHECKOUT)
    assert set(part.splitlines()) <= set(whole.splitlines())
    packages = re.split(r"^(?=[a-z0-9])", part, flags=re.MULTILINE)[1:]
    assert len(packages) == len(needed(CHECKOUT)) and all("--hash=sha256:" in text for text in packages)


def _required(name: str, extras: set[str], seen: frozenset[str] = frozenset()) -> set[str]:
    """The packages that are installed here because `name` needs them, by their own metadata."""
    found = {str(canonicalize_name(name))}
    for text in distribution(name).requires or ():
        asked = Requirement(text)
        key = str(canonicalize_name(asked.name))
        wanted = asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in extras or {""})
        if wanted and key not in seen:
            found |= _required(asked.name, asked.extras or {""}, seen | found)
    return found
