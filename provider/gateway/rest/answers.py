"""Responses, byte for byte as the Go provider's (gateway.md §3.1)."""

from __future__ import annotations

from typing import Any

from lease.go_json import go_json
from provider.gateway.auth.certificates import CertificateRefusedError
from provider.gateway.errors import AuthError, GatewayError
from provider.gateway.rest.go_response import GoResponse

__all__ = ["compact_answer", "empty", "json_answer", "refusal", "refused_client", "text_error"]


def json_answer(value: Any) -> GoResponse:
    """Status 200 with a JSON document."""
    return _json(200, go_json(value), "application/json; charset=UTF-8")


def compact_answer(value: Any) -> GoResponse:
    """Status 200 with a JSON document, with the content type of the migration routes."""
    return _json(200, go_json(value), "application/json")


def text_error(status: int, text: str) -> GoResponse:
    """A plain-text error; an empty text is an empty body without a type."""
    if not text:
        return empty(status)
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    return GoResponse(status, f"{text}\n".encode(errors="replace"), headers)


def empty(status: int, **headers: str) -> GoResponse:
    """No body and no content type."""
    return GoResponse(status, headers=headers)


def refusal(error: GatewayError) -> GoResponse:
    """The response for a gateway error."""
    if isinstance(error, AuthError):
        answer = _json(error.status, go_json({"message": error.text}), "application/json")
    else:
        answer = text_error(error.status, error.text)
    if error.retry_after_s:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


def refused_client(error: GatewayError) -> bytes:
    """The whole response to the first request of a client whose certificate is refused. The connection ends with it."""
    advice = error.advice if isinstance(error, CertificateRefusedError) else ""
    text = ": ".join(filter(None, (error.text, advice)))
    answer = _json(error.status, go_json({"message": text}), "application/json")
    if error.retry_after_s:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    answer.force_close()
    return answer.whole(newest=True)


def _json(status: int, text: str, content_type: str) -> GoResponse:
    return GoResponse(status, text.encode(errors="replace"), {"Content-Type": content_type})
