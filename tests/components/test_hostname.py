"""Hostnames on the shared edge: Ingress and HTTPRoute (kubernetes-objects.md §2.9–2.10, T37–T41)."""

from __future__ import annotations

import pytest

from components.edge_options import NEXT_CASES, ingress_annotations, route_annotations
from components.errors import BuildError
from components.hostname import hostname_object
from lease.hostnames import route_name
from lease.spec import ClusterFacts, IngressMode
from tests.components.specs import LEASE, NAMESPACE, hostname, spec

GATEWAY = ClusterFacts(
    ingress_mode=IngressMode.GATEWAY_API, gateway_name="test-gateway", gateway_namespace="test-namespace"
)


def route(**options):
    """Annotations by their short names."""
    made = route_annotations(hostname(**options), "16k")
    return {key.removeprefix("nginx.org/"): value for key, value in made.items()}


def ingress(**options):
    made = ingress_annotations(hostname(**options))
    return {key.removeprefix("nginx.ingress.kubernetes.io/"): value for key, value in made.items()}


def test_an_http_route_sends_every_path_of_one_host_to_one_service():
    made = hostname_object(
        spec(cluster=GATEWAY), hostname("test.example.com", service="test-service", external_port=8080)
    )
    assert (made["apiVersion"], made["kind"]) == ("gateway.networking.k8s.io/v1", "HTTPRoute")
    parent = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": "test-gateway",
        "namespace": "test-namespace",
    }
    assert made["spec"] == {
        "parentRefs": [parent],
        "hostnames": ["test.example.com"],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                "backendRefs": [{"name": "test-service", "port": 8080}],
            }
        ],
    }


@pytest.mark.parametrize("cluster", [ClusterFacts(), GATEWAY], ids=["Ingress", "HTTPRoute"])
def test_a_wildcard_s_route_has_the_wildcard_as_its_host_and_a_name_of_kubernetes(cluster):
    made = hostname_object(spec(cluster=cluster), hostname("*.example.com"))
    hosts = made["spec"].get("hostnames") or [rule["host"] for rule in made["spec"]["rules"]]
    assert hosts == ["*.example.com"] and made["metadata"]["name"] == route_name("*.example.com")


def test_an_ingress_has_one_rule_and_no_tls_block():
    made = hostname_object(spec(), hostname())
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    assert made["spec"] == {
        "ingressClassName": "akash-ingress-class",
        "rules": [{"host": "test.localhost", "http": {"paths": paths}}],
    }


