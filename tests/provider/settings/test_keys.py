"""The key: the right address, and never in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from provider.chain.keys import key_from_mnemonic, load_key, open_to_others
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


@pytest.mark.parametrize(
    ("mode", "owner", "owning_group", "is_open"),
    [
        (0o600, 10001, 10001, False),
        (0o400, 10001, 10001, False),
        (0o440, 0, 10001, False),  # a Secret's volume in a pod with fsGroup
        (0o460, 0, 10001, True),
        (0o444, 0, 10001, True),
        (0o440, 0, 0, True),
        (0o440, 10001, 10001, True),  # other accounts of a machine may be in one's own group
        (0o440, 1, 10001, True),
    ],
)
def test_a_key_that_a_kubelet_mounts_is_private_although_the_pods_group_reads_it(
    mode: int, owner: int, owning_group: int, is_open: bool
) -> None:
    """A kubelet gives a Secret's file to root and to the pod's group: the provider refused its key in every pod."""
    assert open_to_others(mode, owner, owning_group, user=10001, group=10001) is is_open


def test_root_has_no_group_of_its_own_that_may_read_its_key() -> None:
    assert open_to_others(0o440, 0, 0, user=0, group=0)
