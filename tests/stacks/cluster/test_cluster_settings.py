"""Configuration of the cluster stack: known keys with allowed values, or an error that names the key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lease.spec import IngressMode
from provider.settings import Settings, load_settings, unknown_variables
from provider.settings.spellings import is_secret, variables_of
from stacks.cluster.process_settings import SECRET_VARIABLES, ProcessSettings
from stacks.cluster.processes import environment
from stacks.cluster.requirements import cluster_client
from stacks.cluster.settings import (
    ClusterStackSettings,
    ConfigError,
    GatewaySettings,
    MetalLbSettings,
    parse_settings,
)

EXAMPLE = Path(__file__).resolve().parents[3] / "Pulumi.example.yaml"


def test_no_configuration_means_the_names_of_the_go_provider():
    settings = parse_settings({})

    assert (settings.manifest_namespace, settings.services_namespace) == ("lease", "akash-services")
    assert (settings.ingress_class, settings.ingress_controller) == ("akash-ingress-class", "k8s.io/ingress-nginx")
    assert settings.metallb.namespace == "metallb-system"


def test_other_projects_keys_are_left_alone():
    assert parse_settings({"kubernetes:context": "c", "aws:region": "x"}) == ClusterStackSettings()


def test_the_example_file_shows_every_key_with_its_default():
    shown = yaml.safe_load(EXAMPLE.read_text())["config"]

    assert (
        parse_settings({key: as_pulumi_hands_it_over(value) for key, value in shown.items()}) == ClusterStackSettings()
    )
    assert {key.removeprefix("lessor:") for key in shown} == {
        f.alias for f in ClusterStackSettings.model_fields.values()
    }
    for name, model in (("metallb", MetalLbSettings), ("gateway", GatewaySettings), ("processes", ProcessSettings)):
        assert set(shown[f"lessor:{name}"]) == {field.alias for field in model.model_fields.values()}


def test_the_devnet_file_is_a_configuration():
    shown = yaml.safe_load((EXAMPLE.parent / "Pulumi.dev.yaml").read_text())["config"]
    settings = parse_settings({key: as_pulumi_hands_it_over(value) for key, value in shown.items()})
    assert settings.storage_classes == ("beta1", "beta2", "beta3", "default")


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"lessor:manifest-namespace": "records"}, "manifest_namespace", "records"),
        ({"lessor:ingress-class": "edge"}, "ingress_class", "edge"),
        ({"lessor:metallb": '{"namespace": "lb"}'}, "metallb_namespace", "lb"),
        ({"lessor:ingress-mode": "gateway-api"}, "ingress_mode", IngressMode.GATEWAY_API),
        ({"lessor:ingress-mode": "gateway-api", "lessor:gateway": '{"name": "g"}'}, "gateway_name", "g"),
        ({"lessor:ingress-mode": "gateway-api", "lessor:gateway": '{"namespace": "g"}'}, "gateway_namespace", "g"),
    ],
)
def test_the_output_environment_is_settings_of_lessor_run(given, field, value, monkeypatch):
    made = environment(parse_settings(given))
    assert unknown_variables(made) == {}
    for name, text in made.items():
        monkeypatch.setenv(name, text)
    assert getattr(load_settings(), field) == value


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("lessor:ingres-class", "x", "lessor:ingres-class"),
        ("lessor:manifest_namespace", "lease", "lessor:manifest_namespace"),
        ("lessor:manifest-namespace", "Lease!", "lessor:manifest-namespace"),
        ("lessor:manifest-namespace", "", "lessor:manifest-namespace"),
        ("lessor:manifest-namespace", "a" * 64, "lessor:manifest-namespace"),
        ("lessor:ingress-mode", "traefik", "lessor:ingress-mode"),
        ("lessor:ingress-controller", "nginx", "lessor:ingress-controller"),
        ("lessor:metallb", "yes", "lessor:metallb"),
        ("lessor:metallb", '{"namespce": "x"}', "lessor:metallb.namespce"),
        ("lessor:metallb", '{"required": "perhaps"}', "lessor:metallb.required"),
        ("lessor:metallb", '{"namespace": ["x"]}', "lessor:metallb.namespace"),
        ("lessor:metallb", '{"namespace": ', "lessor:metallb"),
        ("lessor:metallb", "[" * 100_000, "lessor:metallb"),
        ("lessor:metallb", '{"install": true, "required": false}', "lessor:metallb.install"),
        ("lessor:gateway", '{"create": true}', "lessor:gateway.create"),
        ("lessor:gateway", '{"domain": "*.example.com"}', "lessor:gateway.domain"),
        ("lessor:services-namespace", "lease", "lessor:services-namespace"),
        ("lessor:services-namespace", "kube-system", "lessor:services-namespace"),
        ("lessor:manifest-namespace", "default", "lessor:manifest-namespace"),
        ("lessor:priority-class", "A!", "lessor:priority-class"),
        ("lessor:storage-classes", '["beta2", "B!"]', "lessor:storage-classes.1"),
        ("lessor:runtime-classes", '{"B!": "x"}', "lessor:runtime-classes.B!"),
        ("lessor:processes", "[1]", "lessor:processes"),
        ("lessor:processes", '{"imag": "x"}', "lessor:processes.imag"),
        ("lessor:processes", '{"image": "two words"}', "lessor:processes.image"),
        ("lessor:processes", '{"image": "x\\n- evil"}', "lessor:processes.image"),
        ("lessor:processes", '{"account": "akash1short"}', "lessor:processes.account"),
        ("lessor:processes", '{"cpu": "0"}', "lessor:processes.cpu"),
        ("lessor:processes", '{"cpu": "1Gi"}', "lessor:processes.cpu"),
        ("lessor:processes", '{"memory": "100m"}', "lessor:processes.memory"),
        ("lessor:processes", '{"service-type": "ExternalName"}', "lessor:processes.service-type"),
        ("lessor:processes", '{"remote-state": true}', "lessor:processes.remote-state"),
        ("lessor:processes", '{"rook-namespace": "A"}', "lessor:processes.rook-namespace"),
        ("lessor:processes", '{"environment": {"PATH": "/x"}}', "lessor:processes.environment.PATH"),
        ("lessor:processes", '{"environment": {"AP_NODE": ["x"]}}', "lessor:processes.environment.AP_NODE"),
        ("lessor:processes", '{"environment": {"AP_HOME": "/x"}}', "lessor:processes.environment.AP_HOME"),
        (
            "lessor:processes",
            '{"environment": {"LESSOR_GATEWAY_PROCESS": "child"}}',
            "lessor:processes.environment.LESSOR_GATEWAY_PROCESS",
        ),
        (
            "lessor:processes",
            '{"inventory-config": {"cluster_storage": ["a"], "exclude": {"nodes": ["("]}}}',
            "lessor:processes.inventory-config.exclude.nodes.0",
        ),
        (
            "lessor:processes",
            '{"inventory-config": {"cluster_storage": [], "exclude": {"node_storage": [{"node_filter": "a", '
            '"classes": ["b"]}]}}}',
            "lessor:processes.inventory-config.exclude.node_storage.0.classes",
        ),
    ],
)
def test_an_unknown_key_or_a_wrong_value_is_an_error_at_its_path(key, value, path):
    with pytest.raises(ConfigError) as error:
        parse_settings({key: value})

    assert f"\n  {path}: " in str(error.value)


@pytest.mark.parametrize("value", ['{"LESSOR_MNEMONIC": "%s"}', '{"AP_NODE": ["%s"]}', '{"LESSOR_STORE_URL": "%s"}'])
def test_a_secret_in_the_wrong_place_is_not_shown(value):
    words = "abandon abandon about"
    with pytest.raises(ConfigError) as error:
        parse_settings({"lessor:processes": f'{{"environment": {value % words}}}'})
    assert "abandon" not in str(error.value)


def test_every_secret_setting_of_the_provider_is_kept_out_of_its_configuration():
    secret = {variables_of(field)[0] for name, field in Settings.model_fields.items() if is_secret(name)}
    assert secret == {*SECRET_VARIABLES, "LESSOR_MNEMONIC"}
    for name in secret:
        with pytest.raises(ConfigError, match=f"environment.{name}: is a secret: the key (mnemonic|{name}) of"):
            parse_settings({"lessor:processes": f'{{"environment": {{"{name}": "redis://:abandon@host"}}}}'})


def test_an_unknown_key_is_told_what_its_group_has():
    with pytest.raises(ConfigError, match="metallb has: required, namespace, install,"):
        parse_settings({"lessor:metallb": '{"pool": "x"}'})


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as error:
        parse_settings({"lessor:a": "1", "lessor:b": "2", "lessor:ingress-mode": "none"})

    assert [line.split(":")[1].strip() for line in str(error.value).splitlines()[1:]] == ["a", "b", "ingress-mode"]


@given(st.dictionaries(st.text().map("lessor:{}".format), st.text() | st.integers() | st.none(), max_size=4))
def test_whatever_is_configured_it_is_settings_or_a_config_error(config):
    try:
        assert isinstance(parse_settings(config), ClusterStackSettings)
    except ConfigError as error:
        assert "lessor:" in str(error)


@pytest.mark.parametrize(
    "text", ["{}", "kind: Config\nusers: [", "- 1\n- 2\n", "\n\n", "apiVersion: v1\nclusters: 7\n"]
)
def test_an_unusable_kubeconfig_is_a_config_error_that_says_where_to_set_it(text):
    with pytest.raises(ConfigError, match="KUBECONFIG or kubernetes:kubeconfig"):
        cluster_client({"kubernetes:kubeconfig": text})


def as_pulumi_hands_it_over(value: object) -> str:
    """Texts as they are, structured values as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
