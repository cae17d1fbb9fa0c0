"""The programs of the devnet: found on PATH, or built once from pinned Go modules into a cache.

    from devnet.tools import CONTROL_PLANE, ensure_tools

    toolbox = ensure_tools()               # all tools; blocks, and prints its progress on stderr
    toolbox = ensure_tools(CONTROL_PLANE)  # without Pulumi
    toolbox.program("kubectl")             # an absolute path
    toolbox.env()                          # PATH, PULUMI_HOME, LESSOR_PYTHON for child processes

From asyncio, call it in a thread: `await asyncio.to_thread(ensure_tools)`. The cache is LESSOR_CACHE, else
`~/.cache/lessor`. LESSOR_GO_CACHE=throw-away deletes the Go build cache, which has up to 12 GB, after each build.
"""

from __future__ import annotations

from devnet.tools.cache import Cache
from devnet.tools.progress import Progress, progress_output
from devnet.tools.toolbox import CONTROL_PLANE, ENGINE, NODE, Found, Toolbox, ensure_tools, survey

__all__ = [
    "CONTROL_PLANE",
    "ENGINE",
    "NODE",
    "Cache",
    "Found",
    "Progress",
    "Toolbox",
    "ensure_tools",
    "progress_output",
    "survey",
]
