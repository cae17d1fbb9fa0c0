"""One batch, from intents to a transaction that a node has taken: simulate, price, sign, write down, submit."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import structlog

from provider.chain.keys import SigningKey
from provider.chain.rpc import RpcError
from provider.chain.tx.account import Account
from provider.chain.tx.budget import affordable
from provider.chain.tx.flights import Flight, Flights
from provider.chain.tx.inclusion import find
from provider.chain.tx.intents import Intent
from provider.chain.tx.journal import Fate, Journal, SentTx
from provider.chain.tx.node import AskHead, Node
from provider.chain.tx.policy import Policy
from provider.chain.tx.refusals import mempool_full, out_of_gas, too_late, wrong_sequence
from provider.chain.tx.remedies import clear_refusal
from provider.chain.tx.signing import Terms, signed, unsigned
from provider.chain.tx.simulation import Priced, passing, simulate
from provider.chain.tx.submission import Answer, submit
from provider.errors import CatchingUp, NotSent, StoreError, TxRefused
from provider.protocols import Clock
from provider.protocols.chain import Head, Message

__all__ = ["Outbox"]

_log = structlog.get_logger(__name__)
_TRIES = 4
_FULL_PAUSE_SECONDS = 0.25
_SIMULATED_GAS = 10_000_000
"""Stands in a simulation for the gas to come, so that the bytes are as many."""
_T = TypeVar("_T")


class Outbox:
    """Sends for one key. One batch at a time; who calls sees to that."""

    def __init__(
        self, node: Node, key: SigningKey, *, head: AskHead, clock: Clock, policy: Policy, journal: Journal
    ) -> None:
        self._node = node
        self._key = key
        self._ask_head = head
        self._clock = clock
        self._policy = policy
        self._journal = journal
        self.account = Account(node, key.address, denom=policy.fees.price.denom)

    async def unknown(self) -> Sequence[SentTx]:
        """What a process before us sent and saw no end of. Raises `ChainError`."""
        return await self._kept(self._journal.unknown(self._signer(await self._ask_head())))

    async def ended(self, flight: Flight, fate: Fate, *, height: int = 0) -> None:
        """Write down what became of it. A store that fails costs a look at the next start, nothing else."""
        try:
            await self._journal.end(flight.tx.hash, fate, height=height)
        except StoreError as error:
            _log.warning("chain.fate_not_kept", hash=flight.tx.hash, fate=fate.value, problem=str(error))

    async def send(self, batch: tuple[Intent, ...], flights: Flights) -> None:
        """What fails is told to its own intents; the others are in `flights` when this returns. Raises `ChainError`
        for what concerns all that are neither finished nor in a flight.
        """
        head = await self._head()

        async def ask(messages: Sequence[Message]) -> int:
            return await self._gas_used(messages, head, flights)

        for priced in await passing(batch, ask=ask, refuse=self._refuse):
            within = await self._within_budget(priced, head)
            if len(within) == len(priced.intents):
                await self._dispatch(priced, head, flights)
            elif within:
                await self.send(within, flights)

    async def _head(self) -> Head:
        head = await self._ask_head()
        if head.catching_up:
            text = f"is catching up at height {head.height}; nothing is sent through it"
            raise CatchingUp(self._node.address, text)
        return head

    async def _refuse(self, intent: Intent, refusal: TxRefused) -> None:
        terms = self._policy, self._key.address
        intent.finish(await clear_refusal(self._node, refusal, intent, policy=terms[0], signer=terms[1]))

    async def _gas_used(self, messages: Sequence[Message], head: Head, flights: Flights) -> int:
        for attempt in range(1, _TRIES + 1):
            terms = self._terms(await self.account.ready(), head, gas=_SIMULATED_GAS)
            try:
                return await simulate(self._node, unsigned(self._key, messages, terms))
            except TxRefused as refusal:
                if not wrong_sequence(refusal) or attempt == _TRIES:
                    raise
                await self.account.repair(refusal, unknown=flights.any_unsure)
        raise AssertionError("unreachable")

    def _terms(self, sequence: int, head: Head, *, gas: int) -> Terms:
        fees = self._policy.fees
        return Terms(
            sequence=sequence,
            timeout_height=head.height + self._policy.timeout_blocks,
            gas=gas,
            fee=fees.fee(gas),
            denom=fees.price.denom,
            granter=self._policy.granter,
        )

    async def _within_budget(self, priced: Priced, head: Head) -> tuple[Intent, ...]:
        fees = self._policy.fees
        asked = affordable(
            priced.intents,
            fee=fees.fee(fees.gas(priced.gas_used, factor=priced.gas_factor)),
            denom=fees.price.denom,
            budget=self._policy.fee_budget,
            journal=self._journal,
            account=self._signer(head),
            now=self._clock.now(),
        )
        return await self._kept(asked)

    async def _dispatch(self, priced: Priced, head: Head, flights: Flights) -> None:
        """Again with what a refusal teaches: another sequence, a later height, more gas, a pause."""
        factor = priced.gas_factor
        for attempt in range(1, _TRIES + 1):
            gas = self._policy.fees.gas(priced.gas_used, factor=factor)
            terms = self._terms(await self.account.ready(), head, gas=gas)
            try:
                return await self._put_out(priced, terms, head, flights)
            except RpcError as refusal:
                if attempt == _TRIES or not mempool_full(refusal):
                    raise NotSent(self._node.address, f"takes no transaction: {refusal.text}") from refusal
                await self._clock.sleep(_FULL_PAUSE_SECONDS * 2**attempt)
            except TxRefused as refusal:
                if attempt == _TRIES or not await self._learn(refusal, attempt, flights):
                    for intent in priced.intents:
                        await self._refuse(intent, refusal)
                    return None
                factor *= 2 if out_of_gas(refusal) else 1
                head = await self._head()
        return None

    async def _learn(self, refusal: TxRefused, attempt: int, flights: Flights) -> bool:
        """Whether it is worth another try."""
        if wrong_sequence(refusal):
            await self.account.repair(refusal, unknown=flights.any_unsure)
            return True
        if mempool_full(refusal):
            await self._clock.sleep(_FULL_PAUSE_SECONDS * 2**attempt)
            return True
        return too_late(refusal) or out_of_gas(refusal)

    async def _put_out(self, priced: Priced, terms: Terms, head: Head, flights: Flights) -> None:
        """Written down before it is sent, so that a crash at any line leaves no transaction that nobody looks up."""
        raw = signed(self._key, priced.messages, terms, chain_id=head.chain_id, number=self.account.number)
        flight = Flight(self._sent(priced, terms, head, raw), priced.intents, raw)
        await self._kept(self._journal.begin(flight.tx))
        try:
            answer = await submit(self._node, raw)
        except (TxRefused, RpcError) as refusal:
            if not (isinstance(refusal, TxRefused) and await self._in_a_block(refusal, flight)):
                await self.ended(flight, Fate.REFUSED)
                raise
            answer = Answer.TAKEN
        flight.taken = answer is Answer.TAKEN
        if flight.taken:
            self.account.took()
        else:
            self.account.forget()
        flights.launch(flight)

    async def _in_a_block(self, refusal: TxRefused, flight: Flight) -> bool:
        """A sequence that is used up may have been used by this very transaction, when an answer got lost."""
        return wrong_sequence(refusal) and await find(self._node, flight.tx.hash) is not None

    def _sent(self, priced: Priced, terms: Terms, head: Head, raw: bytes) -> SentTx:
        return SentTx(
            hash=hashlib.sha256(raw).hexdigest().upper(),
            account=self._signer(head),
            keys=tuple(intent.key for intent in priced.intents),
            settles=tuple(sorted(name for intent in priced.intents for name in intent.settles)),
            fee=terms.fee,
            denom=terms.denom,
            timeout_height=terms.timeout_height,
            sent_at=self._clock.now(),
        )

    def _signer(self, head: Head) -> str:
        return f"{head.chain_id}/{self._key.address}"

    async def _kept(self, work: Awaitable[_T]) -> _T:
        """What cannot be remembered is not sent: after a crash nobody would look it up."""
        try:
            return await work
        except StoreError as error:
            raise NotSent(self._node.address, f"nothing is sent that cannot be written down: {error}") from error
