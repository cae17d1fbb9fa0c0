"""The errors of the tenant."""

from __future__ import annotations

from devnet.errors import DevnetError

__all__ = ["ChainRefused"]


class ChainRefused(DevnetError):
    """The chain refused a transaction. The text has the chain's message and, if one is known, a remedy."""

    def __init__(self, log: str) -> None:
        super().__init__(f"the chain refused: {log}{_remedy(log)}")
        self.log = log


def _remedy(log: str) -> str:
    if "denom" in log or "denonim" in log or "deposit" in log.lower():  # "multi-denonimation" is the chain's spelling
        return (
            "\nGroups must be priced in uact on this chain. Change the SDL, "
            "or let `make demo DENOM=uact SDL=…` rewrite its prices."
        )
    if "insufficient" in log:
        return "\nThe balance of the tenant's account is too low; the devnet gives each role 1,000,000,000 uact."
    return ""
