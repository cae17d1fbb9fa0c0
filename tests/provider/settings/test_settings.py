"""Settings from the environment: the Go provider's names, and errors that name variable, value and remedy."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.errors import SettingsError
from provider.settings import load_settings, unknown_variables
from provider.units import (
    Coin,
    parse_address_range,
    parse_coin,
    parse_duration,
    parse_quantity,
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith(("AP_", "AKASH_", "LESSOR_")) or name == "KUBECONFIG":
            monkeypatch.delenv(name)


def test_what_is_not_set_has_the_go_providers_default() -> None:
    settings = load_settings()
    assert settings.node == "http://127.0.0.1:26657"
    assert settings.bid_deposit == Coin("uakt", Decimal(500000))
    assert settings.gas_prices == Coin("uakt", Decimal("0.025"))
    assert (settings.bid_timeout, settings.manifest_namespace) == (300, "lease")
    assert settings.database_url == f"sqlite+aiosqlite:///{Path.home()}/.lessor/lessor.db"


def test_defaults_that_differ_from_the_go_provider() -> None:
    settings = load_settings()
    assert (settings.home, settings.rpc_timeout) == (Path.home() / ".lessor", 10)


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("AP_NODE", "tcp://node.example:26657", "node", "http://node.example:26657"),
        ("AKASH_NODE", "https://rpc.example/akash/", "node", "https://rpc.example/akash"),
        ("AP_BID_PRICE_CPU_SCALE", "4e-3", "cpu_scale", Decimal("0.004")),
        ("AP_BID_PRICE_STORAGE_SCALE", "1,b=2,b=3", "storage_scale", {"ephemeral": Decimal(1), "b": Decimal(3)}),
        ("AP_BID_TIMEOUT", "1h30m", "bid_timeout", 5400),
        ("AP_BID_TIMEOUT", "0", "bid_timeout", 0),
        ("AP_OVERCOMMIT_PCT_CPU", "50", "overcommit_cpu", 50),
        ("AP_DEPLOYMENT_BLOCKED_HOSTNAMES", "a.com, .b.com", "blocked_hostnames", ("a.com", ".b.com")),
        ("LESSOR_STORAGE_CLASSES", "beta2=1Gi,beta3=2k", "storage_classes", {"beta2": 2**30, "beta3": 2000}),
        ("LESSOR_INVENTORY_ENDPOINT", "http://10.0.0.1:8080/", "inventory_endpoint", "http://10.0.0.1:8080"),
        ("LESSOR_INVENTORY_ENDPOINT", "off", "inventory_endpoint", "off"),
        ("KUBECONFIG", "/x/config", "kubeconfig", Path("/x/config")),
        ("AP_GAS_PRICES", "", "gas_prices", Coin("uakt", Decimal("0.025"))),
    ],
)
def test_a_variable_sets_its_field(monkeypatch, variable: str, text: str, field: str, value: object) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(load_settings(), field) == value


def test_the_ap_name_wins_over_the_akash_name_and_code_over_both(monkeypatch) -> None:
    monkeypatch.setenv("AKASH_CHAIN_ID", "akash")
    monkeypatch.setenv("AP_CHAIN_ID", "ap")
    assert load_settings().chain_id == "ap"
    assert load_settings(chain_id="code").chain_id == "code"


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("AP_NODE", "localhost:26657", ("http://host:port",)),
        ("AP_NODE", "http://user:pw@host", ("without user and password",)),
        ("AP_NODE", "http://[", ("http://host:port",)),
        ("AP_NODE", "https://node.example,http://node.example:99999", ("http://host:port",)),
        ("AP_NODE", "http://node.example:port", ("http://host:port",)),
        ("AP_NODE", "http://:26657", ("http://host:port",)),
        ("AP_BID_DEPOSIT", "5", ("500000uakt",)),
        ("AP_BID_DEPOSIT", "0.5uakt", ("whole",)),
        ("AP_BID_PRICE_CPU_SCALE", "-1", ("0 or more",)),
        ("AP_BID_PRICE_CPU_SCALE", "nan", ("finite",)),
        ("AP_BID_PRICE_STRATEGY", "magic", ("scale",)),
        ("AP_GAS_ADJUSTMENT", "0.5", ("greater than or equal to 1",)),
        ("AP_FROM", "cosmos1abc", ("akash1",)),
        ("AP_GATEWAY_LISTEN_ADDRESS", "0.0.0.0:99999", ("host:port",)),
        ("LESSOR_IP_RANGES", "203.0.113.9-203.0.113.1", ("not be below",)),
        ("LESSOR_IP_RANGES", "203.0.113.0-2001:db8::1", ("one family",)),
        ("LESSOR_STORAGE_CLASSES", "beta2=lots", ("quantity",)),
        ("LESSOR_INVENTORY_ENDPOINT", "operator:8080", ("http://host:port",)),
        ("LESSOR_CLOSE_CONFIRMATIONS", "1", ("greater than or equal to 2",)),
        ("AP_DEPLOYMENT_INGRESS_STATIC_HOSTS", "true", ("AP_DEPLOYMENT_INGRESS_DOMAIN",)),
    ],
)
def test_a_wrong_value_names_the_variable_and_what_is_allowed(monkeypatch, variable: str, text: str, words) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(SettingsError) as error:
        load_settings()
    for word in (variable, *words):
        assert word in str(error.value)


def test_every_wrong_variable_is_named_at_once(monkeypatch) -> None:
    monkeypatch.setenv("AP_GAS_ADJUSTMENT", "x")
    monkeypatch.setenv("AP_BID_TIMEOUT", "y")
    with pytest.raises(SettingsError, match=r"AP_GAS_ADJUSTMENT='x'.*AP_BID_TIMEOUT='y'"):
        load_settings()


def test_a_secret_is_in_no_text(monkeypatch) -> None:
    monkeypatch.setenv("LESSOR_MNEMONIC", "abandon ability")
    settings = load_settings()
    assert "abandon" not in f"{settings!r}{settings.model_dump_json()}"


def test_an_unknown_field_in_code_is_refused() -> None:
    with pytest.raises(SettingsError, match="no such setting"):
        load_settings(nodee="x")


@pytest.mark.parametrize(("text", "seconds"), [("1h", 3600), ("1.5s", 1.5), ("250ms", 0.25), ("2m3s", 123), ("0", 0)])
def test_durations_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1 s", "1d", "١s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", "0.1"),
        ("1Gi", "1073741824"),
        ("1.5", "1.5"),
        ("2e3", "2000"),
        ("2E", str(2 * 10**18)),
        (7, "7"),
        (".5", "0.5"),
    ],
)
def test_quantities_are_exact(text: str | int, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@given(st.text(max_size=20))
def test_no_text_makes_the_parsers_fail_in_another_way_than_by_a_value_error(text: str) -> None:
    for parse in (parse_quantity, parse_duration, parse_coin, parse_address_range):
        try:
            parse(text)
        except ValueError:
            continue


def test_a_range_counts_its_addresses() -> None:
    found = parse_address_range("203.0.113.250-203.0.114.5")
    assert found.size == 12
    assert (found.at(0), found.at(11)) == ("203.0.113.250", "203.0.114.5")
    assert parse_address_range("2001:db8::/120").size == 256


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LESSOR_STORAGE_CLASSES", "beta2=-1Gi"),
        ("LESSOR_STORAGE_CLASSES", "=1Gi"),
        ("LESSOR_API_SERVER_ENDPOINTS", "kubernetes.example.com"),
        ("LESSOR_API_SERVER_ENDPOINTS", "192.0.2.1:6443,192.0.2.2:99999"),
        ("AP_DEPLOYMENT_INGRESS_DOMAIN", "two words"),
        ("AP_CLUSTER_PUBLIC_HOSTNAME", "provider\x1b.example.com"),
        ("AP_CLUSTER_PUBLIC_HOSTNAME", "https://provider.example.com"),
        ("AP_K8S_MANIFEST_NS", "Lease NS"),
        ("LESSOR_INGRESS_CLASS", "a_b"),
        ("AP_PROXY_BUFFER_SIZE", "lots"),
        ("AP_PROXY_BUFFER_SIZE", "16kb"),
        ("AP_PROXY_BUFFER_SIZE", "0"),
        ("AP_PROXY_BUFFER_SIZE", "-1k"),
        ("AP_PROXY_BUFFER_SIZE", "16k; return 200"),
        ("AP_PROXY_BUFFER_SIZE", "٣k"),
        ("AP_DOCKER_IMAGE_PULL_SECRETS_NAME", "my registry"),
        ("AP_DEPLOYMENT_RUNTIME_CLASS", "g/visor"),
        ("AP_DEPLOYMENT_BLOCKED_HOSTNAMES", "a.com,*.b.com"),
        ("AP_DEPLOYMENT_BLOCKED_HOSTNAMES", "https://a.com"),
        ("LESSOR_EDGE_NAMESPACE", "kube_system"),
        ("LESSOR_NODE_DNS", "localdns"),
        ("LESSOR_NODE_DNS", "169.254.25.10/16"),
        ("LESSOR_CLOSED_RANGES", "203.0.113.5/24"),
        ("LESSOR_CLOSED_RANGES", "0.0.0.0/0"),
        ("LESSOR_CLOSED_RANGES", "fd00::/8"),
    ],
)
def test_what_only_leases_would_stumble_over_is_refused_at_the_start(monkeypatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=f"^{variable}="):
        load_settings()


def test_labels_of_an_edge_are_labels_and_need_its_namespace(monkeypatch) -> None:
    monkeypatch.setenv("LESSOR_EDGE_LABELS", "app.kubernetes.io/name=traefik,tier=")
    with pytest.raises(SettingsError, match="LESSOR_EDGE_LABELS needs LESSOR_EDGE_NAMESPACE"):
        load_settings()
    monkeypatch.setenv("LESSOR_EDGE_NAMESPACE", "traefik")
    assert load_settings().edge_labels == ("app.kubernetes.io/name=traefik", "tier=")
    for bad in ("traefik", "=traefik", "a b=c", "a=b/c", "/a=b"):
        monkeypatch.setenv("LESSOR_EDGE_LABELS", bad)
        with pytest.raises(SettingsError, match=r"^LESSOR_EDGE_LABELS="):
            load_settings()


@pytest.mark.parametrize("value", ["1", "16k", "1m", "8K", "4M"])
def test_a_buffer_size_is_one_of_nginx(monkeypatch, value: str) -> None:
    monkeypatch.setenv("AP_PROXY_BUFFER_SIZE", value)
    assert load_settings().proxy_buffer_size == value


@pytest.mark.parametrize("value", ["192.0.2.1:6443", "[2001:db8::1]:6443,192.0.2.1:443"])
def test_api_server_endpoints_are_addresses_with_ports(monkeypatch, value: str) -> None:
    monkeypatch.setenv("LESSOR_API_SERVER_ENDPOINTS", value)
    assert load_settings().api_server_endpoints == tuple(value.split(","))


def test_a_misspelt_variable_is_told_with_what_was_meant() -> None:
    names = ["PATH", "AP_NODE", "LESSOR_CACHE", "LESSOR_MNEMONICFILE", "AP_BID_PRICE_CPU_SCAL", "AP_SOMETHING_ELSE"]
    assert unknown_variables(names) == {
        "AP_BID_PRICE_CPU_SCAL": "AP_BID_PRICE_CPU_SCALE",
        "AP_SOMETHING_ELSE": "",
        "LESSOR_MNEMONICFILE": "LESSOR_MNEMONIC_FILE",
    }


@pytest.mark.parametrize(
    ("text", "usable"),
    [  # operators.md D4
        ("24.0.0.1-24.0.0.100", 100),
        ("192.168.1.0/24", 254),
        ("192.168.0.0/23", 508),
        ("10.0.0.0/25", 127),
        ("10.0.0.254/31", 1),
        ("10.0.0.5/32", 1),
        ("10.0.0.250-10.0.1.5", 10),
        ("2001:db8::/120", 256),
    ],
)
def test_addresses_that_end_in_0_or_255_are_not_leased(monkeypatch, text: str, usable: int) -> None:
    monkeypatch.setenv("LESSOR_IP_RANGES", text)
    assert sum(one.size for one in load_settings().ip_ranges) == usable


def test_a_range_of_such_addresses_alone_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("LESSOR_IP_RANGES", "198.51.100.0")
    with pytest.raises(SettingsError, match="no usable address"):
        load_settings()


_EVERY_OPTION = "max_body_size read_timeout send_timeout next_tries next_timeout next_cases proxy_buffer_size"


@pytest.mark.parametrize(
    ("edge", "mode", "overlap", "ignored"),
    [
        ("ingress-nginx", "ingress", False, ""),
        ("ingress-nginx", "gateway-api", True, _EVERY_OPTION),
        ("traefik", "ingress", True, "proxy_buffer_size"),
        ("traefik", "gateway-api", True, _EVERY_OPTION),
        ("traefik-plain", "ingress", True, _EVERY_OPTION),
        ("traefik-plain", "gateway-api", True, _EVERY_OPTION),
    ],
)
def test_what_an_edge_does_follows_from_its_kind_and_the_mode(
    monkeypatch: pytest.MonkeyPatch, edge: str, mode: str, overlap: bool, ignored: str
) -> None:
    monkeypatch.setenv("LESSOR_EDGE", edge)
    monkeypatch.setenv("AP_INGRESS_MODE", mode)
    settings = load_settings()
    assert (settings.routes_overlap, settings.ignored_options) == (overlap, set(ignored.split()))


_ORDERING = {
    "AP_CERT_ISSUER_ENABLED": "true",
    "AP_CERT_ISSUER_CA_DIR_URL": "https://ca.example.com/directory",
    "AP_CLUSTER_PUBLIC_HOSTNAME": "provider.example.com",
}


def test_the_issuer_of_a_go_provider_is_set_up_with_the_same_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"AP_CERT_ISSUER_HTTP_CHALLENGE_PORT": "80", "AKASH_CERT_ISSUER_EMAIL": "operator@example.com"}
    for name, value in {**_ORDERING, **given}.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert settings.cert_issuer and settings.cert_issuer_listen == "0.0.0.0:80"
    assert settings.cert_issuer_email == "operator@example.com"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("AP_CERT_ISSUER_CA_DIR_URL", "", "needs AP_CERT_ISSUER_CA_DIR_URL"),
        ("AP_CERT_ISSUER_CA_DIR_URL", "http://ca.example.com/", "must be https://host/path"),
        ("AP_CERT_ISSUER_CA_DIR_URL", "https://user:word@ca.example.com/", "without user and password"),
        ("AP_CLUSTER_PUBLIC_HOSTNAME", "", "needs AP_CLUSTER_PUBLIC_HOSTNAME"),
        ("AP_CLUSTER_PUBLIC_HOSTNAME", "203.0.113.7", "not of addresses"),
        ("LESSOR_CERT_ISSUER_NAMES", "other.example.com", "must name AP_CLUSTER_PUBLIC_HOSTNAME"),
        ("LESSOR_CERT_ISSUER_NAMES", "*.example.com", "LESSOR_CERT_ISSUER_NAMES"),
        ("AP_GATEWAY_TLS_CERT", "/tls.crt", "set one of the two"),
        ("AP_CERT_ISSUER_EMAIL", "a b", "AP_CERT_ISSUER_EMAIL"),
        ("AP_CERT_ISSUER_HTTP_CHALLENGE_PORT", "70000", "host:port"),
    ],
)
def test_an_issuer_that_could_order_nothing_is_refused_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, text: str
) -> None:
    for variable, content in {**_ORDERING, name: value}.items():
        monkeypatch.setenv(variable, content)
    with pytest.raises(SettingsError, match=re.escape(text)):
        load_settings()
