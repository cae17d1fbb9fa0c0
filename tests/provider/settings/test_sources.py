"""Where settings come from: every spelling in use, which source wins, and every mistake at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from provider.cli.run_flags import run_flags
from provider.errors import ArgumentError, SettingsError
from provider.settings import Resolution, Settings, load_settings, resolve
from provider.settings.go_flags import CHART_KEYS, CHART_SPELLINGS, NO_MEANING, SWITCHES
from provider.settings.spellings import field_of, flag_of, reason_of, squeezed, unknown_variables, variables_of

ROOT = Path(__file__).resolve().parents[3]
TX_FLAGS = (
    *("output", "from", "account-number", "sequence", "note", "fees", "gas-prices", "node", "ledger", "gas-adjustment"),
    *(
        "broadcast-mode",
        "dry-run",
        "generate-only",
        "offline",
        "yes",
        "sign-mode",
        "timeout-height",
        "unordered",
        "tip",
    ),
    *(
        "timeout-duration",
        "fee-payer",
        "fee-granter",
        "aux",
        "chain-id",
        "gas",
        "keyring-backend",
        "keyring-dir",
        "home",
    ),
    *("log_level", "log_format", "log_color", "log_no_color", "log_timestamp", "trace"),
)
"""Those that every command of the Go provider with a transaction has, and its log's."""
CHART = """
from: akash1{a}
chainid: akashnet-2
node: "https://rpc.example:443"
keyringbackend: test
domain: example.com
attributes:
  - key: region
    value: us-west
email: me@example.com
gasprices: "0.03uakt"
gas: auto
bidmindeposit: "600000uakt"
tx_broadcast_timeout: "60s"
bidpricecpuscale: "0.004"
bidpricememoryscale: 0.0016
bidpriceendpointscale: "1"
bidpriceipscale: "60"
bidpricestoragescale: "0.00016,beta2=0.00017"
withdrawalperiod: "1h"
minimumbalance: "10000000"
deploymentnetworkpoliciesenabled: "false"
cluster_node_port_quantity: "2500"
ipoperator: false
monitor:
  maxRetries: 626
  retryPeriod: 5s
overcommit_pct_cpu: 10
gatewayApi:
  enabled: true
  gatewayName: edge
  implementation: nginx
image:
  repository: ghcr.io/akash-network/provider
resources:
  limits: {{cpu: 2000m}}
price_target_cpu: 1.6
letsEncrypt:
  enabled: false
""".format(a="q" * 38)


def of_files(tmp_path: Path, yaml: str = "", environment: Mapping[str, str] = {}, **toml: str) -> Resolution:
    (tmp_path / "config").mkdir(exist_ok=True)
    for name, text in toml.items():
        (tmp_path / "config" / f"{name}.toml").write_text(text)
    (tmp_path / "provider.yaml").write_text(yaml)
    named = {"AP_PROVIDER_CONFIG": str(tmp_path / "provider.yaml")} if yaml else {}
    return resolve((), {"AP_HOME": str(tmp_path), **named, **environment})


def _documented_flags() -> set[str]:
    """The flags in the table of bidding.md §6; ` / -mem` and `, -kid` repeat what stands before."""
    section = (ROOT / "docs/protocol/bidding.md").read_text().split("## 6. Configuration of `run`")[1].split("\n---")[0]
    cells = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    names: set[str] = set()
    for cell in cells[1:]:
        first, *others = re.split(r", | / ", re.sub(r" \(.*\)", "", cell))
        stems = [first.rsplit("-", count)[0] for count in (1, 2, 3)]
        names |= {first, *(other for other in others if not other.startswith("-"))}
        names |= {
            next(f for stem in stems if (f := stem + other) in KNOWN) for other in others if other.startswith("-")
        }
    return names - {"tx flags"}


KNOWN = {*NO_MEANING, *(flag_of(v) for field in Settings.model_fields.values() for v in variables_of(field))}


@pytest.mark.parametrize("flag", sorted(_documented_flags() | {*TX_FLAGS}))
def test_every_flag_of_the_go_provider_is_a_setting_or_has_a_reason(flag: str) -> None:
    assert bool(field_of(flag)) != bool(reason_of(flag))


def test_no_two_settings_share_a_spelling_and_no_reason_hides_a_setting() -> None:
    spellings = [(squeezed(flag_of(variables_of(field)[0])), name) for name, field in Settings.model_fields.items()]
    assert len({spelling for spelling, _ in spellings}) == len(spellings)
    assert not [flag for flag in (*NO_MEANING, *CHART_KEYS) if field_of(flag)]
    assert NO_MEANING.keys() >= SWITCHES
    assert all(field_of(variable) for variable in CHART_SPELLINGS.values())


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_a_flag_a_key_and_a_key_without_separators(name: str) -> None:
    for variable in variables_of(Settings.model_fields[name]):
        flag = flag_of(variable)
        spelled = {variable, flag, flag.replace("-", "_"), flag.replace("-", ""), flag.upper(), variable.lower()}
        assert {field_of(each) for each in spelled} == {name}


