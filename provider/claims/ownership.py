"""The proof that a tenant owns a hostname, before its first claim (`LESSOR_HOSTNAME_PROOF`; off by default).

A tenant publishes its account where only the domain's owner can: in a TXT record of `_akash-owner.<hostname>`, or in
the file `/.well-known/akash-owner` of the web server to which the hostname leads. A wildcard is proved by DNS only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from provider.protocols import Clock
from provider.settings.kinds import ProofKind

__all__ = ["PROOF_FILE", "OwnershipProofs", "ReadLines", "record_name"]

PROOF_FILE = "/.well-known/akash-owner"
_RECORD = "_akash-owner"
_LIMIT_S = 10.0
_WAIT_S = 2.0
"""How long the check of a lease waits for its proofs; those that take longer count at its next check."""
_PROVED_S, _UNPROVED_S = 60.0, 10.0
"""How long a result counts. A claim is what lasts."""
_MOST = 10_000
_OF_ONE_OWNER = 4
_OF_ALL = 32

ReadLines: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Hostname → the published lines or records. Raises OSError with what to tell the tenant, or TimeoutError."""


def record_name(hostname: str) -> str:
    """The name of the TXT record that proves a hostname or a wildcard."""
    return f"{_RECORD}.{hostname.removeprefix('*.')}"


@dataclass(slots=True)
class _Lookup:
    task: asyncio.Task[str]
    until: float | None = None
    """When the result no longer counts; None while there is none."""


@dataclass(slots=True)
class OwnershipProofs:
    """Proofs by owner and hostname. `txt` and `file` read what is published; results are kept for seconds."""

    kind: ProofKind
    txt: ReadLines
    file: ReadLines
    clock: Clock
    _known: dict[tuple[str, str], _Lookup] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_OF_ALL))
    _own_turns: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    async def unproved(self, owner: str, hostnames: Iterable[str]) -> Mapping[str, str]:
        """Each of the hostnames that `owner` has not proved, and what the tenant should do. Takes two seconds at most;
        looks a hostname up at most every ten seconds.
        """
        if self.kind is ProofKind.OFF:
            return {}
        lookups = {hostname: self._lookup(owner, hostname) for hostname in sorted(set(hostnames))}
        running = [one.task for one in lookups.values() if not one.task.done()]
        if running:
            await asyncio.wait(running, timeout=_WAIT_S)
        problems = {hostname: self._problem(owner, hostname, one) for hostname, one in lookups.items()}
        return {hostname: problem for hostname, problem in problems.items() if problem}

    def _problem(self, owner: str, hostname: str, lookup: _Lookup) -> str:
        problem = lookup.task.result() if lookup.task.done() else "the check has not ended yet"
        return f"its owner is not proved: {problem}; {self._remedy(owner, hostname)}" if problem else ""

    def _remedy(self, owner: str, hostname: str) -> str:
        record = f"publish a TXT record of {record_name(hostname)} with the text {owner}"
        file = f"serve http://{hostname}{PROOF_FILE} with the line {owner}"
        ways = [record] if self._by_dns(hostname) else []
        return " or ".join([*ways, *([file] if self._by_file(hostname) else [])])

    def _by_dns(self, hostname: str) -> bool:
        return self.kind is not ProofKind.HTTP or hostname.startswith("*.")

    def _by_file(self, hostname: str) -> bool:
        return self.kind is not ProofKind.DNS and not hostname.startswith("*.")

    def _lookup(self, owner: str, hostname: str) -> _Lookup:
        key, now = (owner, hostname), self.clock.monotonic()
        known = self._known.get(key)
        if known is not None and (known.until is None or now < known.until):
            return known
        self._forget(now)
        made = self._known[key] = _Lookup(asyncio.get_running_loop().create_task(self._prove(owner, hostname)))
        made.task.add_done_callback(lambda task: self._ended(made))
        return made

    def _ended(self, lookup: _Lookup) -> None:
        proved = not lookup.task.cancelled() and not lookup.task.result()
        lookup.until = self.clock.monotonic() + (_PROVED_S if proved else _UNPROVED_S)

    def _forget(self, now: float) -> None:
        if len(self._known) >= _MOST:
            self._known = {key: one for key, one in self._known.items() if one.until is None or now < one.until}
        self._own_turns = {owner: turns for owner, turns in self._own_turns.items() if turns.locked()}

    async def _prove(self, owner: str, hostname: str) -> str:
        """Why the hostname is not proved; empty when it is. Raises nothing."""
        own_turns = self._own_turns.setdefault(owner, asyncio.Semaphore(_OF_ONE_OWNER))
        problems = []
        async with own_turns, self._turns:
            for used, read in ((self._by_dns(hostname), self.txt), (self._by_file(hostname), self.file)):
                if used and (problem := await _missing(read, owner, hostname)):
                    problems.append(problem)
                elif used:
                    return ""
        return " and ".join(problems)


async def _missing(read: ReadLines, owner: str, hostname: str) -> str:
    try:
        async with asyncio.timeout(_LIMIT_S):
            found = await read(hostname)
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return str(error) or type(error).__name__
    return "" if any(line.strip() == owner for line in found) else "the account is not there"
