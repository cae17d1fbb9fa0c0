"""The fixed cells: each victim in each operation, early and late. `make test` plays a quarter of them: the
engine's tests kill each process of a create too (tests/stacks/engine/test_engine_killed.py).
"""

from __future__ import annotations

from tests.laws.killmatrix.cells import Cell

__all__ = ["FIXED", "OFTEN"]

_EVENTS = {
    ("create", "command line"): ("after create Deployment web",),
    ("create", "plugin"): ("after create Namespace lease", "before create StatefulSet store"),
    ("create", "broker"): ("after create Namespace lease",),
    ("create", "worker"): ("summary",),
    ("create", "daemon"): ("before create Service web-ip-8080-tcp",),
    ("opened", "command line"): ("waiting",),
    ("opened", "plugin"): ("before create Deployment web",),
    ("opened", "broker"): ("waiting",),
    ("opened", "worker"): ("after create Deployment web",),
    ("opened", "daemon"): ("waiting",),
    ("update", "command line"): ("after delete Ingress old.host",),
    ("update", "plugin"): ("before update Deployment web", "before delete Ingress old.host"),
    ("update", "broker"): ("after update Deployment web",),
    ("update", "worker"): ("after create Ingress new.host",),
    ("update", "daemon"): ("before same Namespace lease", "after update Deployment web"),
    ("destroy", "command line"): ("before delete Namespace lease",),
    ("destroy", "plugin"): ("before delete Service web-ip-8080-tcp", "before delete Deployment web"),
    ("destroy", "broker"): ("before delete Deployment web",),
    ("destroy", "worker"): ("prelude",),
    ("destroy", "daemon"): ("after delete Namespace lease",),
}

FIXED = tuple(Cell(operation, event, victim) for (operation, victim), events in _EVENTS.items() for event in events)

_OFTEN = {
    "create": (("daemon", "before create Service web-ip-8080-tcp"),),
    "opened": (("broker", "waiting"),),
    "update": (("command line", "after delete Ingress old.host"), ("plugin", "before update Deployment web")),
    "destroy": (("plugin", "before delete Deployment web"), ("worker", "prelude")),
}

OFTEN = frozenset(Cell(operation, event, victim) for operation, deaths in _OFTEN.items() for victim, event in deaths)
