"""The demo on the user's cluster: it lists what it will make, asks for agreement, and removes everything at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from devnet.borrowed import BorrowedCluster, give_back, own_engine
from devnet.demo.interrupts import Interrupts
from devnet.demo.output import DemoOutput
from devnet.errors import DevnetError
from devnet.world import PROVIDER_LOG
from lease.sdl import Sdl

__all__ = ["Declined", "borrowed_cluster", "refuse_addresses"]


class Declined(DevnetError):
    """The user did not agree."""

    def __init__(self) -> None:
        super().__init__("nothing was made in the cluster")


@contextmanager
def borrowed_cluster(
    data: Path,
    *,
    kubeconfig: Path,
    context: str,
    agree: Callable[[], bool],
    output: DemoOutput,
    interrupts: Interrupts,
) -> Iterator[BorrowedCluster]:
    """The checked cluster, once the user agreed. The end of the block removes all objects of the demo, also after an
    error; only a second signal interrupts the removal. Raises `ClusterUnusable`, `EngineIncomplete`, `Declined` or
    `NotGivenBack`.
    """
    cluster = _agreed_cluster(data, kubeconfig=kubeconfig, context=context, agree=agree, output=output)
    try:
        cluster.begin()
        yield cluster
    except BaseException:
        with interrupts.held():
            _give_back_after_error(cluster, output)
        raise
    with interrupts.held():
        _give_back(cluster, output)


def refuse_addresses(sdl: Sdl) -> None:
    """Raise `DevnetError` for an SDL that leases an address: the demo may not use addresses of the user's network."""
    for group in sdl.manifest:
        for service in group.services or ():
            if any(expose.ip for expose in service.expose or ()):
                raise DevnetError(
                    f"service {service.name} leases an IP address, which the demo cannot do on your own cluster; "
                    "name another SDL by --sdl, or start the demo without --kubeconfig"
                )


def _agreed_cluster(
    data: Path, *, kubeconfig: Path, context: str, agree: Callable[[], bool], output: DemoOutput
) -> BorrowedCluster:
    toolbox = own_engine()
    data.mkdir(parents=True, exist_ok=True)
    try:
        cluster = BorrowedCluster.inspect(data, toolbox, kubeconfig=kubeconfig, context=context)
        _print_plan(cluster, output)
        if not agree():
            raise Declined
    except BaseException:
        _clear(data)
        raise
    return cluster


def _print_plan(cluster: BorrowedCluster, output: DemoOutput) -> None:
    output.line(f"cluster {cluster.api_server}, context {cluster.plan.context}")
    output.line("The demo will make these objects there, and remove them at the end:")
    for line in cluster.plan.summary():
        output.line(f"  + {line}")


def _give_back(cluster: BorrowedCluster, output: DemoOutput) -> None:
    try:
        with output.step("The demo removes its objects from your cluster"):
            give_back(cluster.plan, cluster.api, output.success)
            _clear(cluster.data)
    except KeyboardInterrupt:
        output.line(f"the removal was interrupted; `lessor demo --data {cluster.data}` continues it", style="red")
        raise


def _clear(data: Path) -> None:
    """Remove everything but the provider's log, because several files contain copies of the kubeconfig."""
    for path in data.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != PROVIDER_LOG:
            path.unlink()


def _give_back_after_error(cluster: BorrowedCluster, output: DemoOutput) -> None:
    """Print a failure to remove objects; the earlier error is the one that the caller raises."""
    try:
        _give_back(cluster, output)
    except DevnetError as error:
        output.line(str(error), style="red")
