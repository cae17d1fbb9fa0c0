"""SDL 2.0 and 2.1: a tenant's document to group specs, manifest and hash (sdl-and-manifest.md §1-3)."""

from __future__ import annotations

from lease.sdl.passes import Sdl, read_sdl

__all__ = ["Sdl", "read_sdl"]
