"""Hashes pinned in sdl-and-manifest.md §3.5: one probe document and what every change to it does."""

from __future__ import annotations

import base64
import hashlib

import pytest

from lease.manifest import Group
from lease.manifest_json import canonical_manifest, manifest_version
from lease.sdl import read_sdl

P0 = """version: "2.0"
services: {web: {image: nginx, expose: [{port: 80, to: [{global: true}]}]}}
profiles:
  compute: {web: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 1Gi}}}}
  placement: {dc: {pricing: {web: {denom: uact, amount: 1}}}}
deployment: {web: {dc: {profile: web, count: 1}}}
"""
UNCHANGED = "666a13fbf1c5d1dbce95500de6e010fb45f53e7481e1a885168f9c53d72d3cac"
IMAGE, EXPOSE, STORAGE = "image: nginx", "{port: 80, ", "storage: {size: 1Gi}"
MERGED = "  storage: [{size: 1Gi}, {name: d, size: 1Gi, attributes: {persistent: true}}]"
CREDENTIALS = 'credentials: {host: " r.io ", username: u, password: " pw ", email: e@x.yz}'
D_ONLY = "storage: [{name: d, size: 1Gi, attributes: {persistent: true}}]"


def _service(text: str) -> tuple[str, str]:
    return IMAGE, f"{IMAGE}, {text}"


def _expose(text: str) -> tuple[str, str]:
    return EXPOSE, f"{{port: 80, {text}, "


def _gpu(text: str) -> tuple[str, str]:
    return STORAGE, f"{STORAGE}, gpu: {{units: 1, attributes: {{vendor: {{nvidia: {text}}}}}}}"


