"""An operator's own rules: a file of Python with a list `RULES` (docs/policies.md)."""

from __future__ import annotations

import importlib.util
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from policies.errors import PolicyFileError
from policies.judge import RULES
from policies.rules import Check, ObjectProblem, Objects, Rule

__all__ = ["own_rules"]

_ID = re.compile(r"[a-z][a-z0-9-]{2,62}")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def own_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of the file, which is run as a program. Raises `PolicyFileError`.

    The rules are no fences: they judge what is new to a lease, and never the repair of what runs.
    """
    module = _run(path)
    found = getattr(module, "RULES", None)
    if not isinstance(found, list | tuple) or not all(isinstance(each, Rule) for each in found):
        raise PolicyFileError(path, ["it has no list RULES of policies.rules.Rule"])
    if problems := list(_problems(found)):
        raise PolicyFileError(path, problems)
    return tuple(replace(each, fence=False, topic="own", check=_guarded(each.check)) for each in found)


def _run(path: Path) -> ModuleType:
    try:
        if path.stat().st_mode & _WRITABLE_BY_OTHERS:
            raise PolicyFileError(path, ["others may write it, and it is run as a program: chmod go-w"])
        spec = importlib.util.spec_from_file_location(f"lessor_own_rules_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise PolicyFileError(path, ["it is no Python file: its name ends in .py"])
        module = importlib.util.module_from_spec(spec)
        writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = writing
    except OSError as error:
        raise PolicyFileError(path, [f"it cannot be read: {error.strerror or error}"]) from None
    except PolicyFileError:
        raise
    except Exception as error:
        raise PolicyFileError(path, [f"it failed with {type(error).__name__}: {error}"]) from None
    return module


def _problems(rules: Iterable[Rule]) -> Iterator[str]:
    known = {rule.id for rule in RULES}
    for rule in rules:
        if not _ID.fullmatch(rule.id):
            yield f"rule {rule.id!r}: an id has 3 to 63 lower-case letters, digits and dashes"
        if rule.id in known:
            yield f"rule {rule.id}: another rule has this id"
        if not rule.reason.strip() or not rule.remedy.strip():
            yield f"rule {rule.id}: reason and remedy are missing"
        known.add(rule.id)


def _guarded(check: Check) -> Check:
    """The check; a rule that fails is broken by what it judges, since nobody knows what it would have said."""

    def guarded(objects: Objects) -> Iterator[ObjectProblem]:
        try:
            yield from list(check(objects))
        except Exception as error:
            first = objects[0] if len(objects) else {}
            yield ObjectProblem(first, f"the rule failed with {type(error).__name__}: {str(error)[:200]}")

    return guarded
