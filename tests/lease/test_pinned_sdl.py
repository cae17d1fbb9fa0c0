"""The numbered behaviours of the SDL that Go's own tests pin (sdl-and-manifest.md §6, 1 to 28): one test a number, that
its docstring cites; `test_reference_index.py` looks that none is missing.
"""

from __future__ import annotations

import pytest

from lease.manifest import HttpOptions, Service
from lease.manifest_json import manifest_json
from lease.resources import Attribute, EndpointKind, Volume
from lease.sdl import read_sdl
from lease.sdl.quantities import byte_size, cpu_milli, decimal_amount
from lease.sdl.storage import sorted_volumes
from lease.validation import cross_validate
from tests.lease.documents import (
    BASE,
    DEFAULTS,
    MIX,
    NVIDIA,
    SHARED_IP,
    SIMPLE,
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

HTTP, PORT, IP = EndpointKind
BOTH = pytest.mark.parametrize("version", ["2.0", "2.1"])


def volumes(storage: str, version: str = "2.1") -> list[tuple[str, dict[str, str]]]:
    found = service_of(read(storage=storage, version=version)).resources.storage or ()
    return [(volume.name, {item.key: item.value for item in volume.attributes}) for volume in found]


def kinds(service: Service) -> list[EndpointKind]:
    return [item.kind for item in service.resources.endpoints or ()]


def test_cpu_units_are_cores_or_thousandths() -> None:
    """sdl-and-manifest.md §6 1."""
    assert [cpu_milli(text) for text in ("1", "0.5", "100m")] == [1000, 500, 100]
    assert service_of(read(cpu='"100m"')).resources.cpu_milli == 100
    for text in ("-1", "-0.5", "-100m", ""):
        with pytest.raises(ValueError):
            cpu_milli(text)
        assert problems(cpu=f'"{text}"')


def test_bytes_take_decimal_suffixes_and_fractions() -> None:
    """sdl-and-manifest.md §6 2."""
    sizes = {"1": 1, "1M": 10**6, "0.5M": 500_000, "3M": 3 * 10**6, "3G": 3 * 10**9, "3T": 3 * 10**12}
    for text, size in {**sizes, "3P": 3 * 10**15, "3E": 3 * 10**18}.items():
        assert byte_size(text) == size
    for text in ("-1", "-1M", "-0.5M", ""):
        with pytest.raises(ValueError):
            byte_size(text)
        assert problems(memory=f'"{text}"')


def test_prices_are_decimals_and_never_negative() -> None:
    """sdl-and-manifest.md §6 3."""
    assert [str(decimal_amount(text)) for text in ("1", "0.7")] == ["1", "0.7"]
    for text in ("-1", "-0.7"):
        assert "negative value not allowed" in problems(amount=text)


def test_a_cpu_architecture_is_one_attribute() -> None:
    """sdl-and-manifest.md §6 4."""
    assert service_of(read(cpu="1, attributes: {arch: amd64}")).resources.cpu_attributes == (
        Attribute("arch", "amd64"),
    )


def test_a_gpu_needs_a_vendor_and_its_models_become_keys() -> None:
    """sdl-and-manifest.md §6 5."""
    assert "at least one vendor must be set" in gpu_problem("null")
    assert gpu_keys("{nvidia: null}") == [f"{NVIDIA}*"]
    assert gpu_keys("{nvidia: [{model: a100}]}") == [f"{NVIDIA}a100"]
    assert gpu_keys("{nvidia: [{model: a100, ram: 80Gi}]}") == [f"{NVIDIA}a100/ram/80Gi"]
    assert 'parsing "80G"' in gpu_problem("{nvidia: [{model: a100, ram: 80G}]}")
    assert "invalid GPU interface pciex" in gpu_problem("{nvidia: [{model: a100, interface: pciex}]}")
    assert gpu_keys("{nvidia: [{model: a100, ram: 80Gi, interface: pcie}]}") == [
        f"{NVIDIA}a100/ram/80Gi/interface/pcie"
    ]


def test_gpu_keys_are_sorted() -> None:
    """sdl-and-manifest.md §6 6."""
    a100 = "{model: a100, ram: 80Gi}"
    assert gpu_keys(f"{{nvidia: [{a100}, {{model: a100, ram: 40Gi}}]}}") == [
        f"{NVIDIA}a100/ram/40Gi",
        f"{NVIDIA}a100/ram/80Gi",
    ]
    assert gpu_keys(f"{{nvidia: [{a100}, {{model: a100}}]}}") == [f"{NVIDIA}a100", f"{NVIDIA}a100/ram/80Gi"]
    assert gpu_keys("{nvidia: [{model: a6000}, {model: a40}]}") == [f"{NVIDIA}a40", f"{NVIDIA}a6000"]


def test_storage_is_a_mapping_or_a_list_and_class_comes_before_persistent() -> None:
    """sdl-and-manifest.md §6 7."""
    assert volumes("{size: 1Gi}") == volumes("[{size: 1Gi}]") == [("default", {})]
    stored = service_of(read(storage="[{size: 1Gi, attributes: {persistent: true, class: default}}]", version="2.1"))
    assert (stored.resources.storage or ())[0].attributes == (
        Attribute("class", "default"),
        Attribute("persistent", "true"),
    )


@pytest.mark.parametrize(
    ("storage", "refusal"),
    [
        ("[{size: 1Gi, attributes: {foo: bar}}]", "unsupported storage attribute"),
        ("[{size: 1Gi}, {size: 1Gi}]", "duplicated volume name"),
        ("[{size: 1Gi, attributes: {class: default}}]", "ephemeral storage should not set attribute class"),
        (
            "[{size: 1Gi, attributes: {class: beta1, persistent: false}}]",
            "ephemeral storage should not set attribute class",
        ),
        ("[{size: 1Gi, attributes: {class: ram, persistent: true}}]", "ram storage class cannot be persistent"),
    ],
)
def test_storage_attributes_that_contradict_each_other_are_errors(storage: str, refusal: str) -> None:
    """sdl-and-manifest.md §6 8."""
    assert refusal in problems(storage=storage)
    assert volumes("[{size: 1Gi, attributes: {persistent: true}}]")[0][1]["class"] == "default"
    assert volumes("[{size: 1Gi, attributes: {persistent: true, class: beta1}}]")[0][1]["class"] == "beta1"
    assert volumes("[{size: 1Gi, attributes: {class: ram, persistent: false}}]")[0][1]["class"] == "ram"


def test_volumes_are_sorted_by_size_whatever_they_are() -> None:
    """sdl-and-manifest.md §6 9."""
    persistent = Volume("p", 2 * 2**30, (Attribute("persistent", "true"),))
    ordered = sorted_volumes([persistent, Volume("a", 2**30), Volume("b", 10 * 2**30)])
    assert [volume.size_bytes // 2**30 for volume in ordered] == [1, 2, 10]


MOUNTS = [
    ("configs: {}", "expected absolute path"),
    ("configs: {mount: etc/nginx}", "expected absolute path"),
    ("other: {mount: /test}", "references to no-existing compute volume"),
    ("configs: {mount: /test}, default: {mount: /test}", "already in use by volume"),
]


@pytest.mark.parametrize(("params", "refusal"), MOUNTS)
def test_mounts_are_checked_against_the_compute_profile(params: str, refusal: str) -> None:
    """sdl-and-manifest.md §6 10."""
    storage = "[{size: 1Gi}, {name: configs, size: 1Gi, attributes: {persistent: true}}]"
    assert refusal in problems(storage=storage, service=f"params: {{storage: {{{params}}}}},")
    assert "to have mount" in problems(storage=storage, service="params: {storage: null},")
    good = service_of(read(storage=storage, service="params: {storage: {configs: {mount: /test}}},"))
    assert [volume.name for volume in good.resources.storage or ()] == ["default", "configs"]
    assert (good.resources.storage or ())[1].attributes == (
        Attribute("class", "default"),
        Attribute("persistent", "true"),
    )
    assert good.params is not None
    assert [(item.name, item.mount, item.read_only) for item in good.params.storage or ()] == [
        ("configs", "/test", False)
    ]


def test_the_proxy_buffer_size_is_kept_and_absent_when_unset() -> None:
    """sdl-and-manifest.md §6 11."""
    unset = read()
    assert expose_of(unset).http_options.proxy_buffer_size == 0
    assert "proxyBufferSize" not in manifest_json(unset.manifest)
    for size in (32768, 1048576):
        kept = read(expose=f"http_options: {{proxy_buffer_size: {size}}},")
        assert expose_of(kept).http_options.proxy_buffer_size == size
        assert f'"proxyBufferSize":{size}' in manifest_json(kept.manifest)
    assert "http option not allowed" in problems(expose="http_options: {proxy_buffer_size: 1048577},")


def test_http_options_default_everywhere() -> None:
    """sdl-and-manifest.md §6 12."""
    expected = HttpOptions(1048576, 60000, 60000, 3, 0, ("error", "timeout"), 0)
    for text in ("", "http_options: {},", "http_options: null,"):
        assert expose_of(read(expose=text)).http_options == expected


@BOTH
def test_reclamation_windows_are_positive_go_durations(version: str) -> None:
    """sdl-and-manifest.md §6 13."""
    hour = 3600
    for text, seconds in {"1h": hour, "720h": 720 * hour, "30m": 1800, "1h30m": 5400, "24h": 24 * hour}.items():
        sdl = read(version=version, top=f"reclamation: {{min_window: {text}}}")
        assert sdl.reclamation_min_window_seconds == seconds
    for text in ("abc", "0s", "-1h", '""'):
        assert "reclamation" in problems(version=version, top=f"reclamation: {{min_window: {text}}}")
    assert read(version=version).reclamation_min_window_seconds is None


@BOTH
def test_the_simple_document_is_one_group_of_one_unit(version: str) -> None:
    """sdl-and-manifest.md §6 14."""
    sdl = read_sdl(SIMPLE.format(version=version))
    (group,) = sdl.groups
    (unit,) = group.units
    resources = unit.resources
    assert (group.name, resources.id, unit.count) == ("westcoast", 1, 2)
    assert (resources.cpu_milli, resources.gpu_units, resources.memory_bytes) == (100, 0, 128 * 2**20)
    assert resources.storage == (Volume("default", 2**30),)
    assert [item.kind for item in resources.endpoints or ()] == [HTTP, PORT]
    assert (unit.price.denom, unit.price.amount) == ("uact", 50)
    (web,) = services(sdl)
    assert [(item.port, item.proto, item.hosts) for item in web.expose or ()] == [
        (80, "TCP", ("ahostname.com",)),
        (12345, "UDP", None),
    ]
    assert web.credentials is None


@BOTH
def test_a_gpu_document_has_its_card_and_sorted_placement_attributes(version: str) -> None:
    """sdl-and-manifest.md §6 15."""
    gpu = "storage: {{size: 1Gi}}, gpu: {{units: 1, attributes: {{vendor: {{nvidia: [{{model: a100}}]}}}}}}"
    text = SIMPLE.replace("storage: {{size: 1Gi}}", gpu).replace("zone: z", "arch: z").format(version=version)
    (group,) = read_sdl(text).groups
    resources = group.units[0].resources
    assert resources.gpu_units == 1
    assert resources.gpu_attributes == (Attribute(f"{NVIDIA}a100", "true"),)
    assert [item.key for item in group.requirements.attributes or ()] == ["arch", "region"]


@BOTH
def test_two_profiles_are_two_units_in_both_versions(version: str) -> None:
    """sdl-and-manifest.md §6 16."""
    sdl = read_sdl(MIX.format(version=version, second="plain"))
    assert [(unit.resources.id, unit.resources.gpu_units, unit.count) for unit in sdl.groups[0].units] == [
        (1, 1, 1),
        (2, 0, 1),
    ]
    assert [service.resources.id for service in services(sdl)] == [1, 2]


def test_one_profile_of_two_services_is_merged_from_2_1_on() -> None:
    """sdl-and-manifest.md §6 17."""
    old, new = (read_sdl(MIX.format(version=version, second="gpu")) for version in ("2.0", "2.1"))
    assert [(unit.resources.id, unit.count) for unit in old.groups[0].units] == [(1, 1), (2, 1)]
    (merged,) = new.groups[0].units
    assert (merged.resources.id, merged.count) == (1, 2)
    assert [item.kind for item in merged.resources.endpoints or ()] == [HTTP, PORT, HTTP, PORT]
    assert [service.resources.id for service in services(new)] == [1, 1]
    assert [kinds(service) for service in services(new)] == [[HTTP, PORT]] * 2


@BOTH
def test_names_of_services_and_profiles_are_free_and_undeployed_services_ignored(version: str) -> None:
    """sdl-and-manifest.md §6 18."""
    renamed = SIMPLE.replace("profile: web", "profile: p").replace("    web: {{resources", "    p: {{resources")
    renamed = renamed.replace("pricing: {{web:", "pricing: {{p:")
    assert read_sdl(renamed.format(version=version)).version == read_sdl(SIMPLE.format(version=version)).version
    undefined = SIMPLE.replace("deployment: {{web:", "deployment: {{ghost:")
    refused("no service profile named ghost", undefined.format(version=version))
    more = SIMPLE.replace("services:\n", "services:\n  idle: {{image: b}}\n")
    assert [service.name for service in services(read_sdl(more.format(version=version)))] == ["web"]


def test_hashes_have_32_bytes_and_differ_where_documents_do() -> None:
    """sdl-and-manifest.md §6 19."""
    simple = SIMPLE.format(version="2.0")
    private = simple.replace("[{global: true}]\n      - port", "[{global: true}, {service: web}]\n      - port")
    private = private.replace("        accept: [ahostname.com]\n", "")
    versions = [read_sdl(text).version for text in (simple, simple.replace("128Mi", "256Mi"), private)]
    assert [len(version) for version in versions] == [32] * 3
    assert len(set(versions)) == 3


@BOTH
@pytest.mark.parametrize("second", ["gpu", "plain"])
def test_manifest_and_groups_of_one_document_always_fit_each_other(version: str, second: str) -> None:
    """sdl-and-manifest.md §6 20."""
    for text in (SIMPLE.format(version=version), MIX.format(version=version, second=second)):
        sdl = read_sdl(text)
        cross_validate(sdl.manifest, sdl.groups)


@BOTH
def test_a_leased_ip_adds_an_endpoint_with_a_number_of_its_own(version: str) -> None:
    """sdl-and-manifest.md §6 21."""
    single = read(version=version, top="endpoints: {meow: {kind: ip}}", to="global: true, ip: meow")
    assert (expose_of(single).global_, expose_of(single).ip) == (True, "meow")
    assert kinds(service_of(single)) == [HTTP, IP]
    assert expose_of(single).endpoint_sequence_number > 0
    assert leased(single) == [[[expose_of(single).endpoint_sequence_number]]]
    shared = read_sdl(SHARED_IP.format(version=version, more="", other="meow", placement="dc"))
    assert leased(shared) == ([[[2], [2]]] if version == "2.0" else [[[2, 2]]])
    numbers = [expose.endpoint_sequence_number for service in services(shared) for expose in service.expose or ()]
    assert numbers == [2, 2]
    apart = read_sdl(SHARED_IP.format(version=version, more=", purr: {kind: ip}", other="purr", placement="ec"))
    assert leased(apart) == [[[1]], [[2]]]
    assert [kinds(group.services[0]) for group in apart.manifest if group.services] == [[PORT, IP]] * 2
    multi = read_sdl(SHARED_IP.format(version=version, more=", purr: {kind: ip}", other="purr", placement="dc"))
    assert len(multi.groups[0].units) == (2 if version == "2.0" else 1)


def test_endpoint_names_start_with_a_lower_case_letter() -> None:
    """sdl-and-manifest.md §6 22."""
    for name in ("meow72-memes", "meow72-mem_es"):
        assert read(top=f"endpoints: {{{name}: {{kind: ip}}}}", to=f"global: true, ip: {name}")
    for name in ("!important", "foo^bar", "ROAR", "996", "_kittens", "-kittens"):
        endpoints = f"endpoints: {{'{name}': {{kind: ip}}}}"
        assert "is not a valid name" in problems(top=endpoints, to=f"global: true, ip: '{name}'")


def test_credentials_of_2_1_are_kept_and_need_a_host() -> None:
    """sdl-and-manifest.md §6 23."""
    given = "credentials: {host: 'https://test.com/v1', username: foo, password: foo},"
    credentials = service_of(read(version="2.1", service=given)).credentials
    assert credentials is not None
    assert (credentials.host, credentials.username, credentials.password) == ("https://test.com/v1", "foo", "foo")
    missing = "credentials: {username: foo, password: foo},"
    assert "missing Host" in problems(version="2.1", service=missing)


GPU = "{units: 1, attributes: {vendor: {nvidia: null}}}"


def test_tee_types_are_requirements_of_the_placement() -> None:
    """sdl-and-manifest.md §6 24."""
    for tee, gpu in (("cpu", "null"), ("cpu-gpu", GPU)):
        sdl = read(version="2.1", service=f"params: {{tee: {tee}}},", gpu=gpu, attributes="{zone: a, region: b}")
        params = service_of(sdl).params
        assert params is not None and params.tee is not None
        assert (params.tee.type, params.tee.attestation) == (tee, True)
        assert sdl.groups[0].requirements.attributes == (
            Attribute("region", "b"),
            Attribute("tee/type", tee),
            Attribute("zone", "a"),
        )
    assert "unsupported tee type" in problems(service="params: {tee: invalid-tee},")
    assert "tee type requires gpu resources" in problems(service="params: {tee: cpu-gpu},")
    assert service_of(read()).params is None
    both = MIX.replace("image: a\n", "image: a\n    params: {{tee: cpu}}\n")
    same = read_sdl(
        both.replace("image: b\n", "image: b\n    params: {{tee: cpu}}\n").format(version="2.1", second="gpu")
    )
    assert same.groups[0].requirements.attributes == (Attribute("tee/type", "cpu"),)
    other = both.replace("image: b\n", "image: b\n    params: {{tee: cpu-gpu}}\n")
    refused("conflicting tee types", other.format(version="2.1", second="gpu"))
    apart = other.replace("svcb: {{dc:", "svcb: {{ec:").replace(
        "  placement:\n", "  placement:\n    ec: {{pricing: {{gpu: {{denom: uact, amount: 5}}}}}}\n"
    )
    assert len(read_sdl(apart.format(version="2.1", second="gpu")).groups) == 2


def test_a_full_document_of_2_0_is_accepted() -> None:
    """sdl-and-manifest.md §6 25."""
    sdl = read(
        cpu="1, attributes: {arch: amd64}",
        gpu=GPU,
        storage="[{size: 1Gi}, {name: data, size: 1Gi, attributes: {persistent: true, class: default}}]",
        service="params: {storage: {data: {mount: /data}}},",
    )
    assert service_of(sdl).resources.gpu_units == 1


FIXTURES = {
    **dict.fromkeys(("gpu-basic", "http-options", "ip-endpoint", "multiple-services", "persistent-storage"), "2.0"),
    **dict.fromkeys(("placement", "port-ranges", "pricing", "simple", "storage-classes"), "2.0"),
    **dict.fromkeys(("credentials", "shared-ip", "tee-cpu", "tee-cpu-gpu"), "2.1"),
}


def test_every_parity_fixture_is_in_the_corpus_and_compared(corpus: dict[str, bool]) -> None:
    """sdl-and-manifest.md §6 26; `test_corpus.py` compares manifest, groups and hash of each."""
    names = [f"base-{name}-v{version}" for name, version in FIXTURES.items()] + ["base-ip-endpoint-v2.1"]
    assert len(names) == 15
    assert [name for name in names if corpus.get(name) is not True] == []


INVALID_FIXTURES = (
    "count-zero credentials-missing-host empty-image missing-image endpoint-not-used endpoint-name port "
    "port-zero protocol ip-without-global missing-deployment missing-memory-size missing-pricing missing-version "
    "negative-cpu persistent-without-mount ram-persistent-true unknown-field v2.1-reclamation-bad-window "
    "v2.1-tee-cpu-gpu-no-gpu"
)


def test_every_invalid_fixture_is_in_the_corpus_and_refused(corpus: dict[str, bool]) -> None:
    """sdl-and-manifest.md §6 27; `test_corpus.py` compares the cause of each."""
    names = [f"invalid-{name}" for name in INVALID_FIXTURES.split()]
    assert [name for name in names if corpus.get(name) is not False] == []
    refused("port value must be 0 < value <= 65535", BASE.format(**DEFAULTS).replace("port: 80", "port: 99999"))


def test_what_only_the_schema_refuses_is_taken() -> None:
    """sdl-and-manifest.md §6 28: e-mail and password too short, a foreign denom, another vendor, version 3.0, a
    compound window.
    """
    credentials = "credentials: {host: h, username: u, password: p, email: a},"
    assert service_of(read(version="2.1", service=credentials)).credentials
    assert read_sdl(BASE.format(**DEFAULTS).replace("uact", "invalidtoken")).groups[0].units[0].price.denom
    assert gpu_keys("{amd: [{model: mi300}]}") == [f"{NVIDIA}*"]
    assert read(version="3.0").version == read().version
    assert read(top="reclamation: {min_window: 1h30m}").reclamation_min_window_seconds == 5400
