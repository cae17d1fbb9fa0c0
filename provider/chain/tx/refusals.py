"""The meaning of a node's refusal. Simulation gives no code and modules lose theirs, so texts are read too
(recordings/chain README §1, §5).
"""

from __future__ import annotations

import re

from provider.errors import ChainError, TxRefused

__all__ = [
    "already_known",
    "expected_sequence",
    "failing_message",
    "lacks_funds",
    "mempool_full",
    "out_of_gas",
    "settled_in_this_block",
    "too_late",
    "too_low_fee",
    "wrong_sequence",
]

_SEQUENCE = re.compile(r"account sequence mismatch, expected (\d{1,20}), got (\d{1,20})")
_MESSAGE = re.compile(r"failed to execute message; message index: (\d{1,6}):")
_FUNDS = re.compile(r"insufficient (funds|balance)")


def wrong_sequence(refusal: TxRefused) -> bool:
    return (refusal.codespace, refusal.code) == ("sdk", 32) or _SEQUENCE.search(refusal.log) is not None


def expected_sequence(refusal: TxRefused) -> int | None:
    """The sequence that the node expects, its mempool included; None when the refusal names none."""
    found = _SEQUENCE.search(refusal.log)
    return int(found[1]) if found else None


def failing_message(refusal: TxRefused) -> int | None:
    """Index of the message that failed; None for a panic and for a refusal before any message runs."""
    found = _MESSAGE.search(refusal.log)
    return int(found[1]) if found else None


def out_of_gas(refusal: TxRefused) -> bool:
    return (refusal.codespace, refusal.code) == ("sdk", 11)


def too_low_fee(refusal: TxRefused) -> bool:
    return (refusal.codespace, refusal.code) == ("sdk", 13)


def too_late(refusal: TxRefused) -> bool:
    return (refusal.codespace, refusal.code) == ("sdk", 30) or "tx timeout height" in refusal.log


def lacks_funds(refusal: TxRefused) -> bool:
    return (refusal.codespace, refusal.code) == ("sdk", 5) or _FUNDS.search(refusal.log) is not None


def mempool_full(problem: ChainError) -> bool:
    """Whether the mempool is full: CometBFT reports an error of the call, the SDK code 20."""
    if isinstance(problem, TxRefused):
        return (problem.codespace, problem.code) == ("sdk", 20)
    return "mempool is full" in str(problem)


def already_known(problem: ChainError) -> bool:
    """Whether these very bytes are in the node's mempool, or were in a block (recordings/chain README §7)."""
    if isinstance(problem, TxRefused):
        return (problem.codespace, problem.code) == ("sdk", 19)
    return "tx already exists in cache" in str(problem)


def settled_in_this_block(refusal: TxRefused) -> bool:
    """Whether the escrow was settled at the very height of the simulation, so that the payment is not found
    (recordings/chain README §2–3).
    """
    return "couldn't find payment" in refusal.log