def test_the_values_of_the_helm_chart_are_read_as_they_are(tmp_path: Path) -> None:
    found = of_files(tmp_path, CHART)
    assert not found.problems
    settings = found.settings
    assert settings is not None
    assert (settings.chain_id, settings.node) == ("akashnet-2", "https://rpc.example:443")
    assert (str(settings.cpu_scale), str(settings.memory_scale), str(settings.ip_scale)) == ("0.004", "0.0016", "60")
    assert {name: str(scale) for name, scale in settings.storage_scale.items()} == {
        "ephemeral": "0.00016",
        "beta2": "0.00017",
    }
    assert (settings.public_hostname, settings.ingress_domain) == ("provider.example.com", "ingress.example.com")
    assert settings.ingress_static_hosts and not settings.network_policies
    assert (settings.monitor_max_retries, settings.monitor_retry_period) == (626, 5)
    assert (settings.ingress_mode, settings.gateway_name) == ("gateway-api", "edge")
    assert (settings.tx_timeout, settings.withdrawal_period, settings.overcommit_cpu) == (60, 3600, 10)
    assert str(settings.bid_deposit) == "600000uakt"
    named = " ".join(found.notices)
    assert all(word in named for word in ("ipoperator", "cluster_node_port_quantity", "price_target_cpu", "gas "[:3]))
    assert "attributes" not in named and "email" not in named


@pytest.mark.parametrize(
    "text",
    [
        "bid-price-cpu-scale: 0.004",
        "bid_price_cpu_scale: 0.004",
        "bidpricecpuscale: 0.004",
        "AP_BID_PRICE_CPU_SCALE: 0.004",
        "AKASH_BID_PRICE_CPU_SCALE: '0.004'",
        "bid:\n  price:\n    cpu-scale: 0.004",
    ],
)
def test_a_price_is_read_in_every_spelling_in_use(tmp_path: Path, text: str) -> None:
    found = of_files(tmp_path, text)
    assert not found.problems and found.settings and str(found.settings.cpu_scale) == "0.004"


def test_the_keys_of_the_public_documentation_are_read(tmp_path: Path) -> None:
    text = "deployment_ingress_static_hosts: true\ndeployment_ingress_domain: provider.example.com\n"
    found = of_files(tmp_path, text)
    assert found.settings and found.settings.ingress_domain == "provider.example.com"


def test_the_command_line_wins_then_ap_then_akash_then_the_yaml_file_then_toml(tmp_path: Path) -> None:
    sources = [
        ("--bid-timeout", "command line", "1m"),
        ("AP_BID_TIMEOUT", "environment", "2m"),
        ("AKASH_BID_TIMEOUT", "environment", "3m"),
        ("bid-timeout", str(tmp_path / "provider.yaml"), "4m"),
        ("bid_timeout", str(tmp_path / "config" / "lessor.toml"), "5m"),
    ]
    (tmp_path / "config").mkdir()
    for skipped in range(len(sources) + 1):
        left = sources[skipped:]
        written = {name: value for name, _, value in left}
        (tmp_path / "provider.yaml").write_text(f"bid-timeout: {written.get('bid-timeout', '')}\n")
        (tmp_path / "config" / "lessor.toml").write_text(f"bid_timeout = '{written.get('bid_timeout', '')}'\n")
        environment = {name: value for name, source, value in left if source == "environment"}
        fixed = {"AP_HOME": str(tmp_path), "AP_PROVIDER_CONFIG": str(tmp_path / "provider.yaml")}
        flags = [("bid-timeout", value) for _, source, value in left if source == "command line"]
        given = resolve(flags, fixed | environment).given.get("bid_timeout")
        assert (given and (given.name, given.source, given.value)) == (left[0] if left else None)


def test_every_mistake_of_every_source_is_named_at_once(tmp_path: Path) -> None:
    found = of_files(
        tmp_path,
        "bidpricecpuscal: 1\nbid_timeout: later\n",
        {"LESSOR_STAK_WORKERS": "3", "AP_BID_DEPOSIT": "much", "AKASH_FROM": "me", "AP_MANIFEST_TIMEOUT": ""},
        lessor="stack_workers = 0\nunknown_thing = 1\n",
        broken="a = ",
    )
    text = "\n".join(found.problems)
    assert len(found.problems) == 8
    for words in (
        "LESSOR_STAK_WORKERS is no setting; did you mean LESSOR_STACK_WORKERS?",
        "'bidpricecpuscal' (line 1) is no setting; did you mean bidpricecpuscale?",
        f"bid_timeout='later' in {tmp_path}/provider.yaml: not a duration",
        "AP_BID_DEPOSIT='much'",
        "AP_FROM: 'me' is not an akash address",
        f"stack_workers='0' in {tmp_path}/config/lessor.toml",
        "'unknown_thing' is no setting",
        f"{tmp_path}/config/broken.toml: ",
    ):
        assert words in text, words


def test_a_value_that_is_wrong_causes_no_second_mistake() -> None:
    found = resolve((), {"AP_DEPLOYMENT_INGRESS_DOMAIN": "a b", "AP_DEPLOYMENT_INGRESS_STATIC_HOSTS": "true"})
    assert len(found.problems) == 1


