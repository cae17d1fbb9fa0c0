"""Transactions: one serial queue a key up to the node's mempool, then each waits for its own block (chain.md §10).

Callers say what they want in a block and get the outcome of that alone, whatever travels with it. Gas, sequence,
sending and waiting are ours; only the key is cosmpy's. While one transaction is simulated and sent, wishes of one kind
gather and share the next: bids of one block cost one or two transactions, and several are in flight with consecutive
sequences (a node took 240 of them, in order, in one block: recordings/chain README, "Measured").
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from provider.chain.keys import SigningKey
from provider.chain.tx.flights import Flight, Flights
from provider.chain.tx.inclusion import Included
from provider.chain.tx.intents import Intent, intent_of, unknown_intent
from provider.chain.tx.journal import Fate, Journal, MemoryJournal, SentTx
from provider.chain.tx.landing import land
from provider.chain.tx.node import AskHead, Node
from provider.chain.tx.outbox import Outbox
from provider.chain.tx.policy import Policy
from provider.chain.tx.queue import Waiting
from provider.errors import ChainError, NotSent
from provider.protocols import Clock
from provider.protocols.chain import Message, TxResult

__all__ = ["Broadcaster"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 1.0
_CLOSE_SECONDS = 2.0


class Broadcaster:
    """Sends for one key. It starts with the first wish; `close` it at the end."""

    def __init__(
        self,
        node: Node,
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
        self._outbox = Outbox(node, key, head=head, clock=clock, policy=policy, journal=kept)
        self._flights = Flights(node, head=head, clock=clock, ended=self._ended, window=policy.timeout_blocks)
        self._waiting = Waiting()
        self._wishes: dict[str, Intent] = {}
        self._changed = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def shared_key(self) -> int:
        """How often somebody else was seen sending with our key."""
        return self._outbox.account.shared

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        """Until it is in a block with code 0; gas and fee are this caller's share.

        Raises `TxRefused` when the chain says no, `NotSent` when nothing happened, and plain `ChainError` when it is
        sent and its end not known within the time limit: then the same wish joins the one on its way.
        """
        try:
            wish = intent_of(messages)
        except ValueError as error:
            raise NotSent(self._node.address, str(error)) from error
        intent = self._wishes.setdefault(wish.key, wish)
        if intent is wish:
            self._waiting.add(intent)
            self._changed.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="transactions")
        return await self._outcome(intent)

    async def close(self) -> None:
        """Stop watching; what is being sent is finished if it takes no longer than a moment. What was sent stays sent:
        the journal knows it.
        """
        self._closing = True
        self._changed.set()
        if self._worker is not None:
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(self._worker, _CLOSE_SECONDS)
            self._worker = None
        await self._flights.close()

    async def _outcome(self, intent: Intent) -> TxResult:
        intent.waiters += 1
        try:
            await self._done_or_late(intent)
        finally:
            intent.waiters -= 1
            if not intent.waiters and intent in self._waiting:
                self._waiting.discard(intent)  # nobody wants it any more, and it was never sent
                intent.finish(NotSent(self._node.address, "given up before it was sent"))
            self._fulfilled(intent)
        if isinstance(intent.outcome, TxResult):
            return intent.outcome
        if intent.outcome is not None:
            raise intent.outcome
        raise ChainError(
            self._node.address,
            f"transaction {intent.flight} was accepted but is in no block after {self._policy.timeout_s:g} s; it is "
            "looked up until its last height has passed, and nothing in it is sent again before",
        )

    async def _done_or_late(self, intent: Intent) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(self._policy.timeout_s))
        waiter = asyncio.ensure_future(intent.done.wait())
        try:
            await asyncio.wait((timer, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiter.cancel()

    async def _work(self) -> None:
        await self._take_up_unknown()
        while not self._closing:
            batch = self._next()
            if batch:
                await self._send(batch)
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _take_up_unknown(self) -> None:
        """Those of the process before us come first: nothing of theirs may be sent a second time."""
        found: Sequence[SentTx] = ()
        while not self._closing:
            try:
                found = await self._outbox.unknown()
                break
            except ChainError as error:
                _log.warning("chain.nothing_sent_yet", problem=str(error))
                await self._clock.sleep(_RETRY_SECONDS)
        for tx in found:
            intents = tuple(self._take_up(unknown_intent(key, flight=tx.hash)) for key in tx.keys)
            _log.info("chain.transaction_taken_up", hash=tx.hash, timeout_height=tx.timeout_height)
            self._flights.launch(Flight(tx, intents))

    def _take_up(self, intent: Intent) -> Intent:
        """A wish that is waiting already waits for this one's end instead."""
        wished = self._wishes.get(intent.key)
        if wished is None:
            self._wishes[intent.key] = intent
            return intent
        self._waiting.discard(wished)
        return wished

    def _next(self) -> tuple[Intent, ...]:
        most = 1 if self._outbox.account.careful else self._policy.in_flight
        if len(self._flights) >= most:
            return ()
        return self._waiting.take(settling=self._flights.settling, at_most=self._policy.batch)

    async def _send(self, batch: tuple[Intent, ...]) -> None:
        problem: Exception | None = None
        try:
            await self._outbox.send(batch, self._flights)
        except ChainError as error:
            problem = error if isinstance(error, NotSent) else NotSent(error.address, error.problem)
            problem.__cause__ = error if problem is not error else error.__cause__
        except Exception as error:
            _log.exception("chain.sending_failed")
            problem = NotSent(self._node.address, f"a defect of ours: {error!r}")
        for intent in batch:
            if not intent.done.is_set() and not intent.flight:
                intent.finish(problem or NotSent(self._node.address, "it was left behind"))
            self._fulfilled(intent)

    async def _ended(self, flight: Flight, included: Included | None) -> None:
        fate = land(flight, included, address=self._node.address, again=self._again)
        if fate is Fate.DONE:
            self._outbox.account.careful = False
        elif fate is Fate.LAPSED:
            self._outbox.account.forget()
        for intent in flight.intents:
            self._fulfilled(intent)
        self._changed.set()
        await self._outbox.ended(flight, fate, height=included.height if included else 0)

    def _fulfilled(self, intent: Intent) -> None:
        """Several may hear of its end; by then the next wish of the same key can be there."""
        if intent.done.is_set() and self._wishes.get(intent.key) is intent:
            del self._wishes[intent.key]

    def _again(self, intent: Intent) -> None:
        intent.flight = ""
        self._waiting.put_back(intent)
