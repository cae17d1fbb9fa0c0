"""How single values are read: the numbered behaviours of sdl-and-manifest.md §6 and the rules of §1."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from lease.errors import SdlInvalid
from lease.groups import GroupSpec
from lease.manifest import HttpOptions, StorageMount, Tee
from lease.resources import Attribute, EndpointKind, Volume
from lease.sdl import Sdl, read_sdl
from lease.sdl.quantities import byte_size, cpu_milli, decimal_amount, duration_seconds
from lease.sdl.reader import parse_uint32
from lease.sdl.storage import sorted_volumes
from tests.lease.documents import BASE, DEFAULTS, expose_of, problems, read, service_of


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("1", 1000),
        ("0.5", 500),
        ("100m", 100),
        ("0.0105", 10),
        ("1.001", 1000),
        ("0.57", 570),
        ("1e0", 1000),
        ("4294967295m", 2**32 - 1),
        ("1_0", 10000),
    ],
)
def test_cpu_units_are_thousandths_cut_off(text: str, milli: int) -> None:
    assert cpu_milli(text) == milli


@pytest.mark.parametrize(
    "text",
    [
        "-1",
        "-0.5",
        "-100m",
        "",
        "100M",
        "0.5m",
        "0x10",
        " 1",
        "1 ",
        "1 0",
        "m",
        "+5m",
        "4294967296m",
        "4294968",
        "inf",
        "nan",
        "1__0",
        "9" * 5000,
        "9" * 5000 + "m",
        "1e400",
        "١",
    ],
)
def test_cpu_units_of_another_form_or_beyond_32_bits_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        cpu_milli(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1M", 10**6),
        ("0.5M", 500_000),
        *((f"3{unit}", 3 * 10 ** (6 + 3 * power)) for power, unit in enumerate("MGTPE")),
        *((f"1{unit}i", 2 ** (10 * power)) for power, unit in enumerate("KMGTPE", 1)),
        ("1k", 1000),
        ("0.3Gi", 322122547),
        (".5Gi", 536870912),
        ("5.Gi", 5 * 2**30),
        ("1e9", 10**9),
        ("1_048_576", 2**20),
    ],
)
def test_sizes_are_bytes_cut_off(text: str, size: int) -> None:
    assert byte_size(text) == size


@pytest.mark.parametrize(
    "text", ["-1", "-1M", "-0.5M", "", "1K", "1mi", "1gi", "1GB", "1MiB", "1 Gi", "Gi", "16Ei", "1e300", "0x10", "nan"]
)
def test_sizes_of_another_form_or_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        byte_size(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1", "1"), ("0.7", "0.7"), ("+5", "5"), ("010", "10"), ("0.000000000000000001", "0.000000000000000001")],
)
def test_prices_have_at_most_18_decimals(text: str, amount: str) -> None:
    assert decimal_amount(text) == Decimal(amount)


@pytest.mark.parametrize(
    "text", ["-1", "-0.7", "0", "0.0", "", "1e3", "1.", ".5", "1_000", "1.2.3", "0." + "1" * 19, "9" * 99]
)
def test_prices_that_are_not_positive_decimals_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decimal_amount(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80", 80),
        ("0x50", 80),
        ("0X50", 80),
        ("0o120", 80),
        ("0b1010000", 80),
        ("0120", 80),
        ("08", 8),
        ("8_0", 80),
        ("+80", 80),
        ("80.9", 80),
        ("1e2", 100),
        ("-0", 0),
        ("4294967295", 2**32 - 1),
    ],
)
def test_unsigned_numbers_take_all_of_gos_spellings(text: str, value: int) -> None:
    assert parse_uint32(text) == value
    if 0 < value < 65536:
        assert expose_of(read(expose=f"as: {text},")).external_port == value


@pytest.mark.parametrize(
    "text", ["-1", "4294967296", "1e10", "1e999", "yes", "0x", "0b2", "_1", ".inf", ".nan", "9" * 100]
)
def test_what_is_no_unsigned_32_bit_number_is_refused(text: str) -> None:
    assert parse_uint32(text) is None
    assert problems(expose=f"as: {text},") == "must be a number"


def test_a_quoted_number_or_boolean_is_text() -> None:
    assert problems(expose='as: "80",') == "must be a number"
    assert problems(to='global: "true"') == "must be a boolean"
    assert problems(to="global: 1") == "must be a boolean"
    assert expose_of(read(to='global: "yes"')).global_


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"])
def test_true_has_eleven_spellings(text: str) -> None:
    assert expose_of(read(to=f"global: {text}")).global_


@pytest.mark.parametrize(
    "text", ["false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF", "~", "null"]
)
def test_false_and_null_are_not_global(text: str) -> None:
    assert problems(to=f"global: {text}") == "zero global services"


def test_scalars_that_look_like_other_types_keep_their_text_in_lists() -> None:
    sdl = read(service="args: [1.10, 0x10, yes, true, 1e3, 2001-01-01],")
    assert service_of(sdl).args == ("1.10", "0x10", "yes", "true", "1e3", "2001-01-01")


def test_null_items_are_dropped_and_null_lists_differ_from_empty_ones() -> None:
    assert service_of(read(service="args: [a, ~, null, '', b],")).args == ("a", "", "b")
    assert service_of(read(service="args: null,")).args is None
    assert service_of(read()).args is None
    assert service_of(read(service="args: [],")).args == ()


def test_a_memory_attribute_is_ignored_and_a_cpu_arch_is_kept() -> None:
    resources = service_of(read(cpu="1, attributes: {arch: amd64}", memory="128Mi, attributes: {a: b}")).resources
    assert resources.cpu_attributes == (Attribute("arch", "amd64"),)
    assert resources.memory_attributes == ()


def gpu_keys(nvidia: str) -> list[str]:
    resources = service_of(read(gpu=f"{{units: 1, attributes: {{vendor: {nvidia}}}}}")).resources
    assert {item.value for item in resources.gpu_attributes} == {"true"}
    return [item.key.removeprefix("vendor/nvidia/model/") for item in resources.gpu_attributes]


@pytest.mark.parametrize(
    ("vendor", "keys"),
    [
        ("{nvidia: null}", ["*"]),
        ("{nvidia: []}", ["*"]),
        ("{nvidia: [~]}", ["*"]),
        ("{amd: [{model: mi300}]}", ["*"]),
        ("{}", ["*"]),
        ("{nvidia: [{model: a100}]}", ["a100"]),
        ("{nvidia: [{model: a100, ram: 80Gi}]}", ["a100/ram/80Gi"]),
        ("{nvidia: [{model: a100, ram: 81920Mi}]}", ["a100/ram/80Gi"]),
        ("{nvidia: [{model: a100, ram: 1Ti}]}", ["a100/ram/1024Gi"]),
        ("{nvidia: [{model: a100, ram: 1.5Gi}]}", ["a100/ram/1Gi"]),
        ("{nvidia: [{model: a100, ram: 80}]}", ["a100/ram/0Gi"]),
        ("{nvidia: [{model: a100, ram: +80Gi}]}", ["a100/ram/80Gi"]),
        ("{nvidia: [{model: a100, ram: 8_0Gi}]}", ["a100/ram/80Gi"]),
        ("{nvidia: [{model: a100, ram: 8e1Gi}]}", ["a100/ram/80Gi"]),
        ("{nvidia: [{model: a100, ram: ~, interface: ~}]}", ["a100"]),
        ("{nvidia: [{model: a100, ram: 80Gi, interface: pcie}]}", ["a100/ram/80Gi/interface/pcie"]),
        ("{nvidia: [{model: a100, ram: 80Gi}, {model: a100, ram: 40Gi}]}", ["a100/ram/40Gi", "a100/ram/80Gi"]),
        ("{nvidia: [{model: a100, ram: 80Gi}, {model: a100}]}", ["a100", "a100/ram/80Gi"]),
        ("{nvidia: [{model: a6000}, {model: a40}]}", ["a40", "a6000"]),
    ],
)
def test_gpu_models_become_sorted_attribute_keys(vendor: str, keys: list[str]) -> None:
    assert gpu_keys(vendor) == keys


@pytest.mark.parametrize(
    "gpu",
    [
        "{units: 1, attributes: {vendor: null}}",
        "{units: 1, attributes: {}}",
        "{units: 1}",
        "{units: 1.0, attributes: {vendor: {nvidia: null}}}",
        "{units: +1, attributes: {vendor: {nvidia: null}}}",
        "{units: -1, attributes: {vendor: {nvidia: null}}}",
        "{units: 0, attributes: {vendor: {nvidia: null}}}",
        "{units: 18446744073709551616, attributes: {vendor: {nvidia: null}}}",
        "{units: 1, attributes: {vendor: {nvidia: [{model: a100, ram: 80G}]}}}",
        "{units: 1, attributes: {vendor: {nvidia: [{model: a100, ram: 1E}]}}}",
        '{units: 1, attributes: {vendor: {nvidia: [{model: a100, ram: ""}]}}}',
        '{units: 1, attributes: {vendor: {nvidia: [{model: a100, interface: ""}]}}}',
        "{units: 1, attributes: {vendor: {nvidia: [{model: a100, interface: pciex}]}}}",
        "{units: 1, attributes: {vendor: {nvidia: [{model: a100}, {model: a100}]}}}",
        "{units: 1, count: 1}",
        "[1]",
    ],
)
def test_a_gpu_request_that_nobody_can_read_is_refused(gpu: str) -> None:
    assert problems(gpu=gpu)


def volumes_of(storage: str, **changes: str) -> list[tuple[str, dict[str, str]]]:
    storage_entries = service_of(read(storage=storage, version="2.1", **changes)).resources.storage
    assert storage_entries is not None
    return [(volume.name, {item.key: item.value for item in volume.attributes}) for volume in storage_entries]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", {}),
        ("attributes: {}", {"persistent": "false"}),
        ("attributes: null", {}),
        ("attributes: {persistent: true, class: default}", {"class": "default", "persistent": "true"}),
        ("attributes: {persistent: true}", {"class": "default", "persistent": "true"}),
        ("attributes: {persistent: true, class: beta1}", {"class": "beta1", "persistent": "true"}),
        ("attributes: {class: ram, persistent: false}", {"class": "ram", "persistent": "false"}),
        ("attributes: {persistent: yes}", {"persistent": "true"}),
        ("attributes: {persistent: no, class: beta1}", {"class": "beta1", "persistent": "false"}),
    ],
)
def test_storage_attributes(attributes: str, expected: dict[str, str]) -> None:
    assert volumes_of(f"[{{name: d, size: 1Gi, {attributes}}}]") == [("d", expected)]
    assert volumes_of("{size: 1Gi}") == [("default", {})]


@pytest.mark.parametrize(
    ("storage", "gist"),
    [
        ("[{size: 1Gi, attributes: {foo: bar}}]", "unsupported storage attribute: foo"),
        ("[{size: 1Gi}, {size: 1Gi}]", "duplicated volume name"),
        ("[{size: 1Gi, attributes: {class: beta1}}]", "ephemeral storage"),
        ("[{size: 1Gi, attributes: {class: beta1, persistent: false}}]", "ephemeral storage"),
        ("[{size: 1Gi, attributes: {class: ram, persistent: true}}]", "ram storage class"),
        ("[{size: 1Gi, attributes: {class: ram, persistent: no}}]", "ram storage class"),
        ("[{size: 1Gi, attributes: {persistent: True}}]", "invalid value for attribute"),
        ("[{size: 1Gi, attributes: {persistent: true, class: fast}}]", "attribute class"),
        ("[]", "storage"),
        ("5Gi", "storage"),
    ],
)
def test_storage_that_contradicts_itself_is_refused(storage: str, gist: str) -> None:
    assert gist in problems(storage=storage)


def test_volumes_are_ordered_by_size_then_by_a_peculiar_rule() -> None:
    plain = [Volume(name, 10) for name in "abc"]
    ephemeral = [Volume(name, 10, (Attribute("persistent", "false"),)) for name in "de"]
    kept = [Volume(name, 10, (Attribute("persistent", "true"),)) for name in "gf"]
    ordered = sorted_volumes([*kept, Volume("big", 99), *plain, *ephemeral, Volume("small", 1)])
    assert [volume.name for volume in ordered] == ["small", "c", "b", "a", "e", "d", "f", "g", "big"]


@pytest.mark.parametrize(
    ("params", "gist"),
    [
        ("d: {}", "expected absolute path"),
        ("d: {mount: etc}", "expected absolute path"),
        ("d: null", "expected absolute path"),
        ("other: {mount: /a}", "references to no-existing compute volume"),
        ("default: {mount: /a}, d: {mount: /a}", "already in use by volume"),
    ],
)
def test_mounts_must_name_a_volume_and_a_free_absolute_path(params: str, gist: str) -> None:
    storage = "[{size: 1Gi}, {name: d, size: 1Gi, attributes: {persistent: true}}]"
    assert gist in problems(storage=storage, service=f"params: {{storage: {{{params}}}}},")


def test_persistent_storage_needs_a_mount_in_2_0_only() -> None:
    storage = "[{name: d, size: 1Gi, attributes: {persistent: true}}]"
    assert "to have mount" in problems(storage=storage)
    assert read(storage=storage, version="2.1")
    mounted = service_of(read(storage=storage, service="params: {storage: {d: {mount: /d, readOnly: on}}},"))
    assert mounted.params is not None
    assert mounted.params.storage == (StorageMount("d", "/d", True),)


def test_ram_cannot_be_read_only_from_2_1_on() -> None:
    storage = "[{size: 1Gi}, {name: shm, size: 1Gi, attributes: {persistent: false, class: ram}}]"
    service = "params: {storage: {shm: {mount: /dev/shm, readOnly: true}}},"
    assert "not allowed for storage class" in problems(storage=storage, service=service, version="2.1")
    assert read(storage=storage, service=service)


def test_http_options_default_everywhere_and_zero_means_default() -> None:
    zeros = "max_body_size: 0, read_timeout: 0, next_tries: 0, next_cases: [], proxy_buffer_size: 0"
    assert expose_of(read(expose=f"http_options: {{{zeros}}},")).http_options == HttpOptions()
    assert HttpOptions() == HttpOptions(1048576, 60000, 60000, 3, 0, ("error", "timeout"), 0)


@pytest.mark.parametrize(
    ("option", "maximum"),
    [("max_body_size", 104857600), ("read_timeout", 60000), ("send_timeout", 60000), ("proxy_buffer_size", 1048576)],
)
def test_http_options_have_maxima(option: str, maximum: int) -> None:
    found = expose_of(read(expose=f"http_options: {{{option}: {maximum}}},")).http_options
    assert getattr(found, option) == maximum
    assert "http option not allowed" in problems(expose=f"http_options: {{{option}: {maximum + 1}}},")


@pytest.mark.parametrize("cases", ["[501]", "[off, error]", "['error;']", "['']"])
def test_next_cases_come_from_the_list_and_off_stands_alone(cases: str) -> None:
    assert "http option not allowed" in problems(expose=f"http_options: {{next_cases: {cases}}},")
    assert expose_of(read(expose="http_options: {next_cases: [404, 404, error]},")).http_options.next_cases == (
        "404",
        "404",
        "error",
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h", 3600),
        ("720h", 2592000),
        ("30m", 1800),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("500ms", Fraction(1, 2)),
        ("+1s", 1),
        ("1µs", Fraction(1, 10**6)),
        ("2562047h", 2562047 * 3600),
    ],
)
def test_reclamation_windows_are_go_durations(text: str, seconds: Fraction) -> None:
    assert duration_seconds(text) == seconds
    sdl = read(top=f"reclamation: {{min_window: {text}}}")
    assert sdl.reclamation_min_window_seconds == seconds


@pytest.mark.parametrize(
    "text", ["abc", "0s", "-1h", '""', "null", "100", "1d", "1h 30m", "2562048h", "s", ".s", "1.2.3s", "9" * 300]
)
def test_reclamation_windows_of_another_form_are_refused(text: str) -> None:
    assert "reclamation" in problems(top=f"reclamation: {{min_window: {text}}}")
    assert read().reclamation_min_window_seconds is None
    assert read(top="reclamation: null").reclamation_min_window_seconds is None


@pytest.mark.parametrize("name", ["meow72-memes", "meow72-mem_es", "ab"])
def test_endpoint_names_that_are_taken(name: str) -> None:
    sdl = read(top=f"endpoints: {{{name}: {{kind: ip}}}}", to=f"global: true, ip: {name}")
    assert expose_of(sdl).ip == name
    kinds = [endpoint.kind for endpoint in service_of(sdl).resources.endpoints or ()]
    assert kinds == [EndpointKind.SHARED_HTTP, EndpointKind.LEASED_IP]


@pytest.mark.parametrize("name", ["!important", "foo^bar", "ROAR", "996", "_kittens", "-kittens", "a"])
def test_endpoint_names_that_are_refused(name: str) -> None:
    endpoints = f"endpoints: {{'{name}': {{kind: ip}}}}"
    assert "not a valid name" in problems(top=endpoints, to=f"global: true, ip: '{name}'")


def test_an_ip_needs_a_declared_endpoint_and_a_global_expose() -> None:
    assert "no endpoint named" in problems(to="global: true, ip: meow")
    assert "must be declared as global" in problems(top="endpoints: {meow: {kind: ip}}", to="service: web, ip: meow")
    assert "declared but never used" in problems(top="endpoints: {meow: {kind: ip}}")


def test_tee_adds_a_requirement_and_needs_a_gpu_when_it_says_so() -> None:
    sdl = read(service="params: {tee: cpu},", attributes="{zone: a, region: b}")
    params = service_of(sdl).params
    assert params is not None
    assert params.tee == Tee("cpu", True)
    attributes = sdl.groups[0].requirements.attributes
    assert [item.key for item in attributes or ()] == ["region", "tee/type", "zone"]
    assert problems(service="params: {tee: CPU},") == 'unsupported tee type: "CPU"'
    assert "tee type requires gpu resources" in problems(service="params: {tee: cpu-gpu},")
    gpu = "{units: 1, attributes: {vendor: {nvidia: null}}}"
    assert read(service="params: {tee: cpu-gpu},", gpu=gpu)


@pytest.mark.parametrize(
    "version", ["2", "2.0", "v2.0", "02.0", "2.00", "2.0.0+x", "2.1", "2.2", "2.10", "3.0", "' 2.1 '"]
)
def test_versions_that_have_rules(version: str) -> None:
    assert read_sdl(BASE.format(**DEFAULTS).replace('"2.0"', version)).groups


@pytest.mark.parametrize("version", ["1.0", "2.0.1", "2.0.0-beta", "2.1.0-rc1", "two", "''", "~", "9" * 50, "2.0.0.0"])
def test_versions_without_rules_are_refused(version: str) -> None:
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(BASE.format(**DEFAULTS).replace('"2.0"', version))
    assert caught.value.findings[0].path == "version"


def _group(sdl: Sdl) -> GroupSpec:
    return sdl.groups[0]


def test_placement_attributes_are_sorted_and_an_empty_mapping_is_null() -> None:
    assert _group(read(attributes="{b: 1, a: ~}")).requirements.attributes == (Attribute("a", ""), Attribute("b", "1"))
    assert _group(read(attributes="{}")).requirements.attributes is None
