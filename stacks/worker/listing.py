"""The lease program as a list of registrations, which the resident engine runs without Pulumi's SDK.

The components run as ever. While they run, the call by which a resource asks the engine to register it is replaced: its
request is noted instead, as the SDK would send it. No engine has answered yet: where a request needs the URN or the id
of an earlier resource, it has a mark and the resource's number, and the resident engine puts in what stands there. An
option or a value that a list could not carry is an error, never left out.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

from pulumi import CustomResource, Output, Resource, ResourceHookBinding, ResourceOptions, resource
from pulumi.runtime import reset_options
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import Stack

from stacks.common.errors import OperationRefused

__all__ = ["Listing", "list_program"]

Listing = dict[str, Any]
"""`mark`, and `resources` in the program's order: `request` (a RegisterResourceRequest of Pulumi as JSON) and `outputs`
(those that the resource registers; None: none). `<mark>3.urn` stands for the URN of the fourth resource.
"""

_SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
"""Pulumi's mark of a secret value on the wire."""
_ACCEPTED = ("acceptSecrets", "acceptResources", "supportsPartialValues", "supportsResultReporting")
_CARRIED = {
    "parent",
    "depends_on",
    "provider",
    "providers",
    "version",
    "additional_secret_outputs",
    "ignore_changes",
    "retain_on_delete",
    "deleted_with",
    "transformations",
}
"""Options that a list carries; transformations have run by then."""


def list_program(program: Callable[[], None], *, project: str, stack: str) -> Listing:
    """The registrations of `program`. Raises what the program raises, and `OperationRefused` for what a list cannot
    carry.
    """
    return contextvars.copy_context().run(_listed, program, project, stack)


def _listed(program: Callable[[], None], project: str, stack: str) -> Listing:
    reset_options(project=project, stack=stack, monitor_address=None, engine_address=None, organization="organization")
    with asyncio.Runner() as runner:
        return runner.run(_Recorder().run(program))


class _Recorder:
    def __init__(self) -> None:
        self._mark = f"{token_hex(16)}-"  # random, so that no tenant's text can contain it
        self._numbers: dict[Resource, int] = {}
        self._resources: list[dict[str, Any]] = []

    async def run(self, program: Callable[[], None]) -> Listing:
        with self._noting():
            root = Stack()
            program()
            root._finish()
        while SETTINGS.outputs:
            await asyncio.wait([*SETTINGS.outputs])
        return {"mark": self._mark, "resources": _plain(self._resources)}

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Replace both calls to the engine; private names of the SDK, which is pinned."""
        names = vars(resource)
        replaced = {"register_resource": self._register, "register_resource_outputs": self._register_outputs}
        kept = {name: names[name] for name in replaced}
        names.update(replaced)
        try:
            yield
        finally:
            names.update(kept)

    def _register(self, *asked: Any) -> None:
        made, type_, name, custom, remote, _, properties, options, *typed = asked
        given = {key for key, value in vars(options).items() if _is_given(value)}
        if remote or any(typed) or not given <= _CARRIED:
            raise OperationRefused(f"{type_} {name}: a list cannot carry {sorted(given - _CARRIED) or 'its kind'}")
        request = {
            "type": type_,
            "name": name,
            "custom": custom,
            "parent": self._parent(options),
            "object": properties,
            "propertyDependencies": {key: {} for key in properties},
            "version": options.version or "",
            **self._references(options, custom=custom),
            "additionalSecretOutputs": options.additional_secret_outputs or [],
            "ignoreChanges": options.ignore_changes or [],
            **dict.fromkeys(_ACCEPTED, True),
        }
        if options.retain_on_delete is not None:
            request["retainOnDelete"] = options.retain_on_delete
        self._resources.append({"request": request, "outputs": None})
        self._numbers[made] = len(self._numbers)

    def _references(self, options: ResourceOptions, *, custom: bool) -> dict[str, Any]:
        providers: Any = {} if custom else options.providers or {}
        awaited: Any = options._depends_on_list()
        if not all(isinstance(item, CustomResource) for item in awaited):
            raise OperationRefused("a list carries dependencies on custom resources only")
        return {
            "provider": self._provider(options.provider) if custom and options.provider else "",
            "providers": {package: self._provider(each) for package, each in providers.items()},
            "dependencies": [self._urn(item) for item in awaited],
            "deletedWith": self._urn(options.deleted_with) if options.deleted_with else "",
        }

    def _parent(self, options: ResourceOptions) -> str:
        """The parent of a resource that names none is the stack, which is the first and has none itself."""
        parent = options.parent or next(iter(self._numbers), None)
        return self._urn(parent) if parent else ""

    def _urn(self, made: Any) -> str:
        return f"{self._mark}{self._numbers[made]}.urn"

    def _provider(self, made: Any) -> str:
        return f"{self._urn(made)}::{self._mark}{self._numbers[made]}.id"

    def _register_outputs(self, made: Resource, outputs: Any) -> None:
        self._resources[self._numbers[made]]["outputs"] = outputs


def _is_given(value: Any) -> bool:
    """Whether an option is set; a merge of options leaves an empty set of hooks."""
    return any(vars(value).values()) if isinstance(value, ResourceHookBinding) else value not in (None, [], {})


def _plain(value: Any) -> Any:
    """The value as the SDK would send it. Raises `TypeError` for a value whose form only an engine knows."""
    match value:
        case str() | int() | float() | None:
            return value
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case Output():
            return _opened(value._data.result())
    raise OperationRefused(f"a list cannot carry a value of {type(value).__name__}")


def _opened(data: Any) -> Any:
    """The value of an Output that was made of plain values."""
    if data.resources or not data.is_known:
        raise OperationRefused("a list cannot carry a value that depends on a resource")
    plain = _plain(data.value)
    return {**_SECRET, "value": plain} if data.is_secret else plain
