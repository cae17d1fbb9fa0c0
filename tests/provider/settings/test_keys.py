"""The key: the right address, and never in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from provider.chain.keys import key_from_mnemonic, load_key
from provider.errors import SettingsError
from provider.settings import Settings
from tests.data import document

WORDS = " ".join(["abandon"] * 23 + ["art"])


def secret(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_addresses_are_those_of_the_recorded_chain() -> None:
    genesis = document("recordings/chain/genesis.json")
    for account in genesis["accounts"]:
        key = key_from_mnemonic(genesis["mnemonic"], index=account["hd_index"])
        assert key.address == account["address"]


def test_the_key_comes_from_a_private_file(tmp_path: Path) -> None:
    by_words = load_key(Settings(mnemonic_file=secret(tmp_path / "words", WORDS + "\n"), key_index=2))
    raw = secret(tmp_path / "raw", by_words.private_bytes.hex())
    assert load_key(Settings(private_key_file=raw)).address == by_words.address
    begun_by_an_editor = secret(tmp_path / "marked", f"\ufeff{WORDS}\r\n")
    assert load_key(Settings(mnemonic_file=begun_by_an_editor, key_index=2)).address == by_words.address
    assert by_words.private_bytes.hex() not in repr(by_words)
    assert len(by_words.public_bytes) == 33


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SettingsError, match=r"LESSOR_MNEMONIC_FILE.*chmod 600"):
        load_key(Settings(mnemonic_file=secret(tmp_path / "words", WORDS, mode)))


@pytest.mark.parametrize("text", ["", "abandon", WORDS + " art", "zzz " * 24, "\x00"])
def test_a_bad_mnemonic_is_refused_without_a_word_of_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_key(Settings(mnemonic_file=secret(tmp_path / "words", text)))
    assert "BIP-39" in str(error.value)
    assert "abandon" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "00" * 32, "ff" * 32, "xy" * 32, "ab" * 31])
def test_a_bad_private_key_is_refused_without_a_digit_of_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="LESSOR_PRIVATE_KEY_FILE") as error:
        load_key(Settings(private_key_file=secret(tmp_path / "raw", text)))
    assert not text or text not in str(error.value)


def test_no_source_and_two_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="none is set"):
        load_key(Settings())
    with pytest.raises(SettingsError, match="LESSOR_MNEMONIC_FILE and LESSOR_MNEMONIC are set"):
        load_key(Settings(mnemonic=WORDS, mnemonic_file=secret(tmp_path / "words", WORDS)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"{tmp_path}/gone"):
        load_key(Settings(mnemonic_file=tmp_path / "gone"))


def test_a_key_of_another_account_is_refused() -> None:
    other = key_from_mnemonic(WORDS, index=5).address
    with pytest.raises(SettingsError, match="AP_FROM"):
        load_key(Settings(mnemonic=WORDS, provider_address=other))
