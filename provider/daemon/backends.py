"""The backends: home folder, engine, database, cluster and chain clients. They are open before any part of the provider
runs and are closed after all of them, in reverse order.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from policies.book import RuleBook, read_book, weakened
from policies.choices import PolicyChoices, read_choices
from policies.errors import PolicyFileError
from provider.bus import LEASE_CHANGED, MANIFEST_ACCEPTED, MemoryBus
from provider.chain.comet import CometChain
from provider.chain.keys import load_key
from provider.daemon.leader import Leading
from provider.daemon.private_home import prepare_home
from provider.daemon.queue import queued_engine
from provider.errors import SettingsError
from provider.kube.client import KubeCluster
from provider.kube.pod_account import in_a_pod, place_pod_kubeconfig
from provider.observe.publication import PUBLIC_TOPICS
from provider.observe.queue import log_resident_engine, show_load
from provider.protocols import Clock, StackEngine
from provider.protocols.clock import SystemClock
from provider.runs.history import History, RecordedEngine
from provider.settings import Settings
from provider.store import Database
from provider.store.guard import StoreGuard, open_guarded
from provider.store.ring import open_ring
from provider.store.sealing import KeyRing
from provider.store.stack_notes import StoredNotes
from provider.store.transactions import StoredJournal
from stacks.common import fence_problem, installed_plugin
from stacks.engine import EngineConfig, EngineError, PulumiEngine

if TYPE_CHECKING:
    from provider.bus.redis import RedisBus

__all__ = ["Backends", "bus_url_problem", "engine_config", "open_backends", "policy_book"]

_log = structlog.get_logger("lessor")


@dataclass(frozen=True, slots=True)
class Backends:
    """Everything that the parts of the provider share. `address`: the provider's account. `public_chain` answers the
    queries that anybody may cause; bids and leases do not wait for them. `start_plugin` starts the engine's plugin, for
    which the first operation would wait otherwise. `certificate_passwords`: see
    `SigningKey.certificate_passwords`.
    """

    settings: Settings
    address: str
    clock: Clock
    bus: MemoryBus | RedisBus
    database: Database
    chain: CometChain
    public_chain: CometChain
    cluster: KubeCluster
    engine: RecordedEngine
    start_plugin: Callable[[], Awaitable[None]]
    guard: StoreGuard
    policies: RuleBook = RuleBook()  # noqa: RUF009 (frozen)
    certificate_passwords: tuple[bytes, ...] = field(default=(), repr=False)


@asynccontextmanager
async def open_backends(settings: Settings, *, leader: Leading | None = None) -> AsyncIterator[Backends]:
    """Open all backends. `leader`: this process's term, where several elect a leader. Raises `SettingsError` for a
    setting that is wrong and `StoreError` for the database.
    """
    policies = policy_book(settings)
    _log_choices(policies)
    prepare_home(settings)
    key, clock = load_key(settings), SystemClock()
    async with AsyncExitStack() as stack:
        known = (settings.home / "engine").exists()
        config = engine_config(settings)
        engine = await _started_engine(config, stack)
        database, guard = await open_guarded(settings.database_url, clock, known=known)
        stack.push_async_callback(database.close)
        ring = await open_ring(database, settings.store_key)
        working = await _working_engine(
            settings, engine, config, database=database, ring=ring, leader=leader, stack=stack
        )
        recorded = await _recorded_engine(working, ring, database, clock, settings)
        if guard.began_anew:
            await recorded.begin_anew()
        leadership = leader.leadership if leader is not None else None
        fence = (lambda: leadership.term_problem) if leadership is not None else None
        cluster = KubeCluster(settings.kubeconfig, fence=fence)
        stack.push_async_callback(cluster.aclose)
        journal = StoredJournal(database)
        chain = await stack.enter_async_context(
            CometChain(settings, clock=clock, key=key, journal=journal, fence=leadership)
        )
        if leadership is not None:
            leadership.ask_head(lambda: _height(chain))
        public = await stack.enter_async_context(CometChain(settings, clock=clock))
        yield Backends(
            settings,
            key.address,
            clock,
            await _bus(settings, key.address, clock, stack),
            database,
            chain,
            public,
            cluster,
            recorded,
            _nothing if working is not engine else partial(engine.start, await_resident=False),
            guard,
            policies,
            key.certificate_passwords,
        )


async def _nothing() -> None:
    """Start no plugin here: the workers have their own."""


async def _height(chain: CometChain) -> int:
    return (await chain.head()).height


async def _bus(settings: Settings, address: str, clock: Clock, stack: AsyncExitStack) -> MemoryBus | RedisBus:
    """The bus; by Redis, which is connected to beside everything else, if its URL is set. Raises `SettingsError`."""
    if not (url := settings.bus_url.get_secret_value()):
        return MemoryBus()
    if problem := bus_url_problem(url):
        raise SettingsError(f"LESSOR_BUS_URL: {problem}")
    from provider.bus.redis import RedisBus  # noqa: PLC0415  most providers need no Redis, nor have its client

    topics = (LEASE_CHANGED, MANIFEST_ACCEPTED, *PUBLIC_TOPICS)
    bus = RedisBus(url, provider=address, topics=topics, clock=clock)
    carrying = asyncio.create_task(bus.run(), name="redis")
    stack.push_async_callback(_end_task, carrying)
    return bus


async def _end_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def bus_url_problem(url: str) -> str:
    """What is wrong with LESSOR_BUS_URL, a missing client of Redis too; empty for nothing."""
    try:
        from provider.bus.redis_url import url_problem  # noqa: PLC0415  see above
    except ImportError:
        return "the client of Redis is missing: pip install 'lessor[redis]'"
    return url_problem(url)


def policy_book(settings: Settings) -> RuleBook:
    """The rules as the operator has chosen them. Raises `SettingsError`."""
    try:
        return read_book(settings.policy_file, images_denied=settings.images_denied)
    except PolicyFileError as error:
        raise SettingsError(f"LESSOR_POLICY_FILE: {error}") from None


def _log_choices(book: RuleBook) -> None:
    """Log what is weaker than the rules' own levels."""
    for rule in weakened(book):
        _log.warning("policy.weakened", rule=rule, reason="LESSOR_POLICY_FILE makes this mandatory rule advisory")
    for each in book.exemptions:
        _log.warning("policy.exempted", owner=each.owner, rules=each.rules, reason=each.reason, until=each.until)


