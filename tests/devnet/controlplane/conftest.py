"""These tests need no Pulumi."""

from __future__ import annotations

import pytest

from devnet.errors import DevnetError
from devnet.tools import CONTROL_PLANE, Toolbox, ensure_tools


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    """The control plane's tools; a test that needs them fails with the remedy when they are missing."""
    try:
        return ensure_tools(CONTROL_PLANE, build=False)
    except DevnetError as error:
        pytest.fail(str(error), pytrace=False)
