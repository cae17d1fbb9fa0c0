"""Makers of specs for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lease.spec import ClusterFacts, LeaseSpec
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker

__all__ = ["ScriptedMaker", "scripted_maker"]


@dataclass(eq=False)
class ScriptedMaker(SpecMaker):
    """A maker whose step `build` is `script`; everything around that step is the provider's own."""

    script: Callable[[SpecInputs], LeaseSpec] | None = None

    def build(self, inputs: SpecInputs) -> LeaseSpec:
        return super().build(inputs) if self.script is None else self.script(inputs)


def scripted_maker(script: Callable[[SpecInputs], LeaseSpec]) -> ScriptedMaker:
    """`script` on a cluster without any particular facts."""
    return ScriptedMaker(ClusterFacts(), script=script)
