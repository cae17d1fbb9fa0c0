"""Generates the `akash` and `k8s` message packages from `proto/` into `build/proto/` whenever the project is installed.

Only our own files are compiled: cosmpy already brings `cosmos.*`, `gogoproto` and their like, and two copies of one
message in a process are refused by protobuf. Their descriptors are taken from cosmpy's modules and handed to protoc.
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
        """Regenerate, unless the output is newer than every source."""
        sys.path.insert(0, str(ROOT / "proto"))
        from generate import generate  # noqa: PLC0415

        generate(ROOT / "proto", ROOT / "build" / "proto")

    def clean(self, versions: list[str]) -> None:
        """`hatch clean` takes the generated packages with it."""
        shutil.rmtree(ROOT / "build" / "proto", ignore_errors=True)
