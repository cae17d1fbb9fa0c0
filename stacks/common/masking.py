"""Secrets out of error texts: what a tenant gave us must not come back in a log, a status or a store.

An error quotes a value as the speaker had it: as it is, inside JSON or Go quotes, in a URL, or in base64 somewhere in
the middle of a longer text (a Secret's data, a registry's `auth`), so all of these forms are looked for.
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
"""Shorter values ("1", "true") would blot out every second word of a message and protect nothing."""
_SHORTEST_LINE = 8
"""Of a value of several lines, which an error indents or cuts: shorter lines ("{", "EOF") say nothing."""
_SHORTEST_FRAGMENT = 6
"""Characters of base64; five bytes make at least so many that depend on nothing else."""
_SHOWN = "[secret]"
_NAMES = frozenset(
    {"op", "type", "name", "urn", "diff", "stack", "operation", "summary", "cause", "path", "kind", "spec_hash"}
)
"""Fields of results that say which object and which path; a value that happens to be a service's name is no secret."""


def mask(text: str, spec: LeaseSpec | None) -> str:
    """`text` without any value of the tenant's environment and credentials; the provider's AKASH_* are no secret."""
    return _mask(text, _forms_of([spec])) if spec is not None and text else text


def mask_result(result: StackResult, specs: Iterable[LeaseSpec]) -> StackResult:
    """`result` without the secrets of any of `specs`: its error, and what was changed from what to what."""
    masked: StackResult = _masked(result, _forms_of(specs))
    return masked


def mask_values(document: Any, spec: LeaseSpec) -> Any:
    """A JSON-like `document` without the secrets of `spec` in any of its texts; keys stay."""
    return _masked(document, _forms_of([spec]))


def forms(secret: str) -> Iterator[str]:
    """How `secret` may stand in a text; some are the same."""
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
    """The characters of base64 that depend on `raw` alone when `shift` bytes of something else stand before it."""
    whole = (shift + len(raw)) * 8 // 6  # characters whose six bits are all known
    first = -(-shift * 8 // 6)
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        fragment = encode(b"\0" * shift + raw).decode()[first:whole]
        if len(fragment) >= _SHORTEST_FRAGMENT:
            yield fragment


def _forms_of(specs: Iterable[LeaseSpec]) -> list[str]:
    """The longest first: a short value may be a part of a long one."""
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
    """Every text in `value`, whatever a result may come to carry, except names."""
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
