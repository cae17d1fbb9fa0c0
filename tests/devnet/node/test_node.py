"""The start of a real node waits for a busy API server, and names what keeps the node from starting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devnet.controlplane.api import ApiError
from devnet.controlplane.certificates import make_certificates
from devnet.errors import EnclosureFailed
from devnet.node import node as module
from devnet.node.edges import EdgeKind
from devnet.node.node import RealNode


def refused(status: int) -> ApiError:
    return ApiError("PATCH", "/x", status=status, text="the reason")


class Answers:
    """An API server that gives these answers, then accepts everything; `None` is consent. Counts the requests."""

    def __init__(self, answers: Sequence[Exception | None]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def apply(self, each: Any) -> None:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    delete = apply


@pytest.fixture
def node(tmp_path: Path) -> Callable[..., RealNode]:
    make_certificates(tmp_path / "pki", None)
    plane = SimpleNamespace(api_server="https://127.0.0.1:1", data=tmp_path)

    def made(*answers: Exception | None) -> RealNode:
        found = RealNode(tmp_path, plane, SimpleNamespace())  # type: ignore[arg-type]
        found.api = Answers(answers)  # type: ignore[assignment]
        return found

    return made


@pytest.mark.parametrize("trouble", [refused(503), refused(404), refused(500), TimeoutError("timed out"), OSError()])
def test_an_edge_comes_up_although_the_api_server_is_busy_at_first(
    node: Callable[..., RealNode], trouble: Exception
) -> None:
    quiet, busy = node(), node(trouble, trouble, None, trouble)
    for each in (quiet, busy):
        each.change_edge(EdgeKind.OWN, SimpleNamespace())  # type: ignore[arg-type]
    assert busy.api.asked == quiet.api.asked + 3, "each request that failed is sent again, no other"  # type: ignore[attr-defined]


def test_a_refusal_for_good_is_named_at_once(node: Callable[..., RealNode]) -> None:
    found = node(None, None, refused(422))
    with pytest.raises(
        EnclosureFailed, match=r"consent to Namespace ingress-nginx did not come \(ApiError.*422 the reason"
    ):
        found.change_edge(EdgeKind.OWN, SimpleNamespace())  # type: ignore[arg-type]
    assert found.api.asked == 3  # type: ignore[attr-defined]


def test_what_a_busy_api_server_said_last_is_named_in_the_end(
    node: Callable[..., RealNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READY_S", 0.2)
    found = node(*[refused(503)] * 1000)
    with pytest.raises(EnclosureFailed, match=r"did not come within 0 s \(ApiError: .*503 the reason\); logs: "):
        found.change_edge(EdgeKind.OWN, SimpleNamespace())  # type: ignore[arg-type]
