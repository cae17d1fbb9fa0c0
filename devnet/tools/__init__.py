"""The programs a devnet is made of: found on PATH, else built once from pinned Go modules into a cache.

    from devnet.tools import CONTROL_PLANE, ensure_tools

    toolbox = ensure_tools()               # everything; blocks, and tells on stderr what it is doing
    toolbox = ensure_tools(CONTROL_PLANE)  # without Pulumi
    toolbox.program("kubectl")             # an absolute path
    toolbox.env()                          # PATH, PULUMI_HOME, LESSOR_PYTHON for child processes

In a thread when called from asyncio: `await asyncio.to_thread(ensure_tools)`. The cache is LESSOR_CACHE, else
`~/.cache/lessor`. LESSOR_GO_CACHE=throw-away builds without leaving a Go build cache of up to 12 GB behind.
"""

from __future__ import annotations

from devnet.tools.cache import Cache
from devnet.tools.progress import Voice, voice
from devnet.tools.toolbox import CONTROL_PLANE, ENGINE, NODE, Found, Toolbox, ensure_tools, survey

__all__ = ["CONTROL_PLANE", "ENGINE", "NODE", "Cache", "Found", "Toolbox", "Voice", "ensure_tools", "survey", "voice"]
