"""Removal of secrets from error texts: a tenant's secret must not appear in a log, a status or a store.

An error quotes a value in the form in which its program had it: plain, inside JSON or Go quotes, in a URL, or in base64
somewhere in the middle of a longer text (a Secret's data, a registry's `auth`). All of these forms are masked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any
from urllib.parse import quote, quote_plus

from lease.go_json import escape_html
from lease.spec import LeaseSpec, ServiceSpec
from stacks.common.results import StackResult

__all__ = ["SHORTEST", "forms", "mask", "mask_result", "mask_values"]

SHORTEST = 5
"""Shorter values ("1", "true") would mask every second word of a message and protect nothing."""
_SHORTEST_LINE = 8
"""The shortest masked line of a value with several lines, which an error indents or cuts: shorter lines ("{", "EOF")
reveal nothing.
"""
_SHORTEST_FRAGMENT = 6
"""The least characters of base64 that are masked; five bytes make at least that many which depend on nothing else."""
_SHOWN = "[secret]"
_NAMES = frozenset(
    {"op", "type", "name", "urn", "diff", "stack", "operation", "summary", "cause", "path", "kind", "spec_hash"}
)
"""Fields of results that name an object or a path. A secret value that equals a service's name is not masked there."""


def mask(text: str, spec: LeaseSpec | None) -> str:
    """`text` without any value of the tenant's environment and credentials; the provider's AKASH_* are no secret."""
    return _mask(text, _forms_of([spec])) if spec is not None and text else text


def mask_result(result: StackResult, specs: Iterable[LeaseSpec]) -> StackResult:
    """`result` without the secrets of any of `specs`, in its error and its old and new values."""
    masked: StackResult = _masked(result, _forms_of(specs))
    return masked


def mask_values(document: Any, spec: LeaseSpec) -> Any:
    """A JSON-like `document` without the secrets of `spec` in any of its texts; keys stay."""
    return _masked(document, _forms_of([spec]))


def forms(secret: str) -> Iterator[str]:
    """The forms in which `secret` may stand in a text; some may be equal."""
    yield from (secret, secret.strip())
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE)
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield from (escaped, escape_html(escaped), json.dumps(escaped)[1:-1])
    yield from (quote(secret), quote(secret, safe=""), quote_plus(secret))
    raw = secret.encode()
    yield from (raw.hex(), raw.hex().upper())
    for shift in range(3):
        yield from _fragments(raw, shift)


def _fragments(raw: bytes, shift: int) -> Iterator[str]:
    """The characters of base64 that depend on `raw` alone when `shift` bytes of other data stand before it."""
    whole = (shift + len(raw)) * 8 // 6  # characters whose six bits are all known
    first = -(-shift * 8 // 6)
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        fragment = encode(b"\0" * shift + raw).decode()[first:whole]
        if len(fragment) >= _SHORTEST_FRAGMENT:
            yield fragment


def _forms_of(specs: Iterable[LeaseSpec]) -> list[str]:
    """The forms of all secrets, the longest first, since a short value may be a part of a long one."""
    secrets = {secret for spec in specs for service in spec.services for secret in _secrets(service)}
    found = {form for secret in secrets if len(secret) >= SHORTEST for form in forms(secret)}
    return sorted((form for form in found if len(form) >= SHORTEST), key=len, reverse=True)


def _secrets(service: ServiceSpec) -> Iterator[str]:
    for variable in service.environment:
        if not variable.name.startswith("AKASH_"):
            yield variable.value.get_secret_value()
    if service.credentials is not None:
        password = service.credentials.password.get_secret_value()
        yield password
        if password:
            yield f"{service.credentials.username}:{password}"


def _mask(text: str, found: list[str]) -> str:
    for form in found:
        text = text.replace(form, _SHOWN)
    return text


def _masked(value: Any, found: list[str]) -> Any:
    """`value` with every text masked, except names."""
    if isinstance(value, str):
        return _mask(value, found)
    if isinstance(value, Mapping):
        return {key: _masked(item, found) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_masked(item, found) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [item.name for item in fields(value) if item.name not in _NAMES]
        return replace(value, **{name: _masked(getattr(value, name), found) for name in names})
    return value