V21 = ('"2.0"', '"2.1"')
PROBES = [
    ([], UNCHANGED),
    ([V21], UNCHANGED),
    ([('"2.0"', '"3.0"')], UNCHANGED),
    ([("100m", "0.1")], UNCHANGED),
    ([_expose("http_options: {max_body_size: 0}")], UNCHANGED),
    ([(STORAGE, "storage: {name: data, size: 1Gi}")], UNCHANGED),
    ([("denom: uact, amount: 1", "denom: ibc/ABC, amount: 7.25")], UNCHANGED),
    ([_service("command: [], args: [], env: []")], "000e4ff9e93b04d053931869a4a821a0ca624e689b84db794557ca213f41743d"),
    ([_service('env: ["A=<b>&c"]')], "614b94f555e10ba9239314bfa58699be3f319777958e4fec3685b5ca0901aa95"),
    ([_service('env: ["A=\u00e9\\L"]')], "41b4d47966a55efac9bc0f3f9c921325709ffdcc48822506541e0854719931dd"),
    ([_expose("accept: []")], "2bdc56221ea517a9f7052e3e36b3724cc76ee67d47cf1361cdad5005a6e8534d"),
    ([_expose("accept: [a.example.com]")], "01ad5d082a3add4a565e4f6f3e4c773493235094bf66763df9a984990b00b2cd"),
    ([_expose("as: 80")], "8952e0df6cc8960a6714ca609db5d977d3e83feb9d3ff6bde1b99b91c9d9b067"),
    ([_expose("as: 8080")], "94fc37f3928dc01b26833ad21f72d167e37a67949528bad87ffce32d96db8797"),
    ([_expose("proto: udp")], "9654ba3ca5711d52dbffb2fd3e33df919de162d466693b17eb81313a37567aba"),
    (
        [_expose("http_options: {proxy_buffer_size: 4096}")],
        "0bb3e56a36b2dead27abf1e21ab6ebc27db87e4a473919b9c1c7e72a1668eb8e",
    ),
    (
        [_expose('http_options: {next_cases: [500, "404"]}')],
        "c7f2ec08ba7edd4dcb8e2d5ac9777275925ba4ed4c74a97d69c22e1a4dfe1d9f",
    ),
    ([("[{port: 80", "[{port: 9000}, {port: 80")], "5b1d4249d97d5e44457c61a310d18aec15c917e8380ac7997892efd2e1fe8c57"),
    ([("128Mi", "0.3Gi")], "55c21655e38fe1fa4a35300e8739df3c82a888a09c9e96f21fa74d6b3dfd9a3c"),
    ([("100m", "1.001")], "0ae146ff85080b232edcbef506b235ce612b9530d19d06ef0e37653235886a24"),
    (
        [("units: 100m", "units: 100m, attributes: {arch: amd64}")],
        "02fd58eedf753cc55e68f25faa999afff0bd7200ec7223efbcf27dfaa0f0e0a7",
    ),
    ([_service("params: {}")], "5a23a14f3ae3462152b050d7cbd9d8a56d1fb7be578e69956422147aad8ff91a"),
    (
        [_service("params: {permissions: {read: [logs]}}")],
        "9187c3a816cdf6fd67ee8f4f1d5650b114afc3b01b40ebe99b4f6128f3a0f0fb",
    ),
    ([_service("params: {permissions: {}}")], "8446b1da44a871738f374eee0c63cc2498f2ddd4a85c499253026bf2b95cf474"),
    ([_service("params: {tee: cpu}")], "85d5b90b640b36b3646a88310523430f7b3d07346977c5b136e27c1ccdd27ca8"),
    ([_service(CREDENTIALS)], "7e5bc653c5512b6a69e157cfa1c6ed7b9e676b28cc74811f73ff5c676c515d0c"),
    ([_service(CREDENTIALS), V21], "2a90362c58051938e69cbaba7b061f88dfc2fb4612f083fd077b5703a417c279"),
    (
        [(STORAGE, "storage: [{name: a, size: 1Gi}, {name: b, size: 1Gi}, {name: c, size: 1Gi}]")],
        "85d0846d03f11a1c234c958e01119f2c074790030ee06e088453dc04bfc53942",
    ),
    (
        [(STORAGE, "storage: [{size: 1Gi, attributes: {}}]")],
        "e960421ba3702ef02d0fe7ed9ff121c00e68b2257fd15ad93d15380df694623d",
    ),
    (
        [(STORAGE, MERGED), _service("params: {storage: {d: {mount: /d}}}")],
        "73aed5bebc11d8dcc81358afd874d4e77f5290ded895883eae9c3659c73d74d7",
    ),
    ([(STORAGE, D_ONLY), V21], "39f7c5c02ee7e5462a82551d1baef0ede24703f5e1e8ba794fccea6a8a2719bc"),
    ([_gpu("null")], "30ca1d13cdeae19207a69c209625d9744afa843d9e42bb5be3872eb883b8ef5a"),
    (
        [_gpu("[{model: a100, ram: 81920Mi, interface: sxm}]")],
        "d4ceb11f07d6a11425e5dd731ad6834691b9d808c016b5dc2869bd717d0fd867",
    ),
    ([_gpu("[{model: b}, {model: a}]")], "61d10c9dcc67a39a42ea684c615baa012ee3a22570c3e4eb936c21624ae40f06"),
]


@pytest.mark.parametrize(("changes", "expected"), PROBES)
def test_a_change_to_the_probe_document_gives_the_recorded_hash(changes: list[tuple[str, str]], expected: str) -> None:
    text = P0
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    assert read_sdl(text).version.hex() == expected


P1 = """version: "2.0"
endpoints: {meow: {kind: ip}}
services:
  web: {image: nginx, expose: [{port: 80, to: [{global: true, ip: meow}]}]}
  db: {image: postgres, expose: [{port: 5432, to: [{service: web}]}]}
profiles:
  compute: {web: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 1Gi}}}}
  placement: {dc: {pricing: {web: {denom: uact, amount: 1}}}}
deployment: {web: {dc: {profile: web, count: 1}}, db: {dc: {profile: web, count: 2}}}
"""


