"""The dashboard in a browser: axe finds no violation on any page, light and dark, on wide and narrow screens."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from provider.dashboard.access import cookie_name
from tests.provider.dashboard.test_dashboard import PAGES, TOKEN, Dashboard, dashboard
from tests.world.patience import PATIENCE_S, eventually
from tests.world.processes import start_process

__all__ = ["dashboard"]

PACKAGE = Path(__file__).parents[2] / "data" / "axe"
SCHEMES = ("light", "dark")
WIDTHS = (1280, 360)
AXE = "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"

pytestmark = pytest.mark.long


class Tab:
    """One page of a browser, over its debugging protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while (answer := await self._socket.receive_json(timeout=PATIENCE_S)).get("id") != number:
            pass
        assert "error" not in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await eventually(self._loaded)

    async def value(self, expression: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def _loaded(self) -> bool:
        return bool(await self.value("document.readyState === 'complete' && location.href !== 'about:blank'"))


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, of the version in the lock."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    folder = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGE / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not on PATH")
    flags = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-port=0",
        f"--user-data-dir={tmp_path}",
    )
    start_process([program, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listening = tmp_path / "DevToolsActivePort"
    await eventually(lambda: listening.exists() and len(listening.read_text().splitlines()) == 2)
    port = listening.read_text().splitlines()[0]
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            page = next(each for each in await answer.json() if each["type"] == "page")
        async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            found = Tab(socket)
            await found.call("Page.enable")
            yield found


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_axe_finds_no_violation_and_no_page_is_wider_than_its_screen(
    dashboard: Dashboard, tab: Tab, axe: str, scheme: str
) -> None:
    await tab.call("Network.setCookie", name=cookie_name(TOKEN), value=TOKEN, url=dashboard.address)
    await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    problems = []
    for path, width in itertools.product(PAGES, WIDTHS):
        await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        await tab.open(dashboard.address + path)
        assert await tab.value("document.querySelector('h1') !== null"), path
        await tab.value(axe)
        for found in json.loads(await tab.value(AXE)):
            problems += [(path, width, found["id"], node["html"], node["failureSummary"]) for node in found["nodes"]]
        if await tab.value(WIDER):
            problems.append((path, width, "wider than the screen", "", ""))
    assert problems == [], "\n".join(map(str, problems))


async def test_axe_finds_what_is_wrong(tab: Tab, axe: str, tmp_path: Path) -> None:
    """Otherwise an empty list of violations would say nothing."""
    page = tmp_path / "page.html"
    page.write_text("<html><body><img src=x><input><p style='color:#ccc;background:#fff'>pale</p></body></html>")
    await tab.open(page.as_uri())
    await tab.value(axe)
    found = {each["id"] for each in json.loads(await tab.value(AXE))}
    assert {"html-has-lang", "image-alt", "label", "color-contrast"} <= found
