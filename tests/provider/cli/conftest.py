"""The corpus of SDL documents."""

from tests.data.fixtures import any_sdl, checkout, pytest_generate_tests

__all__ = ["any_sdl", "checkout", "pytest_generate_tests"]
