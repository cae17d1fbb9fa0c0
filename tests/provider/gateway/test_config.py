"""The gateway's part of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from provider.gateway.config import gateway_config
from provider.settings import Settings
from tests.provider.gateway.world import PROVIDER


@pytest.mark.parametrize(
    ("listen", "host", "port"), [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:8443", "::1", 8443), (":8443", "", 8443)]
)
def test_the_listen_address_becomes_host_and_port(tmp_path: Path, listen: str, host: str, port: int) -> None:
    config = gateway_config(Settings(home=tmp_path, gateway_listen=listen), PROVIDER)
    assert (config.host, config.port, config.data_dir, config.provider) == (host, port, tmp_path, PROVIDER)
