"""The corpus and the recordings."""

from tests.data.fixtures import (
    any_sdl,
    checkout,
    corpus,
    invalid_sdl,
    pytest_generate_tests,
    recorded_lease,
    recorded_manifest_puts,
    valid_sdl,
)

__all__ = [
    "any_sdl",
    "checkout",
    "corpus",
    "invalid_sdl",
    "pytest_generate_tests",
    "recorded_lease",
    "recorded_manifest_puts",
    "valid_sdl",
]