def test_what_has_no_meaning_here_is_named_with_the_reason_and_stops_nothing() -> None:
    given = {"AKASH_CLUSTER_K8S": "true", "AP_CERT_ISSUER_DNS_PROVIDERS": "cf", "AKASH_YES": "true", "AKASH_DEBUG": ""}
    found = resolve([("ip-operator", "true")], given)
    assert not found.problems
    assert [notice.split(":")[0] for notice in found.notices] == [
        "--ip-operator",
        "AKASH_CLUSTER_K8S",
        "AKASH_YES",
        "AP_CERT_ISSUER_DNS_PROVIDERS",
    ]


def test_links_to_services_that_kubernetes_sets_are_no_mistake() -> None:
    links = {"LESSOR_SERVICE_HOST": "10.0.0.1", "LESSOR_PORT": "tcp://10.0.0.1:8443", "LESSOR_SERVICE_PORT_REST": "1"}
    assert not unknown_variables([*links, "LESSOR_PORT_8443_TCP_ADDR", "LESSOR_SERVICE_PORT"])
    assert unknown_variables(["LESSOR_PORT"]) == {"LESSOR_PORT": ""}


def test_levels_and_forms_of_the_go_providers_log_are_understood() -> None:
    given = {"AP_LOG_LEVEL": "warn", "AKASH_LOG_FORMAT": "plain"}
    settings = resolve((), given).settings
    assert settings and (settings.log_level, settings.log_format) == ("warning", "console")
    assert (resolve((), {"AKASH_LOG_LEVEL": "*:info"}).settings or Settings()).log_level == "info"


def test_of_the_files_of_the_cosmos_sdk_only_flags_are_read(tmp_path: Path) -> None:
    found = of_files(
        tmp_path,
        client='chain-id = "akashnet-2"\nkeyring-backend = "test"\noutput = "text"\nnode = "tcp://10.0.0.1:26657"\n',
        config='proxy_app = "x"\nnode_key_file = "config/node_key.json"\nlog_level = "info"\n[rpc]\nladdr = "tcp://:1"\n',
    )
    assert not found.problems
    assert {name: given.value for name, given in found.given.items() if name != "home"} == {
        "chain_id": "akashnet-2",
        "node": "tcp://10.0.0.1:26657",
        "log_level": "info",
    }


def test_two_values_of_one_setting_in_files_contradict_each_other(tmp_path: Path) -> None:
    found = of_files(tmp_path, "bid-timeout: 5m\nbidtimeout: 6m\n", a="stack_workers = 2", b="stack-workers = 3")
    assert len(found.problems) == 2 and all("contradicts" in problem for problem in found.problems)
    assert not of_files(tmp_path, "bid-timeout: 5m\nbidtimeout: 5m\n", a="", b="").problems


def test_what_is_wrong_with_a_file_shows_no_secret_of_it(tmp_path: Path) -> None:
    secret = "hunter2"
    texts = [f'bus-url: "redis://:{secret}@a', f"bus-url: redis://:{secret}@a: b", f"bus-url: [{secret}", f"- {secret}"]
    for found in (of_files(tmp_path, text) for text in texts):
        assert found.problems and secret not in repr(found.problems)
    found = of_files(tmp_path, a=f'bus_url = "redis://:{secret}@a"', b=f'bus_url = "redis://:{secret}@b"')
    assert "contradicts" in found.problems[0] and secret not in repr(found.problems)


def test_a_price_script_inside_the_file_is_refused_since_it_would_not_be_asked(tmp_path: Path) -> None:
    (problem,) = of_files(tmp_path, "bidpricescript: IyEvYmluL3No\n").problems
    assert "AP_BID_PRICE_SCRIPT_PATH" in problem


def test_flags_are_read_as_the_go_provider_reads_them() -> None:
    flags = (
        "--bid-timeout 5m --cluster-k8s --deployment-ingress-static-hosts=true --log_level info -y -b block --gas auto"
    )
    assert run_flags(flags.split()) == [
        ("bid-timeout", "5m"),
        ("cluster-k8s", "true"),
        ("deployment-ingress-static-hosts", "true"),
        ("log_level", "info"),
        ("yes", "true"),
        ("broadcast-mode", "block"),
        ("gas", "auto"),
    ]


def test_wrong_options_are_all_named_with_the_nearest_and_without_a_secret() -> None:
    with pytest.raises(ArgumentError) as raised:
        run_flags(["--bid-timout", "--mnemonic", "hunter2 words", "more", "--node"])
    text = str(raised.value)
    assert "--bid-timout; did you mean --bid-timeout?" in text
    assert "--mnemonic would show a secret" in text and "hunter2" not in text
    assert "'more' is no option" in text and "--node needs a value" in text


def test_an_override_wins_over_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AP_BID_TIMEOUT", "7m")
    assert load_settings(bid_timeout=9).bid_timeout == 9
    with pytest.raises(SettingsError, match="AP_BID_TIMEOUT"):
        load_settings(bid_timeout="soon")
