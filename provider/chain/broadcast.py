"""Broadcast: one serial queue per key up to the node's mempool, then each transaction waits for its block (chain.md
§10).

A caller asks for messages in a block and gets the outcome of these messages alone, whatever shares their transaction.
While one transaction is simulated and sent, intents of one kind gather and share the next: bids of one block cost one
or two transactions, and several transactions are pending with consecutive sequences (a node accepted 240 of them, in
order, in one block: recordings/chain README, "Measured"). Only the key is cosmpy's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from provider.chain.connection import AskHead, NodeClient
from provider.chain.keys import SigningKey
from provider.chain.tx.inclusion import Included
from provider.chain.tx.intents import Intent, earlier_intent, intent_of
from provider.chain.tx.journal import Fate, Journal, MemoryJournal, SentTx
from provider.chain.tx.outbox import Outbox
from provider.chain.tx.outcomes import deliver_outcome
from provider.chain.tx.pending_transactions import PendingTransaction, PendingTransactions
from provider.chain.tx.policy import Policy
from provider.chain.tx.queue import IntentQueue
from provider.errors import ChainError, NotSent
from provider.protocols import Clock
from provider.protocols.chain import Message, TxResult
from provider.waits import wait_for_event

__all__ = ["Broadcaster"]

_log = structlog.get_logger(__name__)
_RETRY_S = 1.0
_CLOSE_S = 2.0


class Broadcaster:
    """Sends for one key. It starts with the first call of `broadcast`; `close` it at the end."""

    def __init__(
        self,
        node: NodeClient,
        key: SigningKey,
        *,
        head: AskHead,
        clock: Clock,
        policy: Policy,
        journal: Journal | None = None,
    ) -> None:
        self._node = node
        self._clock = clock
        self._policy = policy
        kept = MemoryJournal() if journal is None else journal
        self._outbox = Outbox(node, key, head=head, clock=clock, policy=policy, journal=kept, requeue=self._requeue)
        self._queue = IntentQueue()
        self._intents: dict[str, Intent] = {}
        self._changed = asyncio.Event()
        self._pending = PendingTransactions(
            node,
            head=head,
            clock=clock,
            ended=self._ended,
            freed=self._changed.set,
            window=policy.timeout_blocks,
        )
        self._worker: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def outbox(self) -> Outbox:
        return self._outbox

    @property
    def shared_key(self) -> int:
        """How often another sender with the same key was noticed."""
        return self._outbox.account.shared

    @property
    def fee_problem(self) -> str:
        """Why the last transaction was not signed because of its gas or fee; empty when it was."""
        return self._outbox.problem

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        """Send `messages` and wait until they are in a block with code 0; the result holds this caller's share of gas
        and fee.

        Raises `TxRefused` when the chain refuses them, `NotSent` when nothing was sent, and plain `ChainError` when the
        outcome is not known within the time limit: the same call then waits for the pending transaction.
        """
        try:
            requested = intent_of(messages)
        except ValueError as error:
            raise NotSent(self._node.address, str(error)) from error
        intent = self._intents.setdefault(requested.key, requested)
        if intent is requested:
            self._queue.add(intent)
            self._changed.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="transactions")
        return await self._outcome(intent)

    async def close(self) -> None:
        """Stop. A transaction that is being sent has two seconds to get there; the journal knows those that
        were sent.
        """
        self._closing = True
        self._changed.set()
        if self._worker is not None:
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(self._worker, _CLOSE_S)
            self._worker = None
        await self._pending.close()

    async def _outcome(self, intent: Intent) -> TxResult:
        intent.waiters += 1
        try:
            await self._wait_for_outcome(intent)
        finally:
            intent.waiters -= 1
            if not intent.waiters and intent in self._queue:
                self._queue.discard(intent)  # no caller waits for it any more, and it was never sent
                intent.finish(NotSent(self._node.address, "given up before it was sent"))
            self._drop_if_done(intent)
        if isinstance(intent.outcome, TxResult):
            return intent.outcome
        if intent.outcome is not None:
            raise intent.outcome
        raise ChainError(
            self._node.address,
            f"transaction {intent.tx_hash} was accepted but is in no block after {self._policy.timeout_s:g} s; it is "
            "looked up until its last height has passed, and nothing in it is sent again before",
        )

    async def _wait_for_outcome(self, intent: Intent) -> None:
        await wait_for_event(intent.done, clock=self._clock, seconds=self._policy.timeout_s)

    async def _work(self) -> None:
        await self._resume_earlier()
        while not self._closing:
            batch = self._next()
            if batch:
                await self._send(batch)
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _resume_earlier(self) -> None:
        """Watch the transactions of an earlier process first: nothing in them may be sent a second time."""
        found: Sequence[SentTx] = ()
        while not self._closing:
            try:
                found = await self._outbox.unknown()
                break
            except ChainError as error:
                _log.warning("chain.nothing_sent_yet", problem=str(error))
                await self._clock.sleep(_RETRY_S)
        for tx in found:
            intents = tuple(self._adopt(earlier_intent(key, tx_hash=tx.hash)) for key in tx.keys)
            _log.info("chain.transaction_resumed", hash=tx.hash, timeout_height=tx.timeout_height)
            self._pending.watch(PendingTransaction(tx, intents))

    def _adopt(self, earlier: Intent) -> Intent:
        """The intent that gets the outcome of `earlier`: the queued one of the same key, which then needs no sending,
        else `earlier` itself.
        """
        queued = self._intents.get(earlier.key)
        if queued is None:
            self._intents[earlier.key] = earlier
            return earlier
        self._queue.discard(queued)
        return queued

    def _next(self) -> tuple[Intent, ...]:
        most = 1 if self._outbox.account.careful else self._policy.max_pending
        if len(self._pending) >= most:
            return ()
        return self._queue.take(settling=self._pending.settling, at_most=self._policy.batch)

    async def _send(self, batch: tuple[Intent, ...]) -> None:
        problem: Exception | None = None
        try:
            await self._outbox.send(batch, self._pending)
        except ChainError as error:
            problem = error if isinstance(error, NotSent) else NotSent(error.address, error.problem)
            problem.__cause__ = error if problem is not error else error.__cause__
        except Exception as error:
            _log.exception("chain.sending_failed")
            problem = NotSent(self._node.address, f"a defect of this program: {error!r}")
        for intent in batch:
            if not intent.done.is_set() and not intent.tx_hash and intent not in self._queue:
                intent.finish(problem or NotSent(self._node.address, "the transaction was sent without it"))
            self._drop_if_done(intent)

    async def _ended(self, pending: PendingTransaction, included: Included | None) -> None:
        fate = deliver_outcome(pending, included, address=self._node.address, requeue=self._requeue)
        if fate is Fate.DONE:
            self._outbox.account.careful = False
        elif fate is Fate.LAPSED:
            self._outbox.account.forget()
        for intent in pending.intents:
            self._drop_if_done(intent)
        self._changed.set()
        await self._outbox.ended(pending, fate, height=included.height if included else 0)

    def _drop_if_done(self, intent: Intent) -> None:
        """Several callers may get this far; by then another intent of the same key can be there."""
        if intent.done.is_set() and self._intents.get(intent.key) is intent:
            del self._intents[intent.key]

    def _requeue(self, intent: Intent) -> None:
        intent.tx_hash = ""
        self._queue.put_back(intent)
