"""Refusals of the gateway (gateway.md §2.5, §3.1)."""

from __future__ import annotations

from provider.errors import ProviderError

__all__ = ["AuthError", "GatewayError", "RequestError"]


class GatewayError(ProviderError):
    """A refusal with its HTTP status. The text is for the caller and names nothing internal to the provider.
    `retry_after_s`: when a client may try again, 0 to say nothing about it.
    """

    def __init__(self, status: int, text: str, *, retry_after_s: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after_s = retry_after_s


class AuthError(GatewayError):
    """Credentials that are malformed, invalid or insufficient; the body is JSON `{"message": …}`."""


class RequestError(GatewayError):
    """Any other refusal; the body is plain text and a newline, empty for an empty text."""
