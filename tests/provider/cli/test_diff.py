"""What `lessor diff` reads, chooses and shows, without an engine; with one: tests/whole/test_diff.py."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from typer.testing import CliRunner

from components.lease import lease_objects
from components.workload import workload_object
from lease.errors import ManifestRefused, SdlInvalid
from lease.exit_codes import FINDING, TROUBLE
from lease.exit_codes import SETTINGS as WRONG_SETTINGS
from lease.ids import LeaseId, namespace_name
from lease.manifest import Manifest
from lease.manifest_json import manifest_json
from lease.sdl import read_sdl
from lease.spec import ClusterFacts, KeptWorkload
from provider.claims.hostnames import HostnameRefusedError
from provider.cli import build_app
from provider.cli.change_table import ABSENT, compared, from_pulumi, lines
from provider.cli.next_version import NEXT_VERSION, NoDiff, Versions, next_version, parse_lease, read_manifest_text
from provider.cli.trial import preview_beside
from provider.errors import ArgumentError
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.protocols.cluster import MANIFEST, SECRET
from provider.records.applied import Applied, applied_name, applied_object, read_applied
from provider.records.manifests import ManifestRecord, read_manifest, write_manifest
from provider.settings import Settings
from provider.units import parse_address_range
from stacks.common.results import ResourceChange
from stacks.engine import EngineConfig
from tests.world.cluster import FakeCluster

OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
LEASE = LeaseId(OWNER, 1234, 1, 1, PROVIDER)
DEMO = Path(__file__).resolve().parents[3] / "examples" / "demo.yaml"
TEXT = DEMO.read_text()
FACTS = ClusterFacts(public_hostname="node.example.com", api_server_endpoints=("192.0.2.1:6443",))
SETTINGS = Settings(
    ip_ranges=(parse_address_range("203.0.113.10-203.0.113.20"),),
    blocked_hostnames=("blocked.example.com",),
)


SPECS = SpecMaker(FACTS)


def manifest(text: str = TEXT) -> Manifest:
    return read_sdl(text).manifest


async def running(*, applied: bool = True) -> FakeCluster:
    """A cluster with the demo's lease in it, as the provider would have written it down."""
    cluster = FakeCluster()
    record = await write_manifest(cluster, ManifestRecord(LEASE, manifest()[0], {}), namespace="lease")
    if applied:
        addresses = {f"{OWNER}-ip-front": "203.0.113.10"}
        spec = SPECS.make(SpecInputs(record, addresses=addresses))
        obj = applied_object(LEASE, Applied(spec, record.content_hash()), namespace="lease")
        await cluster.apply(obj)
    return cluster


async def versions(cluster: FakeCluster, wanted: Manifest) -> Versions:
    return await next_version(wanted, LEASE, settings=SETTINGS, cluster=cluster, specs=SPECS)


def shown(found: Versions) -> list[str]:
    changes = compared(lease_objects(found.running), lease_objects(found.wanted))
    return [line for _, line in lines(changes)]


async def test_the_same_manifest_changes_nothing_and_nothing_is_written() -> None:
    cluster = await running()
    writes = cluster.writes

    found = await versions(cluster, manifest())

    assert found.wanted == found.running and found.note == "" and shown(found) == []
    assert cluster.writes == writes


async def test_a_changed_service_gets_the_next_version_and_the_other_keeps_its_own() -> None:
    cluster = await running()
    writes = cluster.writes

    found = await versions(cluster, manifest(TEXT.replace("nginx:1.27", "nginx:1.28")))

    web, db = sorted(found.wanted.services, key=lambda service: service.name != "web")
    assert web.resource_version == NEXT_VERSION
    assert db in found.running.services
    told = shown(found)
    assert [line for line in told if not line.startswith(" ")] == [
        "~ Deployment web",
        "~ Service web",
        "~ Service web-np",
    ]
    label = '    metadata.labels["akash.network/manifest.resource.version"]: '
    assert all(line.endswith(' -> "next"') for line in told if line.startswith(label)) and told.count(told[1]) == 3
    assert cluster.writes == writes, "addresses and hostnames are chosen, not claimed"


async def _kept_from_an_older_builder(cluster: FakeCluster) -> None:
    """The lease was upgraded: its pods are still made as before."""
    secret = await cluster.get(SECRET, applied_name(LEASE), namespace="lease")
    applied = read_applied(secret)
    assert applied.spec is not None
    service = next(service for service in applied.spec.services if service.name == "web")
    template = workload_object(applied.spec, service)["spec"]["template"]
    template["spec"]["terminationGracePeriodSeconds"] = 5
    kept = KeptWorkload(service="web", text=SecretStr(json.dumps({"template": template})))
    spec = applied.spec.model_copy(update={"kept": (kept,)})
    await cluster.apply(applied_object(LEASE, replace(applied, spec=spec), namespace="lease"))


