"""Generates the `akash` and `k8s` message packages from `proto/` into `build/proto/` whenever the project is installed.

Only the files below `proto/` are compiled. cosmpy has `cosmos.*`, `gogoproto` and similar packages, and protobuf
refuses two copies of one message in a process; protoc gets their descriptors from cosmpy's modules.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent


class ProtoBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs the generator before hatchling collects files; `pip install -e .` runs it too."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Generate the packages, unless they are up to date."""
        sys.path.insert(0, str(ROOT / "proto"))
        from generate import generate  # noqa: PLC0415

        generate(ROOT / "proto", ROOT / "build" / "proto")

    def clean(self, versions: list[str]) -> None:
        """Remove the generated packages on `hatch clean`."""
        shutil.rmtree(ROOT / "build" / "proto", ignore_errors=True)