def policy_choices(settings: Settings) -> PolicyChoices:
    """The operator's choices, for the workers. Raises `SettingsError`."""
    try:
        return read_choices(settings.policy_file) if settings.policy_file else PolicyChoices()
    except PolicyFileError as error:
        raise SettingsError(f"LESSOR_POLICY_FILE: {error}") from None


async def _working_engine(
    settings: Settings,
    engine: PulumiEngine,
    config: EngineConfig,
    *,
    database: Database,
    ring: KeyRing,
    leader: Leading | None,
    stack: AsyncExitStack,
) -> StackEngine:
    """What runs the stack operations: the engine of this process, or the workers. Raises `SettingsError`."""
    if settings.stack_queue.get_secret_value():
        queued = await queued_engine(
            settings, engine, config, database=database, ring=ring, leader=leader, stack=stack
        )  # fmt: skip
        show_load(lambda: queued.load)
        return queued
    if settings.stack_backend and database.shared:
        engine.share(StoredNotes(database))
    show_load(lambda: engine.load)
    return engine


async def _started_engine(config: EngineConfig, stack: AsyncExitStack) -> PulumiEngine:
    installed_plugin(config.home)
    engine = PulumiEngine(config, on_resident_problem=log_resident_engine)
    stack.push_async_callback(engine.close)
    fence = asyncio.create_task(_warn_of_open_listeners(), name="fence")
    stack.callback(fence.cancel)
    await engine.start(with_resident=False)
    return engine


async def _warn_of_open_listeners() -> None:
    """Log why other users of this machine can reach the workers. The answer takes a second, and nothing waits for
    it.
    """
    if problem := await asyncio.to_thread(fence_problem):
        _log.warning("engine.listeners_open", problem=problem, remedy="let no other users on this machine")


async def _recorded_engine(
    engine: StackEngine, ring: KeyRing, database: Database, clock: Clock, settings: Settings
) -> RecordedEngine:
    """The engine, with every run written to the history."""
    history = History(database, ring, clock, keep_runs=settings.history_runs)
    recorded = RecordedEngine(engine, history)
    await recorded.start()
    return recorded


def engine_config(settings: Settings) -> EngineConfig:
    """The engine's part of the settings. Raises `SettingsError` when Pulumi or the kubeconfig is missing."""
    pulumi, pulumi_home = _pulumi(settings)
    return EngineConfig(
        data=settings.home / "engine",
        kubeconfig=_kubeconfig(settings),
        pulumi=pulumi,
        pulumi_home=pulumi_home,
        workers=settings.stack_workers,
        engine=settings.engine,
        program=settings.engine_program,
        resident=_resident(),
        secrets=settings.stack_secrets,
        vault_url=settings.vault_url,
        vault_token_file=settings.vault_token_file,
        vault_key=settings.vault_key,
        backend=settings.stack_backend,
        key=settings.stack_key_file.absolute() if settings.stack_key_file else None,
        exclusive=bool(settings.leader_lease or settings.stack_queue.get_secret_value()),
        skip_checkpoints=settings.skip_checkpoints,
        choices=policy_choices(settings),
    )


def _kubeconfig(settings: Settings) -> Path:
    """The kubeconfig file of the stacks; in a pod without one that of the pod's account, which is written now."""
    if settings.kubeconfig is not None:
        return settings.kubeconfig
    if not in_a_pod():
        raise SettingsError("KUBECONFIG is not set: the stacks need a kubeconfig file")
    try:
        return place_pod_kubeconfig(settings.home)
    except OSError as error:
        raise SettingsError(
            f"AP_HOME={settings.home}: {error.strerror}; it must be a folder that can be written"
        ) from error


def _pulumi(settings: Settings) -> tuple[Path, Path | None]:
    """Pulumi and its PULUMI_HOME (None: `~/.pulumi`): from PATH and the settings, else what `make tools` has built."""
    found, built = shutil.which("pulumi"), _built_engine()
    pulumi = Path(found).absolute() if found else built.get("pulumi")
    if pulumi is None:
        raise SettingsError(
            "there is no Pulumi: `pulumi` is not on PATH, and `make tools` has not built it here (`lessor doctor` "
            "shows what is missing and how to get it)"
        )
    if settings.pulumi_home is not None:
        return pulumi, settings.pulumi_home
    try:
        installed_plugin(Path.home() / ".pulumi")
    except EngineError:
        return pulumi, built.get("pulumi_home")
    return pulumi, None


def _resident() -> Path | None:
    """The program of the resident engine: from PATH, else what `make tools` has built."""
    found = shutil.which("lessor-engine")
    return Path(found).absolute() if found else _built_engine().get("resident")


def _built_engine() -> dict[str, Path]:
    """What `make tools` and `lessor doctor --build` have noted in the cache of built tools; empty without them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("LESSOR_CACHE") or Path(base) / "lessor").expanduser()
    try:
        noted = {name: Path(path) for name, path in json.loads((cache / "engine.json").read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return noted if all(path.exists() for path in noted.values()) else {}