async def test_what_an_upgrade_kept_goes_with_the_next_manifest_and_not_before() -> None:
    cluster = await running()
    await _kept_from_an_older_builder(cluster)
    assert shown(await versions(cluster, manifest())) == []
    told = "\n".join(shown(await versions(cluster, manifest(TEXT.replace("nginx:1.27", "nginx:1.28")))))
    assert "template.spec.terminationGracePeriodSeconds: 5 -> " in told


async def test_a_secret_that_changes_is_shown_as_changed_and_never_as_itself() -> None:
    found = await versions(await running(), manifest(TEXT.replace("only-for-the-demo", "a-canary-in-the-mine")))

    told = "\n".join(shown(found))

    assert "env[0].value: [secret] -> [secret]" in told
    assert "only-for-the-demo" not in told and "canary" not in told


async def test_other_resources_than_rented_are_noted_since_the_group_on_chain_is_fixed() -> None:
    found = await versions(await running(), manifest(TEXT.replace("units: 500m", "units: 900m")))

    assert "the group on chain is fixed" in found.note and "resource id" in found.note


async def test_a_lease_nobody_knows_or_that_never_ran_is_told_apart() -> None:
    with pytest.raises(NoDiff, match="is not known in namespace lease of https://fake"):
        await versions(FakeCluster(), manifest())
    with pytest.raises(NoDiff, match="was ever applied in full"):
        await versions(await running(applied=False), manifest())


async def test_a_file_without_the_leases_placement_names_those_it_has() -> None:
    other = (replace(manifest()[0], name="elsewhere"),)
    with pytest.raises(NoDiff, match="the lease is of placement 'cluster'; the file has: elsewhere"):
        await versions(await running(), other)
    with pytest.raises(NoDiff, match="the file has: none"):
        await versions(await running(), ())


async def test_a_hostname_the_operator_has_blocked_is_refused_as_the_provider_would() -> None:
    with pytest.raises(HostnameRefusedError, match=r"blocked\.example\.com"):
        await versions(await running(), manifest(TEXT.replace("web.demo.example.com", "blocked.example.com")))


async def test_the_record_stays_what_it_was() -> None:
    cluster = await running()
    before = await cluster.get(MANIFEST, namespace_name(LEASE), namespace="lease")
    await versions(cluster, manifest(TEXT.replace("nginx:1.27", "nginx:1.28")))
    after = await cluster.get(MANIFEST, namespace_name(LEASE), namespace="lease")
    assert before is not None and after == before and read_manifest(before).lease == LEASE


