"""Startup: what must be known before the loops start. An unreachable node or cluster only delays the start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from provider.chain.comet import CometChain
from provider.errors import ChainError, ClusterError, WrongChain
from provider.protocols import Clock
from provider.protocols.chain import Head
from provider.store import Database
from provider.store.cursors import last_chain
from provider.waits import GrowingPause

__all__ = ["expected_chain", "insist", "known_chain"]

_log = structlog.get_logger(__name__)
_PAUSE = GrowingPause(first=0.5, longest=15.0)
_NODE_S = 5.0
_T = TypeVar("_T")


async def insist(ask: Callable[[], Awaitable[_T]], *, clock: Clock, event: str) -> _T:
    """The result of `ask`, repeated with growing pauses until it succeeds; each failure is logged as `event`.

    `WrongChain` and errors that are neither of the chain nor of the cluster are raised: waiting does not correct them.
    """
    failures = 0
    while True:
        try:
            return await ask()
        except WrongChain:
            raise
        except (ChainError, ClusterError) as error:
            failures += 1
            pause = _PAUSE.after(failures)
            _log.warning(event, problem=str(error), next_try_s=pause)
            await clock.sleep(pause)


async def known_chain(chain: CometChain, database: Database) -> str:
    """The id of the chain by the setting or from the last run; empty when neither names one."""
    return chain.chain_id or await last_chain(database)


async def expected_chain(chain: CometChain, database: Database, *, clock: Clock) -> str:
    """The id of the chain that this provider belongs to, which `chain` accepts alone from then on.

    When the id is known, by the setting or from the last run, a node that is unreachable or catching up does not delay
    the start: leases are served, and bidding starts when the node is back (field problem F9). Otherwise the first node
    that answers decides.
    """
    known = await known_chain(chain, database)
    chain.expect(known)
    if not known:
        return (await insist(lambda: _caught_up(chain), clock=clock, event="chain.unreachable")).chain_id
    try:
        async with asyncio.timeout(_NODE_S):
            await _caught_up(chain)
    except WrongChain:
        raise
    except (ChainError, TimeoutError) as error:
        problem = str(error) or f"{chain.address} did not answer within {_NODE_S:g} s"
        _log.warning("chain.started_without", chain_id=known, problem=problem)
    return known


async def _caught_up(chain: CometChain) -> Head:
    head = await chain.head()
    if head.catching_up:
        raise ChainError(chain.address, f"is still catching up (height {head.height})")
    _log.info("chain.found", node=chain.address, chain_id=head.chain_id, height=head.height)
    return head
