"""Why a CA has not issued a certificate."""

from __future__ import annotations

from provider.errors import ProviderError

__all__ = ["NotIssued"]


class NotIssued(ProviderError):
    """`remedy`: what the operator can do. `retry_after_s`: how long the CA demands to be left alone, 0 for nothing."""

    def __init__(self, problem: str, remedy: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.retry_after_s = retry_after_s
