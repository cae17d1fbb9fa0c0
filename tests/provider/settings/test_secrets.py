"""What may hold a password is told to nobody."""

from __future__ import annotations

import pytest

from provider.market.pricing.script import script_environment
from provider.settings import Settings, load_settings

URL = "postgresql+asyncpg://lessor:hunter2@db.example/lessor"


def test_the_stores_url_is_opened_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSOR_STORE_URL", URL)
    settings = load_settings()
    assert settings.database_url == URL
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert Settings(store_url="").database_url.startswith("sqlite")


def test_price_scripts_get_neither_key_nor_store() -> None:
    ours = {"LESSOR_STORE_URL": URL, "LESSOR_MNEMONIC": "words", "LESSOR_MNEMONIC_FILE": "/etc/words", "PATH": "/bin"}
    given = script_environment(ours, owner="akash1", denom="uact")
    assert not {"LESSOR_STORE_URL", "LESSOR_MNEMONIC"} & set(given)
    assert given["PATH"] == "/bin"
