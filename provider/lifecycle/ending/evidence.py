"""The evidence of an end that one node cannot make up (docs/architecture.md §2, rule 1).

Two answers at two heights prove an end to this provider, and one lying node can give both for every lease, with faked
events beside them. So before anything is removed, the end needs one thing more: a transaction that the owner or this
provider signed, our own arithmetic of the escrow, or a second named node that agrees. Without it the brake decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import structlog

from lease.ids import LeaseId
from provider.errors import ChainError
from provider.protocols import Chain
from provider.protocols.chain import Lease, LeaseAnswer, LeaseState

__all__ = ["Evidence", "Finding", "RanOut", "find_evidence"]

_log = structlog.get_logger(__name__)

RanOut: TypeAlias = Callable[[LeaseId, int], bool]
"""Whether this provider's own arithmetic says that the escrow of a lease ran out by a height."""


class Finding(StrEnum):
    EVIDENCE = "evidence"
    NONE = "none"
    CONTRADICTED = "contradicted"
    """Another named node calls the lease alive at a height at which it is said to have ended."""
    UNANSWERED = "unanswered"
    """Several nodes are named, and no second one can say anything now."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`text` says what was found, for the log and for an operator."""

    finding: Finding
    text: str


async def find_evidence(chain: Chain, lease: Lease, *, chain_id: str, ran_out: RanOut) -> Evidence:
    """What there is beside one node's answers that `lease`, which those answers call ended, has ended. Raises
    `ChainError` when several nodes are named and none answers.
    """
    if lease.state is LeaseState.INSUFFICIENT_FUNDS and ran_out(lease.id, lease.closed_on):
        return Evidence(Finding.EVIDENCE, "by this provider's own arithmetic its escrow has run out")
    if signer := await _signer(chain, lease):
        return Evidence(Finding.EVIDENCE, f"{signer} signed its end in block {lease.closed_on}")
    return _compare(lease, await chain.lease_on_each_node(lease.id), chain_id=chain_id)


async def _signer(chain: Chain, lease: Lease) -> str:
    try:
        signer = await chain.end_signer(lease)
    except ChainError as error:
        _log.warning("lifecycle.end_block_unreadable", lease=str(lease.id), problem=str(error))
        return ""
    return signer if signer in (lease.id.owner, lease.id.provider) else ""


def _compare(lease: Lease, answers: Sequence[LeaseAnswer], *, chain_id: str) -> Evidence:
    """Two nodes that agree are evidence; one that says the contrary at the same height or later is a contradiction. An
    older height, another chain and "not known" say nothing.
    """
    if not answers:
        return Evidence(Finding.NONE, "one node only is named")
    answered = [(answer, answer.lease) for answer in answers if answer.chain_id == chain_id]
    found = [(answer, known) for answer, known in answered if known is not None and known.id == lease.id]
    ended = sorted({answer.node for answer, known in found if known.state.ended})
    alive = sorted({a.node for a, known in found if not known.state.ended and a.height >= lease.closed_on})
    if alive:
        return Evidence(Finding.CONTRADICTED, f"{', '.join(alive)} calls the lease alive")
    if len(ended) > 1:
        return Evidence(Finding.EVIDENCE, f"{len(ended)} nodes agree: {', '.join(ended)}")
    return Evidence(Finding.UNANSWERED, "no second node of AP_NODE can confirm it now")
