"""`lessor config`: every setting with its source, and every mistake before a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lease.exit_codes import FINE, SETTINGS, USAGE
from provider.cli import build_app


def lessor(*arguments: str, **environment: str):
    return CliRunner().invoke(build_app(), [*arguments], env={"COLUMNS": "300", **environment})


def test_each_value_is_shown_with_its_source_and_without_its_secret(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lessor.toml").write_text("stack_workers = 3\n")
    secret = "postgresql+asyncpg://lessor:hunter2@host/db"
    given = {"AP_HOME": str(tmp_path), "LESSOR_STORE_URL": secret, "AKASH_GAS": "auto"}
    done = lessor("config", "show", "--json", "--set", "--bid-timeout", "9m", **given)
    assert done.exit_code == FINE, done.output
    found = json.loads(done.stdout)
    assert found["settings"]["AP_BID_TIMEOUT"] == {"value": "9m", "source": "command line"}
    assert found["settings"]["LESSOR_STORE_URL"] == {"value": "***", "source": "environment"}
    assert found["settings"]["LESSOR_STACK_WORKERS"]["source"] == str(tmp_path / "config" / "lessor.toml")
    assert found["no_meaning"][0].startswith("AKASH_GAS: ") and "hunter2" not in done.output
    again = lessor("config", "show", "--output", "yaml", "--set", "--bid-timeout", "9m", **given)
    assert yaml.safe_load(again.stdout) == found


def test_mistakes_are_each_on_a_line_of_their_own(tmp_path: Path) -> None:
    done = lessor(
        "config",
        "check",
        "--policy-file",
        f"{tmp_path}/none.yaml",
        AP_HOME=str(tmp_path / "home"),
        KUBECONFIG=str(tmp_path / "none"),
        AP_BID_TIMEOUT="soon",
        LESSOR_NODE_CA_FILE=str(tmp_path / "ca.pem"),
        AP_NODE="https://rpc.example",
        LESSOR_MNEMONIC_FILE=str(tmp_path / "words"),
        LESSOR_STACK_SECRETS="vault",
        LESSOR_VAULT_TOKEN_FILE=str(tmp_path / "token"),
    )
    assert done.exit_code == SETTINGS
    lines = done.stderr.splitlines()
    for word in ("AP_BID_TIMEOUT", "LESSOR_POLICY_FILE", "KUBECONFIG", "ca.pem", "LESSOR_MNEMONIC_FILE", "token"):
        assert any(word in line and line.startswith("lessor: ") for line in lines), (word, lines)
    assert any("price" in line for line in lines)
    assert not (tmp_path / "home").exists()


def test_a_script_of_prices_must_be_there(tmp_path: Path) -> None:
    done = lessor("config", "check", "--bid-price-strategy=shellScript", f"--bid-price-script-path={tmp_path}/none")
    assert f"AP_BID_PRICE_SCRIPT_PATH={tmp_path}/none: No such file" in done.stderr


@pytest.mark.parametrize("command", [["run"], ["config", "check"], ["config", "show"]])
def test_an_option_that_is_no_setting_names_the_nearest(command: list[str]) -> None:
    done = lessor(*command, "--bid-prise-cpu-scale", "1")
    assert done.exit_code == USAGE
    assert "did you mean --bid-price-cpu-scale?" in done.stderr


def test_json_is_short_for_the_output_option_and_only_before_the_end_of_options() -> None:
    assert json.loads(lessor("config", "show", "--json", "--only", "BID_TIMEOUT").stdout)
    done = lessor("config", "show", "--output", "xml")
    assert done.exit_code == USAGE


@pytest.mark.parametrize("half", ["AP_CERT_ISSUER_KID", "AP_CERT_ISSUER_HMAC"])
def test_half_of_an_account_at_the_ca_is_a_mistake(half: str) -> None:
    ordering = {
        "AP_CERT_ISSUER_ENABLED": "true",
        "AP_CERT_ISSUER_CA_DIR_URL": "https://ca.example.com/dir",
        "AP_CLUSTER_PUBLIC_HOSTNAME": "provider.example.com",
    }
    done = lessor("config", "check", **ordering, **{half: "text"})
    assert "AP_CERT_ISSUER_KID and AP_CERT_ISSUER_HMAC belong together" in done.stderr
    both = {"AP_CERT_ISSUER_KID": "text", "AP_CERT_ISSUER_HMAC": "text"}
    assert "belong together" not in lessor("config", "check", **ordering, **both).stderr
