"""`lessor render`: the objects of an SDL as YAML, without a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lease.exit_codes import FINDING, USAGE
from provider.cli import build_app

EXAMPLES = Path(__file__).parents[2] / "examples"
SDL = """
version: "2.0"
endpoints: {meow: {kind: ip}}
services:
  web:
    image: nginx
    env: ["TOKEN=s3cret-value", "WORD=on", "NUMBER=1e3", "LINES=a\\nb: c"]
    expose:
      - {port: 8080, as: 80, accept: [test.localhost], to: [{global: true}]}
      - {port: 443, to: [{global: true, ip: meow}]}
  job:
    image: busybox
    expose: [{port: 1}]
profiles:
  compute:
    web:
      resources:
        cpu: {units: 1}
        memory: {size: 1Gi}
        storage: {size: 1Gi}
        gpu: {units: 1, attributes: {vendor: {nvidia: [{model: a100, ram: 80Gi, interface: sxm}]}}}
  placement:
    east: {pricing: {web: {denom: uakt, amount: 1}}}
    west: {pricing: {web: {denom: uakt, amount: 1}}}
deployment:
  web: {east: {profile: web, count: 1}}
  job: {west: {profile: web, count: 2}}
"""


def run(*arguments, document=SDL):
    return CliRunner().invoke(build_app(), ["render", "-", *arguments], input=document)


def documents(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.stdout))


def of_kind(made, kind):
    return [item for item in made if item["kind"] == kind]


def variables(*arguments):
    container = of_kind(documents(*arguments), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    return {item["name"]: item.get("value", "") for item in container["env"]}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_of_the_repository_renders(path):
    done = CliRunner().invoke(build_app(), ["render", str(path)])
    assert done.exit_code == 0, done.output
    assert {"Namespace", "NetworkPolicy"} <= {item["kind"] for item in yaml.safe_load_all(done.stdout)}


def test_every_placement_becomes_a_lease_of_its_own():
    made = documents()
    assert [item["metadata"]["labels"]["akash.network/lease.id.gseq"] for item in of_kind(made, "Namespace")] == [
        "1",
        "2",
    ]
    assert [item["spec"]["replicas"] for item in of_kind(made, "Deployment")] == [1, 2]


def test_one_placement_can_be_chosen_and_keeps_its_number():
    made = documents("--group", "west")
    assert [item["metadata"]["labels"]["akash.network/lease.id.gseq"] for item in of_kind(made, "Namespace")] == ["2"]


def test_the_rollout_label_is_zero():
    labels = of_kind(documents(), "Deployment")[0]["metadata"]["labels"]
    assert labels["akash.network/manifest.resource.version"] == "0"


def test_secrets_are_hidden_unless_asked_for():
    assert "s3cret-value" not in run().output
    assert variables()["TOKEN"] == "(redacted)"
    assert variables("--show-secrets")["TOKEN"] == "s3cret-value"


def test_every_text_survives_yaml():
    shown = variables("--show-secrets")
    assert (shown["WORD"], shown["NUMBER"], shown["LINES"]) == ("on", "1e3", "a\nb: c")
    assert '"1e3"' in run("--show-secrets").output
    assert "&id" not in run().output


def test_the_mode_and_the_domain_decide_about_hostnames():
    assert [item["metadata"]["name"] for item in of_kind(documents("--group", "east"), "Ingress")] == ["test.localhost"]
    routes = of_kind(
        documents("--group", "east", "--mode", "gateway-api", "--domain", "ingress.example.com"), "HTTPRoute"
    )
    assert len(routes) == 2
    assert routes[1]["metadata"]["name"].endswith(".ingress.example.com")


@pytest.mark.parametrize(
    ("mode", "kind", "prefix"),
    [("ingress", "Ingress", "nginx.ingress.kubernetes.io"), ("gateway-api", "HTTPRoute", "nginx.org")],
)
def test_every_http_option_is_shown_in_both_modes(mode, kind, prefix):
    options = "http_options: {max_body_size: 5, read_timeout: 2000, next_cases: [off], proxy_buffer_size: 32768}"
    done = run("--group", "east", "--mode", mode, document=SDL.replace("as: 80,", f"as: 80, {options},"))
    (made,) = of_kind(list(yaml.safe_load_all(done.stdout)), kind)
    shown = {key.removeprefix(f"{prefix}/"): value for key, value in made["metadata"]["annotations"].items()}
    body = "proxy-body-size" if mode == "ingress" else "client-max-body-size"
    assert (shown[body], shown["proxy-read-timeout"], shown["proxy-next-upstream"]) == ("5", "2", "off")
    assert shown["proxy-buffer-size"] == "32768"


def test_leased_addresses_are_stand_ins_unless_given():
    def pools(*arguments):
        return [
            item["spec"]["addresses"] for item in of_kind(documents("--group", "east", *arguments), "IPAddressPool")
        ]

    assert pools() == [["192.0.2.1/32"]]
    assert pools("--address", "198.51.100.7") == [["198.51.100.7/32"]]


def test_the_card_a_service_asks_for_reaches_its_affinity():
    text = run("--group", "east").stdout
    assert "gpu.vendor.nvidia.model.a100.ram.80Gi" in text
    assert "gpu.vendor.nvidia.model.a100.interface.sxm" in text


def test_policies_can_be_left_out():
    assert of_kind(documents("--no-policies"), "NetworkPolicy") == []


@pytest.mark.parametrize(
    ("arguments", "document", "says"),
    [
        ((), "", "empty"),
        ((), "version: '2.0'\nservices: [", "not YAML"),
        ((), "\x00\x01", "-:1:"),
        ((), "a: &a [*a]", "-:1:"),
        (("--group", "north"), SDL, "east, west"),
        (("--address", "192.0.2.0/24"), SDL, "one IP address"),
        (
            ("--api-server-endpoint", "x"),
            SDL.replace("image: nginx", "image: nginx\n    params: {permissions: {read: [logs]}}"),
            "address:port",
        ),
        (("--owner", "Somebody Else"), SDL, "bech32"),
        (("--dseq", "0"), SDL, "dseq"),
        (("--mode", "traefik"), SDL, "gateway-api"),
        ((), SDL.replace("image: nginx", 'image: "ngi nx"'), "ngi nx"),
        ((), SDL.replace("test.localhost", "192.0.2.1"), "192.0.2.1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_printed(arguments, document, says):
    done = run(*arguments, document=document)
    assert done.exit_code == (FINDING if arguments[:1] in ((), ("--address",)) else USAGE)
    assert done.stdout == ""
    assert "Traceback" not in done.output
    assert says in done.stderr


def test_a_missing_file_is_named():
    done = CliRunner().invoke(build_app(), ["render", "/nowhere/sdl.yaml"])
    assert done.exit_code == 2
    assert "cannot read /nowhere/sdl.yaml" in done.stderr


def test_rendering_never_imports_pulumi():
    code = "import sys, provider.cli.render; sys.exit('pulumi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