@pytest.mark.parametrize(
    ("version", "expected", "units"),
    [
        ("2.0", "c8dde26cbbcd9a9fe7df88d0f5ed9d8269b94c114ed43da6e372d3d910802c37", [(1, 2), (2, 1)]),
        ("2.1", "1eda9242920babf178dad62e2af3c025d0e12f7f56ab1d96dfbe12261768c71a", [(1, 3)]),
    ],
)
def test_units_of_one_profile_are_merged_from_2_1_on(version: str, expected: str, units: list[tuple[int, int]]) -> None:
    sdl = read_sdl(P1.replace("2.0", version))
    assert sdl.version.hex() == expected
    assert [(unit.resources.id, unit.count) for unit in sdl.groups[0].units] == units
    web = next(service for service in sdl.manifest[0].services or () if service.name == "web")
    assert [expose.endpoint_sequence_number for expose in web.expose or ()] == [2]


@pytest.mark.parametrize(
    ("service", "image", "port", "cpu", "expected"),
    [
        ("tetris", "bsord/tetris", 80, 1, "ee52e329aa45b0638c27065d52eb0dc92f6704194bc63c6435c56fb549dded7d"),
        ("tetris-main", "bsord/tetris", 80, 1, "838f09afb4073a3ca8eb25ff5f4f02fb9d2cde6985be636b04ede17401154583"),
        (
            "minesweeper",
            "creepto/minesweeper",
            3000,
            0.1,
            "76857258cd925b92f12f93ebc8f488c637a17708764f7996d54ad02c2564f174",
        ),
    ],
)
def test_hashes_pinned_by_the_typescript_sdk_are_ours(
    service: str, image: str, port: int, cpu: float, expected: str
) -> None:
    text = f"""version: "2.0"
services: {{{service}: {{image: {image}, expose: [{{port: {port}, as: 80, to: [{{global: true}}]}}]}}}}
profiles:
  compute: {{p: {{resources: {{cpu: {{units: {cpu}}}, memory: {{size: 512Mi}}, storage: [{{size: 512Mi}}]}}}}}}
  placement: {{akash: {{pricing: {{p: {{denom: uakt, amount: 10000}}}}}}}}
deployment: {{{service}: {{akash: {{profile: p, count: 1}}}}}}
"""
    assert read_sdl(text).version.hex() == expected


SIMPLE = """version: "2.0"
services:
  web: {image: nginx, expose: [{port: 80, accept: [ahostname.com], to: [{global: true}]},
    {port: 12345, to: [{global: true}], proto: udp}]}
profiles:
  compute: {web: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 1Gi}}}}
  placement: {westcoast: {pricing: {web: {denom: uact, amount: 50}}}}
deployment: {web: {westcoast: {profile: web, count: 2}}}
"""


def test_the_canonical_bytes_of_the_worked_example() -> None:
    manifest = read_sdl(SIMPLE).manifest
    text = canonical_manifest(manifest)
    assert len(text) == 919
    assert text.startswith(
        b'[{"name":"westcoast","services":[{"args":null,"command":null,"count":2,"credentials":null,'
    )
    assert base64.b64encode(manifest_version(manifest)) == b"j4uscWGVOZPzKIGJ4+dgk6UdM/nN/xyCQuuatQaYFzc="
    assert len(manifest_version(manifest)) == 32


def test_angle_brackets_and_ampersands_are_escaped_before_hashing() -> None:
    manifest = read_sdl(SIMPLE.replace("image: nginx", 'image: nginx, env: ["A=<b>&c"]')).manifest
    assert b"A=\\u003cb\\u003e\\u0026c" in canonical_manifest(manifest)
    assert manifest_version(manifest).hex() == "f633c4e23de2abd41d4135d8f21ab3c1a43560c1adb202a56f776600bea7748e"


def test_the_hash_of_no_groups_is_that_of_an_empty_list() -> None:
    assert manifest_version(()) == hashlib.sha256(b"[]").digest()
    assert manifest_version((Group("a", None),)) == hashlib.sha256(b'[{"name":"a","services":null}]').digest()
