"""The documents that run on the real node are valid orders and manifests, however small they were made."""

from __future__ import annotations

import pytest

from lease.validation import cross_validate, validate_manifest
from lease.validation.groups import group_problems
from tests.whole.corpus.documents import NEVER_BID, valid_names
from tests.whole.node.scaled import scaled_document


@pytest.mark.parametrize("name", [name for name in valid_names() if name not in NEVER_BID])
def test_a_scaled_document_is_still_valid(name: str) -> None:
    sdl = scaled_document(name, number=7)
    assert list(group_problems(sdl.groups)) == []
    validate_manifest(sdl.manifest)
    cross_validate(sdl.manifest, sdl.groups)
