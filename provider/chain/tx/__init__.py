"""Transactions: what callers want in a block, in which order it is sent, what it may cost and how it ended
(chain.md §10).
"""

__all__: list[str] = []
