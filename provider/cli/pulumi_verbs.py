"""The effect of a Pulumi command line: it reads, it changes something, or it needs a program, which no lease has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stacks.common import Operation

__all__ = ["Effect", "Verb", "verb_of"]


class Effect(StrEnum):
    READS = "reads"
    CHANGES = "changes"
    NEEDS_PROGRAM = "needs a program"


@dataclass(frozen=True, slots=True)
class Verb:
    """`name` has one or two words and never holds a value, which may be secret. `arguments` go to the command line.

    `operation`: the kind of run that the history records.
    """

    name: str
    effect: Effect
    arguments: tuple[str, ...]
    operation: Operation


_GROUPS = frozenset({"config", "plugin", "policy", "stack", "state"})
_READING = frozenset(
    {
        *("about", "config", "config get", "help", "logs", "plugin ls", "schema", "stack", "stack export"),
        *("stack graph", "stack history", "stack ls", "stack output", "version", "whoami"),
    }
)
_PROGRAMS = frozenset({"convert", "new", "preview", "pre", "up", "update", "watch", "install"})
_ALIASES = {"dn": "destroy", "down": "destroy"}
_OPERATIONS = {"destroy": Operation.DESTROY, "refresh": Operation.REFRESH}
_WITHOUT_HOST = frozenset({"destroy", "refresh"})
_HELP = frozenset({"--help", "-h"})
_ALONE = frozenset(
    {"--preview-only", "--diff", "--json", "-j", "--non-interactive", "--show-sames", "--suppress-outputs"}
)
"""Flags without a value. Beside any other flag a word like one of these may be that flag's value (`--message
--preview-only`) or be undone (`--preview-only=false`), so such a command line may change something.
"""
_ASKING = frozenset(
    {
        *("cancel", "destroy", "import", "refresh", "stack rm", "state delete", "state move", "state protect"),
        *("state rename", "state repair", "state unprotect"),
    }
)
"""Verbs that ask for confirmation, which `--yes` answers."""
_KNOWN = (
    _READING
    | _PROGRAMS
    | _ASKING
    | {"config rm", "config set", "config set-all", "plugin install", "plugin rm", "stack import", "stack init"}
    | {"stack change-secrets-provider", "stack rename", "stack select", "stack tag", "stack unselect"}
)
_UNUSED_HOST = "--client=127.0.0.1:1"
"""A language host that Pulumi never calls. Without the flag Pulumi looks for Python's host, which no lease needs."""


def verb_of(arguments: Sequence[str], *, yes: bool = False) -> Verb:
    """The verb of these arguments. A verb that is not known to only read counts as one that changes something, and so
    do flags before the verb, which hide it. `yes` adds the verb's own flag `--yes`.
    """
    words = [*arguments]
    name = _name(words)
    operation = _OPERATIONS.get(name, Operation.STATE)
    return Verb(name, _effect(name, words), (*words, *_added(name, words, yes)), operation)


def _name(words: Sequence[str]) -> str:
    """The verb if it is known; otherwise a description, since an unknown word may be a secret value."""
    if not words:
        return "help"
    first = _ALIASES.get(words[0], words[0])
    if first.startswith("-"):
        return "with flags in front"
    if first not in _GROUPS:
        return first if first in _KNOWN else "another verb"
    if len(words) > 1 and not words[1].startswith("-"):
        name = f"{first} {words[1]}"
        return name if name in _KNOWN else f"{first}, another verb"
    # a word behind flags may be their value or the verb
    return first if all(word.startswith("-") for word in words[1:]) else f"{first}, another verb"


def _effect(name: str, words: Sequence[str]) -> Effect:
    flags = {word for word in words if word.startswith("-")}
    if not words or words == ["--version"] or (flags and flags <= _HELP):
        return Effect.READS
    if name in _PROGRAMS or "--run-program" in flags or "--run-program=true" in flags:
        return Effect.NEEDS_PROGRAM
    if name in _WITHOUT_HOST and "--preview-only" in words and set(words[1:]) <= _ALONE:
        return Effect.READS
    return Effect.READS if name in _READING else Effect.CHANGES


def _added(name: str, words: Sequence[str], yes: bool) -> list[str]:
    helps = _HELP & set(words)
    added = []
    if name in _WITHOUT_HOST and not helps and not any(word.startswith("--client") for word in words):
        added.append(_UNUSED_HOST)
    if yes and name in _ASKING and not helps and not {"--yes", "-y"} & set(words):
        added.append("--yes")
    return added
