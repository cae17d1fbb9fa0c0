"""Names of engine events that are the same in every run, and the order in which a reader wants to see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["event_name", "in_order"]

_STEPS = {"resourcePreEvent": "before", "resOutputsEvent": "after", "resOpFailedEvent": "failed"}
_ENDS = {"preludeEvent": "prelude", "summaryEvent": "summary", "cancelEvent": "cancel"}


def event_name(event: dict[str, Any], short: Callable[[str], str]) -> str | None:
    """`before create Deployment web`, `prelude`, `summary`, `cancel`; None for what is no event of the engine's work
    (log lines and progress, whose number differs from run to run).
    """
    for key, word in _ENDS.items():
        if key in event:
            return word
    for key, word in _STEPS.items():
        if key in event:
            metadata = event[key]["metadata"]
            name = short(metadata["urn"].rpartition("::")[2])
            return f"{word} {metadata['op']} {_kind(metadata['type'])} {name}"
    return None


def in_order(names: Iterable[str]) -> list[str]:
    """Not the order of one run, which differs: the prelude, resources by operation, kind and name, the end."""
    return sorted(set(names), key=_place)


def _place(name: str) -> tuple[int, str, str]:
    if name in _ENDS.values():
        return (0 if name == "prelude" else 4 if name == "cancel" else 3, "", "")
    word, _, rest = name.partition(" ")
    return (1, rest.partition(" ")[2], {"before": "0", "after": "1"}.get(word, "2") + rest)


def _kind(token: str) -> str:
    """`lessor:lease:Service` is a part of ours, `kubernetes:core/v1:Service` an object."""
    if token.startswith("pulumi:providers:"):
        return "provider"
    kind = token.rpartition(":")[2]
    return f"{kind} (part)" if token.startswith("lessor:") else kind
