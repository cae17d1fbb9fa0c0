"""Fixtures over the SDL corpus and the recordings, one test a document; a folder imports them in its conftest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data import SDL, document, names, rows

CHECKOUT = Path(__file__).parents[2]
OBJECTS = "recordings/objects"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a corpus document: `any_sdl`, `valid_sdl`, `invalid_sdl`; one a recorded lease: `recorded_lease`."""
    for fixture, kind in (("any_sdl", None), ("valid_sdl", True), ("invalid_sdl", False)):
        if fixture in metafunc.fixturenames:
            found = names("sdl", ending=".yaml")
            if kind is not None:
                found = [name for name in found if _expected(name)["valid"] is kind]
            metafunc.parametrize(fixture, found, indirect=True)
    if "recorded_lease" in metafunc.fixturenames:
        found = [name for name in names(OBJECTS, ending=".json") if _is_running_lease(_recorded(name))]
        metafunc.parametrize("recorded_lease", found, indirect=True)


def _expected(name: str) -> dict[str, Any]:
    expected: dict[str, Any] = document(f"sdl/{name}.expected.json")
    return expected


def _recorded(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = document(f"{OBJECTS}/{name}.json")
    return recorded


def _is_running_lease(recorded: dict[str, Any]) -> bool:
    """Some records are of refused manifests, updates or bare request logs."""
    return "manifest" in recorded and "lease" in recorded and bool(recorded.get("complete"))


def _document(request: pytest.FixtureRequest) -> tuple[str, bytes, dict[str, Any]]:
    name = request.param
    return name, (SDL / f"{name}.yaml").read_bytes(), _expected(name)


@pytest.fixture
def any_sdl(request: pytest.FixtureRequest) -> tuple[str, bytes, dict[str, Any]]:
    """(name, text, expected)."""
    return _document(request)


@pytest.fixture
def valid_sdl(request: pytest.FixtureRequest) -> tuple[str, bytes, dict[str, Any]]:
    return _document(request)


@pytest.fixture
def invalid_sdl(request: pytest.FixtureRequest) -> tuple[str, bytes, dict[str, Any]]:
    return _document(request)


@pytest.fixture
def recorded_lease(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the Go provider made of one lease."""
    return _recorded(request.param)


@pytest.fixture
def recorded_manifest_puts() -> list[dict[str, Any]]:
    """Requests and answers of `PUT /deployment/<dseq>/manifest`."""
    return list(rows("recordings/gateway/manifest.jsonl"))


@pytest.fixture
def checkout() -> Path:
    return CHECKOUT


@pytest.fixture(scope="session")
def corpus() -> dict[str, bool]:
    """Every document's name and whether it is valid."""
    return {name: _expected(name)["valid"] for name in names("sdl", ending=".yaml")}