def test_a_lease_is_read_as_it_is_written() -> None:
    assert parse_lease(str(LEASE)) == LEASE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        f"{OWNER}/1/1/1",
        f"{OWNER}/0/1/1/{PROVIDER}",
        f"{OWNER}/{2**64}/1/1/{PROVIDER}",
        f"{OWNER}/1/{2**32}/1/{PROVIDER}",
        f"{OWNER}/1/1/-1/{PROVIDER}",
        f"{OWNER}/1/1/1/{PROVIDER}/",
        f"{OWNER}/١/1/1/{PROVIDER}",
        f"../../x/1/1/1/{PROVIDER}",
        f"{OWNER}/1/1/1/{PROVIDER}\n",
        "x" * 100_000,
    ],
)
def test_what_is_no_lease_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(ArgumentError, match="is not OWNER/DSEQ/GSEQ/OSEQ/PROVIDER") as caught:
        parse_lease(text)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_a_manifest_is_taken_as_sdl_and_as_json() -> None:
    plain = manifest()
    assert read_manifest_text(TEXT.encode(), file="x") == plain
    assert read_manifest_text(b" \n" + manifest_json(plain).encode(), file="x") == plain


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"[", ManifestRefused),
        (b"[1]", ManifestRefused),
        (b'[{"name":"x","services":[]}]', ManifestRefused),
        (b"[" * 100_000, ManifestRefused),
        (b"", SdlInvalid),
        (b"\xff\xfe", SdlInvalid),
        (b"{}", SdlInvalid),
        (b"\x00" * 10, SdlInvalid),
    ],
)
def test_what_is_neither_is_refused(text: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_manifest_text(text, file="x")


@given(st.binary(max_size=300))
def test_no_bytes_make_anything_but_a_manifest_or_a_refusal(text: bytes) -> None:
    with suppress(ManifestRefused, SdlInvalid):
        assert isinstance(read_manifest_text(text, file="x"), tuple)


def step(op: str, kind: str, name: str, *paths: str) -> ResourceChange:
    return ResourceChange(op, f"kubernetes:{kind}", name, urn=f"urn::{kind}::{name}", diff=paths)


CIPHERTEXT = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:xyz"}


def workload(image: str, value: str) -> dict[str, Any]:
    container = {"name": "web", "image": image, "env": [{"name": "A", "value": value}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"a.b/c": image}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def test_pulumis_steps_get_old_values_from_the_state_and_new_ones_from_the_manifests() -> None:
    image, label = "spec.template.spec.containers[0].image", 'metadata.labels["a.b/c"]'
    value = "spec.template.spec.containers[0].env[0].value"
    stored = workload("0", "?") | {"spec": {"template": {"spec": {"containers": CIPHERTEXT}}}}
    steps = [
        step("delete", "core/v1:Service", "old"),
        step("update", "apps/v1:Deployment", "web", image, label, value, "spec.nowhere[9].x"),
        ResourceChange("create", "lessor:lease:Workload", "web"),
    ]
    state = {"resources": [{"urn": "urn::apps/v1:Deployment::web", "inputs": stored}]}

    told = from_pulumi(steps, state=state, old=[workload("1", "hush")], new=[workload("2", "hush-hush")])

    assert [line for _, line in lines(told)] == [
        "~ Deployment web",
        f'    {image}: "1" -> "2"',
        f'    {label}: "0" -> "2"',
        f"    {value}: [secret] -> [secret]",
        "    spec.nowhere[9].x: (none) -> (none)",
        "- Service old",
    ]


def test_the_steps_of_a_replacement_are_one_change_with_its_paths() -> None:
    steps = [
        step("create-replacement", "core/v1:Service", "web"),
        step("replace", "core/v1:Service", "web", "spec.clusterIP"),
        step("delete-replaced", "core/v1:Service", "web"),
    ]
    (told,) = from_pulumi(steps, state={}, old=[], new=[])
    assert (told.op, told.kind, told.name) == ("replace", "Service", "web")
    assert [field.path for field in told.fields] == ["spec.clusterIP"]


def test_a_whole_object_that_holds_secrets_is_shown_without_them() -> None:
    before, after = workload("1", "hush"), workload("1", "hush")
    after["spec"]["template"]["spec"]["containers"][0].pop("env")
    (change,) = compared([before], [after])
    text = "\n".join(line for _, line in lines([change]))
    assert '[{"name": "A", "value": "[secret]"}] -> (none)' in text and "hush" not in text
    assert change.fields[0].new is ABSENT


def test_a_tenants_text_does_not_steer_the_terminal() -> None:
    told = compared([workload("1", "x")], [workload("\x1b[31mred\u202e", "x")])
    assert all("\x1b" not in line and "\u202e" not in line for _, line in lines(told))


@pytest.mark.parametrize("stack", ["absent", "unreadable"])
async def test_a_stack_that_is_not_there_or_not_readable_is_said_at_once(tmp_path: Path, stack: str) -> None:
    found = await versions(await running(), manifest())
    config = EngineConfig(data=tmp_path, kubeconfig=tmp_path / "k", pulumi=tmp_path / "pulumi")
    if stack == "unreadable":
        config.key_file.write_text("key")
        state = config.state_file(found.wanted.namespace)
        state.parent.mkdir(parents=True)
        state.write_text("{")
    with pytest.raises(NoDiff, match="there is no stack" if stack == "absent" else "cannot be read"):
        await preview_beside(config, found.wanted)


def lessor(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(build_app(), ["diff", *arguments], env=env or {})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("file", "lease", "says", "code"),
    [
        ("nothing.yaml", str(LEASE), "cannot read nothing.yaml: No such file", TROUBLE),
        ("/proc", str(LEASE), "cannot read /proc", TROUBLE),
        (str(DEMO), "77", "there is no database", TROUBLE),
        (str(DEMO), str(LEASE), "kubeconfig", WRONG_SETTINGS),
    ],
)
def test_a_wrong_file_lease_or_cluster_is_one_line_and_an_exit_code(
    file: str, lease: str, says: str, code: int, tmp_path: Path
) -> None:
    env = {"KUBECONFIG": str(tmp_path / "no-kubeconfig"), "AP_HOME": str(tmp_path)}
    ended, output = lessor(file, "--lease", lease, env=env)
    assert ended == code and says in output and output.count("\n") == 1


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    env = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "AP_HOME": str(tmp_path)}
    code, output = lessor(str(DEMO), "--lease", str(LEASE), env=env)
    assert code == TROUBLE and "http://127.0.0.1:1" in output and output.count("\n") == 1


def test_an_sdl_with_several_faults_is_one_line_that_names_the_first(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(TEXT.replace("units: 500m", "units: lots").replace("size: 1Gi", "size: huge"))
    code, output = lessor(str(tmp_path / "bad.yaml"), "--lease", str(LEASE))
    assert code == FINDING and output.count("\n") == 1
    assert "bad.yaml:" in output and "`lessor sdl check`" in output


def test_another_providers_lease_is_refused(tmp_path: Path) -> None:
    code, output = lessor(str(DEMO), "--lease", str(LEASE), env={"AP_FROM": OWNER, "AP_HOME": str(tmp_path)})
    assert code == TROUBLE and "this provider is" in output


def test_a_file_that_never_ends_is_given_up(tmp_path: Path) -> None:
    code, output = lessor("/dev/zero", "--lease", str(LEASE))
    assert code == TROUBLE and "no manifest is that long" in output
