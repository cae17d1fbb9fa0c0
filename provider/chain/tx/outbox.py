"""The way of one batch from intents to a transaction that a node has: simulate, price, sign, write down, submit."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from provider.chain.connection import AskHead, NodeClient
from provider.chain.keys import SigningKey
from provider.chain.rpc import RpcError
from provider.chain.tx.account import SigningAccount, with_remedy
from provider.chain.tx.budget import affordable
from provider.chain.tx.inclusion import find
from provider.chain.tx.intents import Intent
from provider.chain.tx.journal import Fate, Journal, SentTx
from provider.chain.tx.limits import gas_limit, limit_problem, refuse_all
from provider.chain.tx.pending_transactions import PendingTransaction, PendingTransactions
from provider.chain.tx.policy import Policy
from provider.chain.tx.refusals import (
    already_known,
    mempool_full,
    out_of_gas,
    settled_in_this_block,
    too_late,
    wrong_sequence,
)
from provider.chain.tx.signing import Terms, signed, unsigned
from provider.chain.tx.simulation import Priced, passing, simulate
from provider.errors import CatchingUp, ChainError, NotSent, StoreError, TxRefused
from provider.protocols import Clock
from provider.protocols.chain import Head, Message
from provider.waits import GrowingPause

__all__ = ["Outbox"]

_log = structlog.get_logger(__name__)
_RECENT_S = 3600.0
_TRIES = 4
_SETTLED_TRIES = 10
"""So often an intent waits for a higher block because somebody else settled the same deployment in the last one."""
_FULL_MEMPOOL_PAUSE = GrowingPause(first=0.5)
_SIMULATED_GAS = 10_000_000
"""Stands in a simulation for the gas limit, so that the simulated bytes are as many as the sent ones."""
_T = TypeVar("_T")


class Outbox:
    """Sends for one key. The caller sends one batch at a time."""

    def __init__(
        self,
        node: NodeClient,
        key: SigningKey,
        *,
        head: AskHead,
        clock: Clock,
        policy: Policy,
        journal: Journal,
        requeue: Callable[[Intent], None],
    ) -> None:
        self._node = node
        self._key = key
        self._ask_head = head
        self._clock = clock
        self._policy = policy
        self._journal = journal
        self._requeue = requeue
        self._not_signed: tuple[str, float] = ("", 0.0)
        self.account = SigningAccount(node, key.address, denom=policy.fees.price.denom)

    @property
    def problem(self) -> str:
        """Why the last transaction was not signed because of its gas or fee; empty when it was, and after an hour in
        which nothing was to be signed: the cause may have ended.
        """
        text, since = self._not_signed
        return text if self._clock.monotonic() - since < _RECENT_S else ""

    @problem.setter
    def problem(self, text: str) -> None:
        self._not_signed = (text, self._clock.monotonic())

    @property
    def policy(self) -> Policy:
        return self._policy

    def limit_fees(self, *, transaction: int, day: int) -> None:
        """Take other limits for the transactions from now on; 0: no limit."""
        self._policy = replace(self._policy, fee_limit=transaction, fee_budget=day)

    async def unknown(self) -> Sequence[SentTx]:
        """Transactions that an earlier process sent and whose end it did not see. Raises `ChainError`."""
        return await self._kept(self._journal.unknown(self._signer(await self._ask_head())))

    async def ended(self, pending: PendingTransaction, fate: Fate, *, height: int = 0) -> None:
        """Write down how a transaction ended. A store that fails costs one check at the next start, nothing else."""
        try:
            await self._journal.end(pending.tx.hash, fate, height=height)
        except StoreError as error:
            _log.warning("chain.fate_not_kept", hash=pending.tx.hash, fate=fate.value, problem=str(error))

    async def send(self, batch: tuple[Intent, ...], sent: PendingTransactions) -> None:
        """Send the batch. An intent that fails is finished with its own error, one whose deployment was settled in the
        last block is queued again; the others are in `sent` at the end.

        Raises `ChainError` for what concerns all intents that are neither finished nor sent.
        """
        head = await self._head()

        async def ask(messages: Sequence[Message]) -> int:
            return await self._gas_used(messages, head, sent)

        async def refuse(intent: Intent, refusal: TxRefused) -> None:
            if settled_in_this_block(refusal) and intent.settles and intent.returns < _SETTLED_TRIES:
                intent.returns += 1
                sent.settled(intent.settles, height=head.height)
                self._requeue(intent)
            else:
                await self._refuse(intent, refusal)

        for priced in await passing(batch, ask=ask, refuse=refuse):
            limited = self._within_limits(priced)
            within = await self._within_budget(priced, limited, head)
            if len(within) == len(priced.intents):
                await self._dispatch(priced, head, sent)
            elif within:
                await self.send(within, sent)

    async def _head(self) -> Head:
        head = await self._ask_head()
        if head.catching_up:
            text = f"is catching up at height {head.height}; nothing is sent through it"
            raise CatchingUp(self._node.address, text)
        return head

    async def _refuse(self, intent: Intent, refusal: TxRefused) -> None:
        signer = self._key.address
        intent.finish(await with_remedy(refusal, intent, node=self._node, policy=self._policy, signer=signer))

    async def _gas_used(self, messages: Sequence[Message], head: Head, sent: PendingTransactions) -> int:
        for attempt in range(1, _TRIES + 1):
            terms = self._terms(await self.account.ready(), head, gas=_SIMULATED_GAS)
            try:
                return await simulate(self._node, unsigned(self._key, messages, terms))
            except TxRefused as refusal:
                if not wrong_sequence(refusal) or attempt == _TRIES:
                    raise
                await self.account.repair(refusal, unsure=sent.any_unsure)
        raise AssertionError("unreachable")

    def _terms(self, sequence: int, head: Head, *, gas: int) -> Terms:
        fees, fence = self._policy.fees, self._policy.fence
        height = head.height + self._policy.timeout_blocks
        return Terms(
            sequence=sequence,
            timeout_height=height if fence is None else min(height, fence.last_height),
            gas=gas,
            fee=fees.fee(gas),
            denom=fees.price.denom,
            granter=self._policy.granter,
        )

    def _within_limits(self, priced: Priced) -> tuple[Intent, ...]:
        """The intents whose transaction may be signed: all, as many as cost no more than one transaction may (the
        others are queued again), or none, which are finished with the reason.
        """
        problem, fee = self._problem(priced, priced.gas_factor)
        self.problem = problem
        if not problem:
            return priced.intents
        few = len(priced.intents) * self._policy.fee_limit // fee if fee else 0
        if not 0 < few < len(priced.intents) or priced.gas_used > gas_limit(priced.messages):
            refuse_all(priced.intents, problem, now=self._clock.now())
            return ()
        self.problem = ""
        for intent in priced.intents[few:]:
            self._requeue(intent)
        return priced.intents[:few]

    def _problem(self, priced: Priced, factor: float) -> tuple[str, int]:
        """Why the transaction is not signed, empty when it may be, and its fee."""
        fees = self._policy.fees
        gas = fees.gas(priced.gas_used, factor=factor)
        fee, denom, most = fees.fee(gas), fees.price.denom, self._policy.fee_limit
        return limit_problem(priced.messages, gas=gas, fee=fee, denom=denom, fee_limit=most), fee

    async def _within_budget(self, priced: Priced, intents: tuple[Intent, ...], head: Head) -> tuple[Intent, ...]:
        if not intents:
            return ()
        fees = self._policy.fees
        fee = fees.fee(fees.gas(priced.gas_used, factor=priced.gas_factor))
        asked = affordable(
            intents,
            fee=-(-fee * len(intents) // len(priced.intents)),
            denom=fees.price.denom,
            budget=self._policy.fee_budget,
            journal=self._journal,
            account=self._signer(head),
            now=self._clock.now(),
        )
        return await self._kept(asked)

    async def _dispatch(self, priced: Priced, head: Head, sent: PendingTransactions) -> None:
        """Sign and submit; after a refusal again with what it calls for: another sequence, a later timeout height, more
        gas, a pause.
        """
        factor = priced.gas_factor
        for attempt in range(1, _TRIES + 1):
            self.problem, _ = self._problem(priced, factor)
            if self.problem:
                return refuse_all(priced.intents, self.problem, now=self._clock.now())
            gas = self._policy.fees.gas(priced.gas_used, factor=factor)
            terms = self._terms(await self.account.ready(), head, gas=gas)
            try:
                return await self._sign_and_submit(priced, terms, head, sent)
            except RpcError as refusal:
                if attempt == _TRIES or not mempool_full(refusal):
                    raise NotSent(self._node.address, f"takes no transaction: {refusal.text}") from refusal
                await self._clock.sleep(_FULL_MEMPOOL_PAUSE.after(attempt))
            except TxRefused as refusal:
                if attempt == _TRIES or not await self._adapt(refusal, attempt, sent):
                    for intent in priced.intents:
                        await self._refuse(intent, refusal)
                    return None
                factor *= 2 if out_of_gas(refusal) else 1
                head = await self._head()
        return None

    async def _adapt(self, refusal: TxRefused, attempt: int, sent: PendingTransactions) -> bool:
        """Whether another try can succeed; repairs the sequence or waits where the refusal calls for that."""
        if wrong_sequence(refusal):
            await self.account.repair(refusal, unsure=sent.any_unsure)
            return True
        if mempool_full(refusal):
            await self._clock.sleep(_FULL_MEMPOOL_PAUSE.after(attempt))
            return True
        return too_late(refusal) or out_of_gas(refusal)

    async def _sign_and_submit(self, priced: Priced, terms: Terms, head: Head, sent: PendingTransactions) -> None:
        """Written down before it is sent, so that a crash at any line leaves no transaction that nobody looks up."""
        self._require_term(head)
        raw = signed(self._key, priced.messages, terms, chain_id=head.chain_id, number=self.account.number)
        pending = PendingTransaction(self._sent(priced, terms, head, raw), priced.intents, raw)
        await self._kept(self._journal.begin(pending.tx))
        try:
            self._require_term(head)
        except NotSent:
            await self.ended(pending, Fate.REFUSED)
            raise
        try:
            pending.accepted = await _submit(self._node, raw)
        except (TxRefused, RpcError) as refusal:
            if not (isinstance(refusal, TxRefused) and await self._in_a_block(refusal, pending)):
                await self.ended(pending, Fate.REFUSED)
                raise
        if pending.accepted:
            self.account.advance()
        else:
            self.account.forget()
        sent.watch(pending)

    def _require_term(self, head: Head) -> None:
        """Raise `NotSent` when another process may have taken over."""
        fence = self._policy.fence
        if fence is not None and (problem := fence.height_problem(head.height)):
            raise NotSent(self._node.address, problem)

    async def _in_a_block(self, refusal: TxRefused, pending: PendingTransaction) -> bool:
        """Whether the refusal says that this very transaction used its sequence up, the node's answer being lost."""
        return wrong_sequence(refusal) and await find(self._node, pending.tx.hash) is not None

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
        """The result of journal work; `NotSent` when the store fails: an unrecorded transaction would not be looked up
        after a crash.
        """
        try:
            return await work
        except StoreError as error:
            raise NotSent(self._node.address, f"nothing is sent that cannot be written down: {error}") from error


async def _submit(node: NodeClient, raw: bytes) -> bool:
    """Hand a signed transaction to the node's mempool: True when the mempool has it, False when no answer came.

    Raises `TxRefused` when the node's check refuses it, `RpcError` when the node accepts no transactions at all.
    """
    try:
        result = await node.call("broadcast_tx_sync", tx=base64.b64encode(raw).decode())
    except RpcError as refusal:
        if already_known(refusal):
            return True
        raise
    except ChainError:
        return False
    try:
        code, codespace, log = int(result.get("code") or 0), str(result.get("codespace") or ""), result.get("log")
    except (TypeError, ValueError, OverflowError):
        return False
    if not code:
        return True
    refused = TxRefused(node.address, codespace=codespace, code=code, log=str(log or ""))
    if already_known(refused):
        return True
    raise refused
