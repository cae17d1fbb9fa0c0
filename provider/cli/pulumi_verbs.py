"""What a Pulumi command line is about to do: only look, change something, or what no lease's stack can."""

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
    """`name` has one or two words and never a value, which may be secret. `arguments` are what the command line gets.

    `operation`: the kind of engine run that it is written down as.
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
"""Flags without a value. Beside any other a word like one of these may be its value (`--message --preview-only`), or be
taken back (`--preview-only=false`): then it may change something.
"""
_ASKING = frozenset(
    {
        *("cancel", "destroy", "import", "refresh", "stack rm", "state delete", "state move", "state protect"),
        *("state rename", "state repair", "state unprotect"),
    }
)
"""Verbs with a question of their own, which `--yes` answers."""
_KNOWN = (
    _READING
    | _PROGRAMS
    | _ASKING
    | {"config rm", "config set", "config set-all", "plugin install", "plugin rm", "stack import", "stack init"}
    | {"stack change-secrets-provider", "stack rename", "stack select", "stack tag", "stack unselect"}
)
_NOBODY = "--client=127.0.0.1:1"
"""A language host that is never called; else the command line looks for Python's, which a lease has no use for."""


def verb_of(arguments: Sequence[str], *, yes: bool = False) -> Verb:
    """What these arguments mean. Whatever is not known to only read changes something; `yes` goes on to the verb.

    Flags in front of the verb hide it, so such a command line counts as one that changes something.
    """
    words = [*arguments]
    name = _name(words)
    operation = _OPERATIONS.get(name, Operation.STATE)
    return Verb(name, _effect(name, words), (*words, *_added(name, words, yes)), operation)


def _name(words: Sequence[str]) -> str:
    """The verb, only if it is one we know: anything else may be a value at a wrong place."""
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
        added.append(_NOBODY)
    if yes and name in _ASKING and not helps and not {"--yes", "-y"} & set(words):
        added.append("--yes")
    return added
