"""The schema of the custom resource Manifest refuses and drops nothing of a manifest that a tenant may send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from lease.sdl import read_sdl
from provider.records.go_form import encode_group
from stacks.cluster.crds import SERVICE
from tests.data import SDL
from tests.whole.corpus.documents import valid_names


@pytest.mark.parametrize("name", valid_names())
def test_every_manifest_of_the_corpus_is_stored_whole(name: str) -> None:
    sdl = read_sdl((SDL / f"{name}.yaml").read_bytes(), file=name)
    services = [service for group in sdl.manifest for service in encode_group(group, {})["services"]]
    assert [problem for service in services for problem in problems(SERVICE, service, service["name"])] == []


def problems(schema: Any, value: Any, path: str) -> Iterator[str]:
    """What an API server would refuse or drop of a value, as far as our schemas have rules."""
    if value is None:
        yield from () if schema.nullable else (f"{path} must not be null",)
    elif schema.type == "object":
        for key, item in value.items():
            known = schema.properties.get(key)
            yield from problems(known, item, f"{path}.{key}") if known else (f"{path}.{key} would be dropped",)
    elif schema.type == "array":
        for number, item in enumerate(value):
            yield from problems(schema.items, item, f"{path}[{number}]")
    elif schema.type in ("integer", "number"):
        if not (schema.minimum or 0) <= value <= schema.maximum:
            yield f"{path}: {value} is not within {schema.minimum} and {schema.maximum}"
    elif schema.type == "string" and not re.search(schema.pattern or "", value):
        yield f"{path}: {value!r} is not {schema.pattern}"
    elif schema.type == "string" and len(value) > (schema.max_length or len(value)):
        yield f"{path}: {value!r} is too long"
