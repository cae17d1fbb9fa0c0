"""`lessor lease logs` and `lessor lease shell`: what runs in a lease, for the operator.

Both read the API server with the provider's kubeconfig, beside a running provider and without one. The rules are those
of the tenants' streams.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Annotated, Any, TypeVar

import typer

from lease.exit_codes import FINE
from lease.ids import namespace_name
from lease.printable import printable_line
from provider.cli.lease_store import one_lease
from provider.cli.output import LeaseName, failure
from provider.errors import ProviderError
from provider.gateway.streams.pod_logs import LogSource, NoPodsError, follow_logs, pods_of, read_logs, service_of
from provider.gateway.streams.shell import (
    RESIZE,
    STDERR,
    STDIN,
    ExecProblem,
    Inbox,
    UnknownFailure,
    chosen_pod,
    run_command,
)
from provider.kube.client import KubeCluster
from provider.protocols.pods import Command
from provider.settings import load_settings

__all__ = ["logs", "shell"]

_STDIN_BYTES = 16 * 1024
_FOREVER_S = 10.0**9
_T = TypeVar("_T")


def logs(
    name: LeaseName,
    *,
    service: Annotated[
        list[str] | None, typer.Option("--service", help="Show this service only. May be repeated.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is added, until the lease ends.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, help="Begin with so many last lines of each pod.")
    ] = None,
) -> None:
    """Print the logs of a lease's pods, each line after the name of its pod.

    Example: `lessor lease logs 17452311 --follow`
    """
    _ended(_logs(name, frozenset(service or ()) or None, follow=follow, tail=tail))


def shell(
    name: LeaseName,
    command: Annotated[list[str] | None, typer.Argument(help="The command and its arguments; default: sh.")] = None,
    *,
    service: Annotated[str, typer.Option("--service", help="The service; default: the only one of the lease.")] = "",
    index: Annotated[int, typer.Option("--pod", min=0, help="The number of the pod among those of the service.")] = 0,
) -> None:
    """Run a command in a pod of a lease; on a terminal with a terminal.

    The exit code is that of the command.

    Example: `lessor lease shell 17452311 -- ls /`
    """
    code = _ended(_shell(name, tuple(command or ("sh",)), service, index))
    if code != FINE:
        raise typer.Exit(code)


def _ended(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return asyncio.run(work)
    except NoPodsError:
        raise failure("no pod of the lease and its services runs") from None
    except (ProviderError, ExecProblem, UnknownFailure) as error:
        raise failure(error) from None


@asynccontextmanager
async def _source(name: str, services: frozenset[str] | None, tail: int | None = None) -> AsyncIterator[LogSource]:
    lease = (await one_lease(name, limit=1)).status.lease
    cluster = KubeCluster(load_settings().kubeconfig)
    try:
        yield LogSource(cluster, cluster.pods, namespace_name(lease), services, tail)
    finally:
        await cluster.aclose()


async def _logs(name: str, services: frozenset[str] | None, *, follow: bool, tail: int | None) -> None:
    async def send(pod: str, messages: Iterable[bytes]) -> None:
        for message in messages:
            typer.echo(printable_line(f"{pod}: {message.decode(errors='replace')}"))

    async with _source(name, services, tail) as source:
        await (follow_logs if follow else read_logs)(source, send)


async def _shell(name: str, arguments: tuple[str, ...], service: str, index: int) -> int:
    async with _source(name, frozenset((service,)) if service else None) as source:
        pods = await pods_of(source)
        services = sorted(set(map(service_of, pods)))
        if len(services) > 1:
            raise ExecProblem(f"name one of the services with --service: {', '.join(services)}")
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        pod = chosen_pod(pods, index)
        command = Command(source.namespace, pod, services[0], arguments, tty=terminal, stdin=True)
        may_read = threading.Event()
        may_read.set()
        inbox = Inbox(lambda on: may_read.clear() if on else may_read.set())
        threading.Thread(target=_read_stdin, args=(inbox, asyncio.get_running_loop(), may_read), daemon=True).start()
        with _raw_terminal(inbox) if terminal else nullcontext():
            return await run_command(source.pods, command, _print, inbox, idle_seconds=_FOREVER_S)


async def _print(code: int, data: bytes) -> None:
    stream = sys.stderr if code == STDERR else sys.stdout
    stream.buffer.write(data)
    stream.flush()


def _read_stdin(inbox: Inbox, loop: asyncio.AbstractEventLoop, may_read: threading.Event) -> None:
    """Give standard input to the command, in a thread: a file can be read no other way."""
    try:
        while True:
            may_read.wait()
            data = os.read(sys.stdin.fileno(), _STDIN_BYTES)
            if not data:
                loop.call_soon_threadsafe(inbox.end)
                return
            loop.call_soon_threadsafe(inbox.receive, bytes((STDIN,)) + data, True, True)
    except (RuntimeError, OSError):
        return  # the command has ended, or nothing can be read


@contextmanager
def _raw_terminal(inbox: Inbox) -> Iterator[None]:
    """Each key goes to the command, and so does each new size of the terminal."""
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def resized() -> None:
        rows, columns = struct.unpack("HHHH", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)))[:2]
        inbox.receive(bytes((RESIZE,)) + struct.pack("!HH", columns, rows), True, True)

    loop.add_signal_handler(signal.SIGWINCH, resized)
    try:
        tty.setraw(descriptor)
        resized()
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
