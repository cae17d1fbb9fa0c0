"""What the gateway answers when it does not do what was asked (gateway.md §2.5, §3.1)."""

from __future__ import annotations

from provider.errors import ProviderError

__all__ = ["AuthError", "GatewayError", "RequestError"]


class GatewayError(ProviderError):
    """A refusal with its HTTP status; the text is for the caller and never names anything inside the provider."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class AuthError(GatewayError):
    """Credentials that are malformed, wrong or not enough: answered as JSON `{"message": …}`."""


class RequestError(GatewayError):
    """Any other refusal: plain text and a newline; an empty text is an empty body."""
