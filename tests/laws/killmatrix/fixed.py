"""The fixed cells: each victim in each operation, early and late. `make test` plays a few of them: the engine's tests
kill each process of a create too (tests/stacks/engine/test_engine_killed.py, test_engine_resident.py).
"""

from __future__ import annotations

from tests.laws.killmatrix.cells import Cell
from tests.laws.killmatrix.slot import Engine

__all__ = ["FIXED", "OFTEN"]

_RESIDENT: dict[tuple[str, str], tuple[str, ...]] = {
    ("create", "resident"): (
        "prelude",
        "after create Namespace lease",
        "before create StatefulSet store",
        "summary",
    ),
    ("create", "plugin"): ("after create Namespace lease", "before create StatefulSet store"),
    ("create", "worker"): ("after create Deployment web", "summary"),
    ("create", "daemon"): ("before create Service web-ip-8080-tcp",),
    ("update", "resident"): ("before update Deployment web", "after delete Ingress old.host"),
    ("update", "plugin"): ("before update Deployment web",),
    ("update", "worker"): ("after create Ingress new.host",),
    ("update", "daemon"): ("after update Deployment web",),
    ("destroy", "resident"): ("before delete Namespace lease", "after delete Namespace lease"),
    ("destroy", "plugin"): ("before delete Deployment web",),
    ("destroy", "worker"): ("prelude",),
    ("destroy", "daemon"): ("after delete Namespace lease",),
}
_EVENTS: dict[Engine, dict[tuple[str, str], tuple[str, ...]]] = {
    "list": _RESIDENT,
    "sdk": _RESIDENT,
    "stock": {
        ("create", "command line"): ("after create Deployment web",),
        ("create", "plugin"): ("after create Namespace lease", "before create StatefulSet store"),
        ("create", "worker"): ("summary",),
        ("create", "daemon"): ("before create Service web-ip-8080-tcp",),
        ("update", "command line"): ("after delete Ingress old.host",),
        ("update", "plugin"): ("before update Deployment web", "before delete Ingress old.host"),
        ("update", "worker"): ("after create Ingress new.host",),
        ("update", "daemon"): ("before same Namespace lease", "after update Deployment web"),
        ("destroy", "command line"): ("before delete Namespace lease",),
        ("destroy", "plugin"): ("before delete Service web-ip-8080-tcp", "before delete Deployment web"),
        ("destroy", "worker"): ("prelude",),
        ("destroy", "daemon"): ("after delete Namespace lease",),
    },
}

_OFTEN: dict[Engine, dict[str, tuple[tuple[str, str], ...]]] = {
    "list": {
        "create": (("resident", "before create StatefulSet store"),),
        "update": (("plugin", "before update Deployment web"), ("daemon", "after update Deployment web")),
        "destroy": (("worker", "prelude"),),
    },
}

FIXED = {
    engine: tuple(Cell(operation, event, victim) for (operation, victim), events in cells.items() for event in events)
    for engine, cells in _EVENTS.items()
}
OFTEN = {
    engine: frozenset(Cell(operation, event, victim) for operation, deaths in cells.items() for victim, event in deaths)
    for engine, cells in _OFTEN.items()
}
