"""What can go wrong in the provider. Each error says what was wrong, with which value, and what to do."""

from __future__ import annotations

__all__ = [
    "CannotPay",
    "CatchingUp",
    "ChainError",
    "ClusterError",
    "Conflict",
    "FeesHeldBack",
    "MarketError",
    "NotSent",
    "PricingError",
    "ProviderError",
    "SettingsError",
    "StoreError",
    "TxRefused",
    "WrongChain",
]


class ProviderError(Exception):
    """Root of everything `provider` raises on purpose."""


class SettingsError(ProviderError):
    """A setting is missing or wrong; the text names it, its value and what is allowed."""


class PricingError(ProviderError):
    """An order has no price: an unpriced class, nothing to pay, or an amount that cannot be. No price, no bid."""


class MarketError(ProviderError):
    """A question about the market that cannot be answered now; the text says why."""


class ChainError(ProviderError):
    """The node did not answer, or answered what cannot be used. Never a proof that something ended."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"chain node {address}: {problem}")
        self.address = address
        self.problem = problem


class WrongChain(ChainError):
    """The node serves another chain than ours: its every word is about something else."""


class NotSent(ChainError):
    """Nothing was sent, or what was sent is proved to be in no block: it may be sent again."""


class FeesHeldBack(NotSent):
    """The day's fee budget does not allow it now; not before `again_at` (Unix seconds)."""

    def __init__(self, problem: str, *, again_at: float) -> None:
        super().__init__("", problem)
        self.args = (problem,)
        self.again_at = again_at


class CatchingUp(NotSent):
    """The node is behind the chain; nothing is sent through it until it has caught up."""


class TxRefused(ChainError):
    """The chain refused a transaction; `codespace` and `code` as recorded (chain.md §10)."""

    def __init__(self, address: str, *, codespace: str, code: int, log: str) -> None:
        super().__init__(address, f"transaction refused ({codespace} {code}): {log}")
        self.codespace = codespace
        self.code = code
        self.log = log


class CannotPay(TxRefused):
    """The account has too little for the fee or the deposit; `problem` says how much it has and what to do."""

    def __init__(self, refusal: TxRefused, remedy: str) -> None:
        super().__init__(refusal.address, codespace=refusal.codespace, code=refusal.code, log=refusal.log)
        self.problem = f"{remedy} (the chain said: {refusal.log})"
        self.args = (f"chain node {refusal.address}: {self.problem}",)


class ClusterError(ProviderError):
    """The API server did not answer, or refused. `status` is the HTTP status, 0 when nothing came back."""

    def __init__(self, address: str, problem: str, *, status: int = 0) -> None:
        super().__init__(f"Kubernetes API {address}: {problem}")
        self.address = address
        self.status = status


class Conflict(ClusterError):
    """The object changed since it was read; read again and decide anew."""


class StoreError(ProviderError):
    """The local database does not answer, or holds what cannot be read; chain and cluster are enough to rebuild it."""
