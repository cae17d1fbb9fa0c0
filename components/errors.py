"""Errors of the builders: a spec that would make an object which no cluster should get."""

from __future__ import annotations

__all__ = ["BuildError"]


class BuildError(ValueError):
    """A value of the spec must not reach the cluster. The text names the place, the value and what is allowed."""

    def __init__(self, place: str, value: object, allowed: str) -> None:
        super().__init__(f"{place}: {value!r} cannot be built; allowed: {allowed}")
        self.place = place
        self.value = value
        self.allowed = allowed
