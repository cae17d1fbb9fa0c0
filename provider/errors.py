"""The errors of the provider. Each one names what was wrong, the value, and the remedy."""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "BackupError",
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
    "ProviderUnreachable",
    "SettingsError",
    "StoreError",
    "TxRefused",
    "WrongChain",
]

_PASSING = frozenset({0, 408, 409, 429, 502, 503, 504})
_FAILED = 500


class ProviderError(Exception):
    """The base of all errors that `provider` raises on purpose."""


class ArgumentError(ProviderError):
    """An argument of a command is wrong; the text names the argument and what is allowed."""


class SettingsError(ProviderError):
    """Settings are missing or wrong; each problem names the setting, its value and what is allowed."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class ProviderUnreachable(ProviderError):
    """No provider runs with this home, or it does not answer."""


class BackupError(ProviderError):
    """A backup cannot be written, used, or put in the place of a home; nothing was changed."""


class PricingError(ProviderError):
    """An order has no price, so there is no bid: an unpriced class, a price of zero, or an impossible amount."""


class MarketError(ProviderError):
    """A request about the market cannot be answered now; the text gives the reason."""


class ChainError(ProviderError):
    """The node did not answer, or its answer cannot be used. Never proof that a lease or an order ended."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"chain node {address}: {problem}")
        self.address = address
        self.problem = problem


class WrongChain(ChainError):
    """The node serves another chain than the expected one, so none of its answers counts."""


class NotSent(ChainError):
    """Nothing was sent, or the transaction is proved to be in no block: its messages may be sent again."""


class FeesHeldBack(NotSent):
    """The fee budget of the day does not allow the transaction before `again_at` (Unix seconds)."""

    def __init__(self, problem: str, *, again_at: float) -> None:
        super().__init__("", problem)
        self.args = (problem,)
        self.again_at = again_at


class CatchingUp(NotSent):
    """The node is behind the chain; nothing is sent through it until it has caught up."""


class TxRefused(ChainError):
    """The chain refused a transaction; `codespace` and `code` are those of chain.md §10."""

    def __init__(self, address: str, *, codespace: str, code: int, log: str) -> None:
        super().__init__(address, f"transaction refused ({codespace} {code}): {log}")
        self.codespace = codespace
        self.code = code
        self.log = log


class CannotPay(TxRefused):
    """The account cannot pay the fee or the deposit; `problem` names its balance and the remedy."""

    def __init__(self, refusal: TxRefused, remedy: str) -> None:
        super().__init__(refusal.address, codespace=refusal.codespace, code=refusal.code, log=refusal.log)
        self.problem = f"{remedy} (answer of the chain: {refusal.log})"
        self.args = (f"chain node {refusal.address}: {self.problem}",)


class ClusterError(ProviderError):
    """The API server did not answer, or refused. `status`: the HTTP status, 0 without an answer. `problem` is the
    text without the address.
    """

    def __init__(self, address: str, problem: str, *, status: int = 0) -> None:
        super().__init__(f"Kubernetes API {address}: {problem}")
        self.address = address
        self.problem = problem
        self.status = status

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed a moment later, without anybody's doing: no answer in time, too many
        requests, a server that starts or stops, a change by another at the same moment, etcd without a leader.
        """
        return self.status in _PASSING or (self.status == _FAILED and "etcdserver: " in self.problem)


class Conflict(ClusterError):
    """The object changed since it was read: read it again and decide again."""


class StoreError(ProviderError):
    """The local database does not answer or cannot be read. Chain and cluster are enough to rebuild it."""