@pytest.mark.parametrize("cluster", [ClusterFacts(), GATEWAY], ids=["ingress", "gateway-api"])
def test_both_kinds_say_whose_lease_they_serve(cluster):
    metadata = hostname_object(spec(cluster=cluster), hostname())["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("test.localhost", NAMESPACE)
    assert metadata["labels"]["akash.network"] == "true"
    assert metadata["labels"]["akash.network/lease.id.owner"] == LEASE.owner
    assert metadata["labels"]["akash.network/lease.id.dseq"] == "12345678"


def test_the_golden_ingress_annotations():
    assert ingress() == {
        "proxy-read-timeout": "60",
        "proxy-send-timeout": "60",
        "proxy-next-upstream-tries": "3",
        "proxy-body-size": "1048576",
        "proxy-next-upstream-timeout": "0",
        "proxy-next-upstream": "error timeout",
    }


def test_route_options_carry_seconds_bytes_and_cases():
    assert route(next_timeout=30000) == {
        "proxy-read-timeout": "60",
        "proxy-send-timeout": "60",
        "proxy-next-upstream-timeout": "30s",
        "client-max-body-size": "1048576",
        "proxy-next-upstream-tries": "3",
        "proxy-next-upstream": "error timeout",
        "proxy-buffer-size": "16k",
    }


def test_status_codes_are_spelt_for_nginx_and_no_waiting_time_says_nothing():
    made = route(next_tries=5, max_body_size=2097152, next_cases=("error", "502", "503", "504"))
    assert made["proxy-next-upstream"] == "error http_502 http_503 http_504"
    assert "proxy-next-upstream-timeout" not in made


def test_no_cases_say_nothing_on_a_route_and_an_empty_text_on_an_ingress():
    assert "proxy-next-upstream" not in route(next_cases=())
    assert ingress(next_cases=())["proxy-next-upstream"] == ""


def test_no_buffer_size_says_nothing():
    assert "nginx.org/proxy-buffer-size" not in route_annotations(hostname(), "")
    assert "proxy-buffer-size" not in ingress()


def test_a_tenants_buffer_size_reaches_the_edge_in_both_modes_before_the_clusters():
    """The option is the tenant's (sdl-and-manifest.md §1.5), the setting is for those without (§2.10)."""
    assert route(proxy_buffer_size=32768)["proxy-buffer-size"] == "32768"
    assert ingress(proxy_buffer_size=32768)["proxy-buffer-size"] == "32768"
    assert route_annotations(hostname(proxy_buffer_size=1048576), "")["nginx.org/proxy-buffer-size"] == "1048576"
    assert route(proxy_buffer_size=0)["proxy-buffer-size"] == "16k"


@pytest.mark.parametrize("setting", ["16 k", "16k;", "k", "-1", "1g", "16k\n", "1" * 10])
def test_a_buffer_setting_that_is_no_size_never_reaches_the_edge(setting):
    with pytest.raises(BuildError, match="proxy-buffer-size"):
        route_annotations(hostname(), setting)


def test_a_repeated_case_is_said_once():
    assert ingress(next_cases=("error", "502", "error"))["proxy-next-upstream"] == "error http_502"


@pytest.mark.parametrize(("milliseconds", "seconds"), [(1, "1"), (999, "1"), (1000, "1"), (1001, "2"), (60000, "60")])
def test_milliseconds_are_rounded_up_to_seconds(milliseconds, seconds):
    assert ingress(read_timeout=milliseconds)["proxy-read-timeout"] == seconds
    assert route(send_timeout=milliseconds)["proxy-send-timeout"] == seconds


def test_a_body_size_of_zero_means_no_option_was_given():
    made = ingress(max_body_size=0, read_timeout=1, send_timeout=2, next_tries=9, next_timeout=7, next_cases=("off",))
    assert made == ingress() | {"proxy-next-upstream-timeout": "60"}


@pytest.mark.parametrize(
    "options",
    [
        {"max_body_size": 104857601},
        {"max_body_size": -1},
        {"read_timeout": 60001},
        {"send_timeout": 2**32},
        {"next_tries": 2**32},
        {"next_timeout": -1},
        {"next_cases": ("error; proxy_pass http://evil",)},
        {"next_cases": ("error\nlua_code_cache off",)},
        {"next_cases": ("501",)},
        {"next_cases": ("off", "error")},
        {"proxy_buffer_size": 1048577},
        {"proxy_buffer_size": -1},
    ],
)
@pytest.mark.parametrize("made", [ingress, route])
def test_an_option_outside_its_list_or_maximum_never_reaches_the_edge(made, options):
    with pytest.raises(BuildError, match=next(iter(options))):
        made(**options)


@pytest.mark.parametrize("case", NEXT_CASES)
def test_every_allowed_case_is_built(case):
    assert ingress(next_cases=(case,))["proxy-next-upstream"] == (f"http_{case}" if case.isdigit() else case)


@pytest.mark.parametrize(
    "name",
    [
        *("", "*", "*.com", "**.example.com", "a.*.com", "*.A.com"),
        *("A.example.com", "a..b", "-a.b", "a_b.c", "a.b/c", "x." * 127 + "y", "192.0.2.1"),
    ],
)
def test_what_is_no_hostname_is_refused(name):
    with pytest.raises(BuildError, match="hostname"):
        hostname_object(spec(), hostname(name))
