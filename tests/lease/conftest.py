"""Where the SDL corpus and the recordings are: `LESSOR_SHARED`, by default beside the checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("LESSOR_SHARED") or CHECKOUT.parent / "shared")
if not SHARED.is_absolute():
    SHARED = (CHECKOUT / SHARED).resolve()


def _names(folder: str, pattern: str) -> list[str]:
    return sorted(path.name.removesuffix(".yaml") for path in (SHARED / folder).glob(pattern))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a corpus document: `any_sdl`, `valid_sdl`, `invalid_sdl`; one a recorded lease: `recorded_lease`."""
    for fixture, kind in (("any_sdl", None), ("valid_sdl", True), ("invalid_sdl", False)):
        if fixture in metafunc.fixturenames:
            names = _names("sdl", "*.yaml")
            if kind is not None:
                names = [name for name in names if _expected(name)["valid"] is kind]
            metafunc.parametrize(fixture, names or [None], indirect=True)
    if "recorded_lease" in metafunc.fixturenames:
        paths = sorted((SHARED / "recordings" / "objects").glob("*.json"))
        names = [path.name for path in paths if _is_running_lease(json.loads(path.read_text()))]
        metafunc.parametrize("recorded_lease", names or [None], indirect=True)


def _expected(name: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((SHARED / "sdl" / f"{name}.expected.json").read_text())
    return expected


def _is_running_lease(recorded: dict[str, Any]) -> bool:
    """Some records are of refused manifests, updates or bare request logs."""
    return "manifest" in recorded and "lease" in recorded and bool(recorded.get("complete"))


def _missing(what: str) -> None:
    message = f"{what} not found under {SHARED}; set LESSOR_SHARED"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def _document(request: pytest.FixtureRequest) -> tuple[str, bytes, dict[str, Any]]:
    if request.param is None:
        _missing("the SDL corpus (sdl/)")
    name = request.param
    return name, (SHARED / "sdl" / f"{name}.yaml").read_bytes(), _expected(name)


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
    if request.param is None:
        _missing("recordings/objects/")
    recorded: dict[str, Any] = json.loads((SHARED / "recordings" / "objects" / request.param).read_text())
    return recorded


@pytest.fixture
def recorded_manifest_puts() -> list[dict[str, Any]]:
    """Requests and answers of `PUT /deployment/<dseq>/manifest`."""
    path = SHARED / "recordings" / "gateway" / "manifest.jsonl"
    if not path.exists():
        _missing("recordings/gateway/manifest.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def checkout() -> Path:
    return CHECKOUT


@pytest.fixture(scope="session")
def corpus() -> dict[str, bool]:
    """Every document's name and whether it is valid."""
    names = _names("sdl", "*.yaml")
    if not names:
        _missing("the SDL corpus (sdl/)")
    return {name: _expected(name)["valid"] for name in names}
