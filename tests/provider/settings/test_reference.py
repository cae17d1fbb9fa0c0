"""The reference of settings: generated from the model, complete, and silent about secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lease.exit_codes import SETTINGS
from provider.cli import build_app
from provider.cli.settings import setting_lines
from provider.errors import SettingsError
from provider.settings import Settings, load_settings
from provider.settings.reference import markdown, sections

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("lease", "components", "policies", "stacks", "provider", "devnet", "tools")
_NAME = re.compile(r"(?<![A-Za-z0-9_…])(?:LESSOR|AP)_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_…])")
_SETTINGS = {setting.name: setting for section in sections() for setting in section.settings}


def _names(path: Path) -> set[str]:
    return set(_NAME.findall(path.read_text(encoding="utf-8")))


def test_the_document_is_what_the_model_generates() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == markdown(), "run `make docs`"


def test_every_setting_of_the_model_is_in_one_section() -> None:
    names = [setting.name for section in sections() for setting in section.settings]
    assert sorted(names) == sorted(Settings.model_fields)


@pytest.mark.parametrize("name", sorted(_SETTINGS))
def test_a_description_is_a_sentence(name: str) -> None:
    description = _SETTINGS[name].description
    assert re.fullmatch(r"[A-Z`0].{20,300}\.", description), description


@pytest.mark.parametrize("package", PACKAGES)
def test_every_variable_that_a_package_names_is_in_the_document(package: str) -> None:
    sources = [*(ROOT / package).rglob("*.py"), *(ROOT / package).glob("langhost/*")]
    used = {name: path.name for path in sources if path.is_file() for name in _names(path)}
    missing = used.keys() - _names(ROOT / "docs" / "settings.md")
    assert not {name: used[name] for name in missing}


def test_every_variable_that_a_document_names_exists() -> None:
    known = _names(ROOT / "docs" / "settings.md")
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "Pulumi.example.yaml"]
    assert not {str(path): _names(path) - known for path in documents if _names(path) - known}


def test_a_default_of_the_document_is_the_models_default(monkeypatch) -> None:
    for setting in _SETTINGS.values():
        for variable in setting.variables:
            monkeypatch.delenv(variable, raising=False)
    plain = load_settings()
    given = {name: setting for name, setting in _SETTINGS.items() if setting.default and name != "home"}
    for setting in given.values():
        monkeypatch.setenv(setting.variables[0], setting.default)
    assert load_settings().model_dump(include=set(given)) == plain.model_dump(include=set(given))


def test_the_listing_names_value_and_source() -> None:
    setting = _SETTINGS["node"]
    first, second = setting_lines(setting, {"AKASH_NODE": "https://node.example", "AP_NODE": ""})
    assert first == "AKASH_NODE = https://node.example  [environment]"
    assert setting.description in second
    assert next(setting_lines(setting, {})) == "AP_NODE = http://127.0.0.1:26657  [default]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mnemonic", "hunter2 hunter2"),
        ("store_url", "postgresql+asyncpg://lessor@host/hunter2"),
        ("stack_backend", "postgres://lessor:hunter2@host/state"),
        ("stack_backend", "postgres://lessor:hunter2/p@rt@host/state"),
        ("stack_backend", "postgres://host/state?user=lessor&password=hunter2"),
        ("vault_url", "https://lessor:hunter2@vault.example"),
        ("node", "https://rpc.example/hunter2hunter2hunter2"),
        ("more_nodes", "https://a.example,https://rpc.example/v1/hunter2hunter2hunter2/rpc"),
        ("node", "https://rpc.example/?api=hunter2hunter2hunter2"),
    ],
)
def test_the_listing_shows_no_secret(name: str, value: str) -> None:
    setting = _SETTINGS[name]
    lines = "\n".join(setting_lines(setting, {setting.variables[0]: value}))
    assert "***" in lines
    assert "hunter2" not in lines


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node", "https://akash-rpc-01.datacenter-2.example.com:443/rpc/v1,http://127.0.0.1:26657"),
        ("stack_backend", "s3://stacks-of-provider-2026/akash?region=us-east-1"),
    ],
)
def test_the_listing_shows_an_address_without_a_secret_whole(name: str, value: str) -> None:
    setting = _SETTINGS[name]
    assert f" = {value}  [environment]" in next(setting_lines(setting, {setting.variables[0]: value}))


def test_the_error_of_a_wrong_address_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AP_NODE", "htps://rpc.example/hunter2hunter2hunter2")
    with pytest.raises(SettingsError, match="AP_NODE") as raised:
        load_settings()
    assert "hunter2" not in str(raised.value) and "rpc.example" in str(raised.value)


def test_the_command_lists_what_is_set_and_what_is_no_setting() -> None:
    given = {"AP_HOME": "/x", "LESSOR_MNEMONIC_FILES": "/y"}
    done = CliRunner().invoke(build_app(), ["settings", "home", "--set"], env=given)
    assert done.exit_code == SETTINGS, done.output
    assert "AP_HOME = /x  [environment]" in done.stdout
    assert "LESSOR_MNEMONIC_FILES is no setting; did you mean LESSOR_MNEMONIC_FILE?" in done.stderr


def test_the_command_ends_with_78_when_a_value_is_wrong() -> None:
    done = CliRunner().invoke(build_app(), ["settings", "timeout"], env={"AP_BID_TIMEOUT": "soon"})
    assert done.exit_code == SETTINGS
    assert "AP_BID_TIMEOUT = soon  [environment]" in done.stdout
    assert "AP_BID_TIMEOUT='soon': not a duration" in " ".join(done.stderr.split())
