"""Transactions: what is wanted, in which order it is sent, what it may cost, and what became of it (chain.md §10)."""

__all__: list[str] = []
