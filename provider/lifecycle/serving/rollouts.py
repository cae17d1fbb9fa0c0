"""Rollouts that wait: services that another builder made, that run as they were, and that this builder would roll
(pure).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.errors import BuildError
from components.workload import workload_object
from lease.spec import KeptWorkload, LeaseSpec, ServiceSpec
from provider.lifecycle.additions import named
from provider.lifecycle.drift import differences
from provider.lifecycle.serving.upgrade import FIXED

__all__ = ["pending"]

_DEFAULTED: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "failureThreshold": 3,
    "imagePullPolicy": "IfNotPresent",
    "periodSeconds": 10,
    "protocol": "TCP",
    "restartPolicy": "Always",
    "revisionHistoryLimit": 10,
    "schedulerName": "default-scheduler",
    "successThreshold": 1,
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
}
"""Defaults that an API server adds to a pod template."""
_MIRRORED = "serviceAccount"
"""An older name of serviceAccountName, which every API server fills in."""


def pending(spec: LeaseSpec) -> tuple[str, ...]:
    """A text for each service that would be rolled, with the paths (never the values, which may be secret)."""
    plain = spec.model_copy(update={"kept": ()})
    texts = (_rollout(plain, service, spec.kept) for service in spec.services)
    return tuple(text for text in texts if text)


def _rollout(plain: LeaseSpec, service: ServiceSpec, kept: Iterable[KeptWorkload]) -> str:
    fields = next((item.fields for item in kept if item.service == service.name), None)
    if fields is None:
        return ""
    try:
        wanted = workload_object(plain, service)["spec"]
    except BuildError as error:
        return f"service {service.name}: {error}"
    rolling = {name: value for name, value in fields.items() if not (service.persistent and name in FIXED)}
    paths = [path for name, value in rolling.items() for path in _paths(wanted.get(name), value, name)]
    return f"service {service.name}: {', '.join(dict.fromkeys(paths))}" if paths else ""


def _paths(wanted: Any, found: Any, name: str) -> Iterable[str]:
    yield from differences(wanted, found, name)
    yield from _going(wanted, found, name)


def _going(wanted: Any, found: Any, path: str) -> Iterable[str]:
    """Paths that only the older template has. `differences` reports lists of other lengths and values that differ."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key, value in found.items():
            if key in wanted:
                yield from _going(wanted[key], value, f"{path}.{key}")
            elif value not in (None, "", {}, []) and key != _MIRRORED and _DEFAULTED.get(key) != value:
                yield f"{path}.{key}"
    elif isinstance(found, list) and isinstance(wanted, list):
        yield from _items_going(wanted, found, path)


def _items_going(wanted: list[Any], found: list[Any], path: str) -> Iterable[str]:
    new, old = named(wanted), named(found)
    if new is not None and old is not None:
        for name, item in old.items():
            if name in new:
                yield from _going(new[name], item, f"{path}[{name}]")
            else:
                yield f"{path}[{name}]"
        return
    for index, (new_item, old_item) in enumerate(zip(wanted, found, strict=False)):
        yield from _going(new_item, old_item, f"{path}[{index}]")
