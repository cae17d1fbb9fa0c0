"""What anybody may ask for costs a few calls a request: a burst of such requests must not stop the loop."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from provider.gateway.auth.claims import ANONYMOUS
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.gateway.rest.go_response import GoResponse
from provider.gateway.rest.public_routes import public_routes
from provider.gateway.rest.routes import Call, Handler
from tests.provider.gateway.world import new_world
from tests.world.work import calls_of

_MOST_CALLS = 60


class _Known:
    """The handlers over a status and a version document that change only when a test says so."""

    def __init__(self, folder: Path) -> None:
        amounts = Amounts(1000, 0, 1 << 30, 1 << 30)
        nodes = tuple(NodeAmounts(f"node-{number}", amounts, amounts) for number in range(50))
        self.status, self.kube = ProviderStatus(nodes=nodes), {"major": "1", "minor": "36"}
        routes = public_routes(new_world(folder).config, self._status, self._version)
        self.handlers: dict[str, Handler] = {route.pattern: route.handler for route in routes}

    async def _status(self) -> ProviderStatus:
        return self.status

    async def _version(self) -> dict[str, str]:
        return self.kube

    def get(self, path: str) -> GoResponse:
        call = Call(None, ANONYMOUS, None, {})  # type: ignore[arg-type]
        answer = _result(self.handlers[path](call))  # type: ignore[arg-type]
        assert isinstance(answer, GoResponse)
        return answer


def _result(running: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that waits for nothing, so that its calls can be counted."""
    with pytest.raises(StopIteration) as ended:
        running.send(None)
    return ended.value.value


@pytest.mark.parametrize("path", ["/version", "/address", "/status"])
def test_an_answer_to_anybody_is_made_once_and_sent_again_with_a_few_calls(path: str, tmp_path: Path) -> None:
    known = _Known(tmp_path)
    first = known.get(path)
    calls, again = calls_of(lambda: known.get(path))
    assert calls < _MOST_CALLS
    assert again is not first and again.whole(True).split(b"\r\n\r\n")[1] == first.whole(True).split(b"\r\n\r\n")[1]


def test_the_version_of_another_api_server_is_answered_at_once(tmp_path: Path) -> None:
    known = _Known(tmp_path)
    known.get("/version")
    known.kube = {"major": "1", "minor": "37"}
    assert json.loads(known.get("/version").content)["kube"] == known.kube
