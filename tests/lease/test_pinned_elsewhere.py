"""What the JSON schema and the TypeScript SDK pin (sdl-and-manifest.md §6, 29 to 34 and 44 to 46): what counts here is
the Go parser's own verdict on each value.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from lease.errors import SdlInvalid
from lease.sdl import read_sdl
from lease.sdl.quantities import byte_size, cpu_milli, duration_seconds
from tests.lease.documents import (
    BASE,
    DEFAULTS,
    MIX,
    NVIDIA,
    SHARED_IP,
    expose_of,
    gpu_keys,
    gpu_problem,
    leased,
    problems,
    read,
    refused,
    service_of,
    services,
)

# 29 to 34 are of the JSON schema, which Go only warns with: what counts is the parser's own verdict on each value.


def verdict(**changes: str) -> bool:
    try:
        read(**changes)
    except SdlInvalid:
        return False
    return True


def test_versions_are_the_parsers_and_not_the_schemas() -> None:
    """sdl-and-manifest.md §6 29 (§1.1): the schema is narrower, the parser takes unquoted and later versions."""
    for version in ("2.0", "2.1", "2.2", "3.0"):
        assert verdict(version=version)
    assert not verdict(version="1.0")
    assert read_sdl(BASE.format(**DEFAULTS).replace('"2.0"', "2.0")).version == read().version
    refused("no version found", BASE.format(**DEFAULTS).replace("version:", "VERSION:"))


def test_ports_protocols_and_denoms_are_the_parsers() -> None:
    """sdl-and-manifest.md §6 30: `Tcp` and other denoms are for the schema only."""
    text = BASE.format(**DEFAULTS)
    for port in ("1", "80", "65535"):
        assert read_sdl(text.replace("port: 80", f"port: {port}")).groups
    for port, refusal in (("0", "port value"), ("65536", "port value"), ("-1", "must be a number")):
        refused(refusal, text.replace("port: 80", f"port: {port}"))
    assert [verdict(expose=f"proto: {proto},") for proto in ("TCP", "tcp", "UDP", "udp", "Tcp")] == [True] * 5
    assert not any(verdict(expose=f"proto: {proto},") for proto in ("http", "HTTP", "SCTP"))
    assert all(read_sdl(text.replace("uact", denom)).groups for denom in ("uakt", "ibc/ABC"))


def test_quantities_are_the_parsers_and_the_groups_limits() -> None:
    """sdl-and-manifest.md §6 31: 999999999 and `1ZB` pass the schema, not the limits and the parser."""
    assert all(verdict(cpu=units) for units in ("1", "0.5", "100m", '"2"'))
    zeros = ("0", "0.0", "00", "0.00", "00.0", "0m", "00m")
    assert not any(verdict(cpu=units) for units in (*zeros, "-1", "999999999"))
    assert not verdict(storage="{size: 0}")
    assert not verdict(memory="1ZB")
    assert not verdict(storage="[]")


def test_gpus_are_the_parsers() -> None:
    """sdl-and-manifest.md §6 32: fractions and `00` differ; `vendor: {}` and other vendors mean any nvidia card."""
    assert all(verdict(gpu=gpu) for gpu in ("{units: 0}", '{units: "0"}', '{units: "00"}', "{}"))
    assert not any(verdict(gpu=gpu) for gpu in ('{units: "0.00"}', "{units: 1}", '{units: "1"}', "{units: 0.5}"))
    assert not verdict(gpu="{units: 0, attributes: {vendor: {nvidia: null}}}")
    for vendor in ("{}", "{nvidia: []}", "{amd: null}"):
        assert gpu_keys(vendor) == [f"{NVIDIA}*"]
    assert "ram" not in gpu_keys("{nvidia: [{model: a}]}")[0]
    assert "syntax" in gpu_problem("{nvidia: [{model: a, ram: lots}]}")
    assert all(
        verdict(gpu=f"{{units: 1, attributes: {{vendor: {{nvidia: [{{model: a, interface: {name}}}]}}}}}}")
        for name in ("pcie", "sxm")
    )


def test_http_options_and_amounts_are_the_parsers() -> None:
    """sdl-and-manifest.md §6 33: an amount of 0 passes the schema only."""
    assert all(verdict(expose=f"http_options: {{next_cases: {cases}}},") for cases in ("[off]", "[]", "[error, 500]"))
    assert not verdict(expose="http_options: {next_cases: [off, error]},")
    for option, maximum in (("max_body_size", 104857600), ("read_timeout", 60000), ("send_timeout", 60000)):
        assert verdict(expose=f"http_options: {{{option}: {maximum}}},")
        assert not verdict(expose=f"http_options: {{{option}: {maximum + 1}}},")
        assert not verdict(expose=f"http_options: {{{option}: -1}},")
    assert expose_of(read(expose="http_options: {next_tries: 0},")).http_options.next_tries == 3
    assert not verdict(amount="0")
    assert not verdict(amount="-1")


def test_addresses_mounts_lists_and_keys_are_the_parsers() -> None:
    """sdl-and-manifest.md §6 34: number items and unknown keys are taken, an empty ip is none, booleans are YAML
    1.1's.
    """
    endpoint = "endpoints: {meow: {kind: ip}}"
    assert verdict(top=endpoint, to="global: true, ip: meow")
    for to in ("global: false, ip: meow", "service: web, ip: meow"):
        assert "must be declared as global" in problems(top=endpoint, to=to)
    assert expose_of(read(to="global: true, ip: ''")).ip == ""
    assert "unknown kind" in problems(top="endpoints: {meow: {kind: port}}", to="global: true, ip: meow")
    storage = "[{name: d, size: 1Gi, attributes: {persistent: true}}]"
    for mount, taken in (("/data", True), ("data", False), ('""', False)):
        assert verdict(storage=storage, service=f"params: {{storage: {{d: {{mount: {mount}}}}}}},") is taken
    read_only = "params: {{storage: {{d: {{mount: /d, readOnly: {}}}}}}},"
    assert verdict(storage=storage, service=read_only.format("true"))
    assert not verdict(storage=storage, service=read_only.format('"true"'))
    for name in ("args", "env", "command"):
        assert verdict(service=f"{name}: null,")
        assert verdict(service=f"{name}: [],")
        assert not verdict(service=f"{name}: [{{a: b}}],")
    assert service_of(read(service="args: [1, 0x10],")).args == ("1", "0x10")
    for top in ("endpoints: {meow: {kind: ip}, meow: {kind: ip}}",):
        assert "already defined" in problems(top=top, to="global: true, ip: meow")
    assert verdict(service="color: red,", to="global: true, color: red", expose="color: red,")


# 44 to 46 are the TypeScript SDK's: where it differs from Go (§7) the Go result stands here.


def test_sizes_are_cut_off_and_case_counts_as_in_go() -> None:
    """sdl-and-manifest.md §6 44: TypeScript takes `1gi`, `1m` and rounds up."""
    assert byte_size("0.3Gi") == 322122547
    assert byte_size("0.1Ti") == 109951162777
    assert byte_size("1.234Mi") == 1293942
    for text in ("1m", "1gi"):
        with pytest.raises(ValueError):
            byte_size(text)
    with pytest.raises(ValueError):
        cpu_milli("250.5m")


def test_windows_are_exact_seconds_and_compounds_are_taken() -> None:
    """sdl-and-manifest.md §6 45: TypeScript's schema refuses compounds and fractions, Go's parser takes them."""
    expected = {"1s": 1, "30m": 1800, "1h": 3600, "24h": 86400, "720h": 2592000, "8760h": 31536000}
    assert {text: int(duration_seconds(text)) for text in expected} == expected
    for text, seconds in (("1h30m", Fraction(5400)), ("1.5h", Fraction(5400)), ("500ms", Fraction(1, 2))):
        assert duration_seconds(text) == seconds
    for text in ("0s", "-1h", "100", "abc", ""):
        with pytest.raises(ValueError):
            duration_seconds(text)


def test_everything_is_sorted_and_numbered_as_both_sdks_agree() -> None:
    """sdl-and-manifest.md §6 46: mounts, groups, services by name; a shared IP has number 2 twice, a single one 1."""
    storage = "[{name: b, size: 1Gi}, {name: a, size: 1Gi}]"
    params = service_of(read(storage=storage, service="params: {storage: {b: {mount: /b}, a: {mount: /a}}},")).params
    assert params is not None
    assert [item.name for item in params.storage or ()] == ["a", "b"]
    apart = read_sdl(SHARED_IP.format(version="2.1", more="", other="meow", placement="ec"))
    assert [group.name for group in apart.manifest] == ["dc", "ec"]
    assert [item.name for item in services(read_sdl(MIX.format(version="2.0", second="gpu")))] == ["svca", "svcb"]
    assert leased(read_sdl(SHARED_IP.format(version="2.1", more="", other="meow", placement="dc"))) == [[[2, 2]]]
    assert leased(read(top="endpoints: {meow: {kind: ip}}", to="global: true, ip: meow")) == [[[1]]]
    credentials = service_of(
        read(version="2.1", service="credentials: {host: h, username: u, password: p},")
    ).credentials
    assert credentials is not None
    assert credentials.email == ""
