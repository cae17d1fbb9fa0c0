"""The demo on somebody's cluster: what it will make is told and agreed to, and all of it is removed at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from devnet.borrowed import BorrowedCluster, give_back, own_engine
from devnet.demo.telling import Telling
from devnet.errors import DevnetError
from devnet.world import PROVIDER_LOG
from lease.sdl import Sdl

__all__ = ["Declined", "borrowed", "refuse_addresses"]


class Declined(DevnetError):
    """The person did not agree."""

    def __init__(self) -> None:
        super().__init__("nothing was made in the cluster")


@contextmanager
def borrowed(
    data: Path, *, kubeconfig: Path, context: str, agree: Callable[[], bool], telling: Telling
) -> Iterator[BorrowedCluster]:
    """The cluster, looked at and agreed upon. Leaving it removes what was made, however it is left."""
    toolbox = own_engine()
    data.mkdir(parents=True, exist_ok=True)
    try:
        cluster = BorrowedCluster.look(data, toolbox, kubeconfig=kubeconfig, context=context)
        _tell(cluster, telling)
        if not agree():
            raise Declined
    except BaseException:
        _forget(data)
        raise
    try:
        cluster.begin()
        yield cluster
    except BaseException:
        _give_back_anyway(cluster, telling)
        raise
    _give_back(cluster, telling)


def refuse_addresses(sdl: Sdl) -> None:
    """Raise `DevnetError` for an SDL that leases an address: those of somebody's network are not ours to give."""
    for group in sdl.manifest:
        for service in group.services or ():
            if any(expose.ip for expose in service.expose or ()):
                raise DevnetError(
                    f"service {service.name} leases an IP address, and a demo on your own cluster gives none away; "
                    "name another SDL by --sdl, or start the demo without --kubeconfig"
                )


def _tell(cluster: BorrowedCluster, telling: Telling) -> None:
    telling.line(
        f"cluster {cluster.api_server} (context {cluster.plan.context}); this will be made there, and removed:"
    )
    for line in cluster.plan.told():
        telling.line(f"  + {line}")


def _give_back(cluster: BorrowedCluster, telling: Telling) -> None:
    with telling.step("The cluster is given back as it was"):
        give_back(cluster.plan, cluster.api, telling.good)
        _forget(cluster.data)


def _forget(data: Path) -> None:
    """Keep the provider's log only: copies of the kubeconfig lie in several places."""
    for path in data.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != PROVIDER_LOG:
            path.unlink()


def _give_back_anyway(cluster: BorrowedCluster, telling: Telling) -> None:
    """What goes wrong here is told; what went wrong before stays the error."""
    try:
        _give_back(cluster, telling)
    except DevnetError as error:
        telling.line(str(error), style="red")
    except KeyboardInterrupt:
        telling.line(f"the removal was stopped; `lessor demo --data {cluster.data}` goes on with it", style="red")
        raise
