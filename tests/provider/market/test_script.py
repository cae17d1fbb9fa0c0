"""The shellScript and randomRange strategies (bidding.md §2.2–2.3; vectors of §8: 10–16, 27, 58, 62)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.errors import PricingError, SettingsError
from provider.market.pricing.quote import PriceRequest, Quote, maximum_price
from provider.market.pricing.random_range import random_price
from provider.market.pricing.script import parse_amount, script_environment, script_pricing
from provider.market.pricing.script_input import script_input
from tests.provider.market.test_pricing import group
from tests.world.patience import eventually

OWNER = "akash1tenant"
MOST = Price("uact", Decimal(1000))


def asked(spec: GroupSpec | None = None) -> PriceRequest:
    spec = spec or group()
    return PriceRequest(OrderId(OWNER, 7, 1, 1), spec, spec.units, maximum_price(spec))


def script(folder: Path, text: str, *, mode: int = 0o755) -> str:
    path = folder / "price.sh"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(mode)
    return str(path)


async def quote(path: str, *, spec: GroupSpec | None = None, timeout_s: float = 10.0) -> Quote:
    return await script_pricing(path, process_limit=4, timeout_s=timeout_s)(asked(spec))


async def said(folder: Path, text: str, **options: object) -> Quote:
    return await quote(script(folder, text), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "limit", "timeout_s", "words"),
    [("", 1, 1, "empty string"), ("/x", 0, 1, "process limit"), ("/x", 1, 0, "runtime limit")],
)
def test_vector_10_a_script_needs_a_path_a_process_limit_and_a_runtime_limit(path, limit, timeout_s, words) -> None:
    with pytest.raises(SettingsError, match=words):
        script_pricing(path, process_limit=limit, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 1", "ended with status 1"),
        ("echo not for you >&2; exit 3", "ended with status 3: not for you"),
        ("exit 0", "EOF"),
        ("echo 0", "printed '0': a bid must be above 0"),
        ("echo -1", "printed '-1': a bid must be above 0"),
        ("echo 1000000000000000000.0000000000000000000", "not a decimal number"),
        ("kill -9 $$", "ended by signal 9"),
    ],
)
async def test_vector_11_what_is_no_price_is_told_as_what_it_is(tmp_path: Path, text: str, words: str) -> None:
    found = await said(tmp_path, text)
    assert found.price is None
    assert words in found.problem


@pytest.mark.parametrize("text", ["1.5", "132"])
async def test_vector_11_a_decimal_number_is_the_price(tmp_path: Path, text: str) -> None:
    found = await said(tmp_path, f"echo warning >&2; echo ' {text} '")
    assert found.price == Price("uact", Decimal(text))


async def test_vector_12_slots_come_back(tmp_path: Path) -> None:
    """111 runs one after the other with ten slots: none is lost, whatever each run does with its slot."""
    path = tmp_path / "price"
    path.write_text("#!/bin/sh\necho 1\n")
    path.chmod(0o755)
    pricing = script_pricing(str(path), process_limit=10, timeout_s=10)
    quotes = [await pricing(asked()) for _ in range(111)]
    assert {found.problem for found in quotes} == {""}


async def test_vector_12_slots_come_back_from_runs_that_fail_or_are_cancelled(tmp_path: Path) -> None:
    pricing = script_pricing(script(tmp_path, "sleep 10"), process_limit=1, timeout_s=0.05)
    for _ in range(3):
        assert "did not end" in (await pricing(asked())).problem
    task = asyncio.create_task(pricing(asked()))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)  # anywhere in the run
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    script(tmp_path, "exit 3")
    problems = {(await pricing(asked())).problem for _ in range(2)}
    assert problems <= {
        "the price script ended with status 3",
        "the price script did not end within 0.05 s and was killed",
    }


async def test_vector_12_a_limit_of_a_millisecond_ends_a_sleep_of_ten_seconds(tmp_path: Path) -> None:
    found = await said(tmp_path, f"sleep 10; touch {tmp_path}/slept; echo 1", timeout_s=0.001)
    assert found.problem == "the price script did not end within 0.001 s and was killed"
    assert not (tmp_path / "slept").exists()


async def test_no_more_scripts_than_the_limit_run_at_once(tmp_path: Path) -> None:
    text = f"d={tmp_path}/run; mkdir -p $d; touch $d/$$; ls $d | wc -l >> {tmp_path}/seen; sleep 0.1; rm $d/$$; echo 1"
    pricing = script_pricing(script(tmp_path, text), process_limit=2, timeout_s=10)
    await asyncio.gather(*(pricing(asked()) for _ in range(8)))
    seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
    assert len(seen) == 8
    assert max(seen) <= 2


async def test_vector_12_a_script_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    child = f"sleep 3600 & echo $! > {tmp_path}/child.new; mv {tmp_path}/child.new {tmp_path}/child"
    text = f"trap '' TERM; {child}; sleep 3600"
    limit_s = 0.5
    while not (tmp_path / "child").exists():  # a busy machine starts no shell in half a second
        found = await said(tmp_path, text, timeout_s=limit_s)
        assert f"did not end within {limit_s:g} s" in found.problem
        limit_s *= 2
    await gone(int((tmp_path / "child").read_text()))


async def test_vector_12_a_decision_that_is_cancelled_kills_its_script(tmp_path: Path) -> None:
    task = asyncio.create_task(
        said(tmp_path, f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 60")
    )
    await eventually((tmp_path / "pid").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_decision_that_is_cancelled_while_its_script_starts_waits_for_none_of_its_children(
    tmp_path: Path,
) -> None:
    for turns in range(12):
        task = asyncio.create_task(said(tmp_path, "sleep 3600 & sleep 3600", timeout_s=3600.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


async def gone(pid: int) -> None:
    """No such process, or one that only waits to be collected by init."""
    await eventually(lambda: not running(pid))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_vector_13_a_script_reads_the_line_that_the_go_provider_writes(tmp_path: Path) -> None:
    """The document of bidding.md §2.3."""
    await said(
        tmp_path, f"cat > {tmp_path}/stdin; echo 1", spec=gpu_group("vendor/nvidia/model/a100/ram/80Gi/interface/sxm")
    )
    expected = (
        '{"resources":[{"memory":536870912,"cpu":1000,"gpu":{"units":1,"attributes":{"vendor":{"nvidia":{"model":"a100",'
        '"ram":"80Gi","interface":"sxm"}}}},"storage":[{"class":"ephemeral","size":1073741824}],"count":1,'
        '"endpoint_quantity":1,"ip_lease_quantity":0}],"price":{"denom":"uact","amount":"1000.000000000000000000"},'
        '"price_precision":6}\n'
    )
    assert (tmp_path / "stdin").read_text() == expected


def gpu_group(*keys: str, units: int = 1) -> GroupSpec:
    resources = Resources(
        1,
        1000,
        512 * 2**20,
        (Volume("default", 2**30),),
        gpu_units=units,
        endpoints=(Endpoint(),),
        gpu_attributes=tuple(Attribute(key, "true") for key in keys),
    )
    return GroupSpec("g", Requirements(), (ResourceUnit(resources, 1, MOST),))


def test_vector_13_amounts_are_per_replica_and_ips_are_of_their_unit() -> None:
    ram = (Attribute("class", "ram"), Attribute("persistent", "false"))
    endpoints = [Endpoint(EndpointKind.LEASED_IP, 3), Endpoint(EndpointKind.LEASED_IP, 3), Endpoint()]
    spec = group(count=4, attributes=ram, endpoints=endpoints)
    (unit,) = json.loads(script_input(spec.units, MOST))["resources"]
    assert unit == {
        "memory": 10000,
        "cpu": 11,
        "gpu": {"units": 0, "attributes": {}},
        "storage": [{"class": "ram", "size": 4096}],
        "count": 4,
        "endpoint_quantity": 3,
        "ip_lease_quantity": 1,
    }


ORACLE = """
jq -r '.resources | map(.cpu*.count*0.10 + .memory*.count*0.02 + .endpoint_quantity*.count*0.02
  + (.storage | map(.size*0.01) | add)*.count) | add' | xargs printf '%.6f'
"""
"""The scales of the Go provider's second sample (bidding.md §2.4), ephemeral storage only."""


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not here")
async def test_vector_14_a_script_with_the_scales_of_the_sample_gives_its_price(tmp_path: Path) -> None:
    found = await said(tmp_path, ORACLE, spec=group(endpoints=[Endpoint()] * 7))
    assert found.price == Price("uact", Decimal("242.200000"))


def test_vector_15_the_last_attribute_of_a_vendor_wins() -> None:
    keys = [f"vendor/nvidia/model/{model}" for model in ("a100", "v100", "h100")]
    assert gpu_of(gpu_group(*keys)) == {"nvidia": {"model": "h100"}}


def gpu_of(spec: GroupSpec) -> object:
    return json.loads(script_input(spec.units, MOST))["resources"][0]["gpu"]["attributes"]["vendor"]


def test_vector_16_the_card_that_was_allocated_is_what_a_script_sees() -> None:
    assert gpu_of(gpu_group("vendor/nvidia/model/a100")) == {"nvidia": {"model": "a100"}}
    assert gpu_of(gpu_group("vendor/nvidia/model/*")) == {"nvidia": {"model": "*"}}


async def test_the_environment_is_ours_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSOR_MNEMONIC", "twelve words that nobody may know")
    monkeypatch.setenv("PRICE_TARGET_CPU", "1.60")
    await said(tmp_path, f"env > {tmp_path}/env; echo 1")
    lines = (tmp_path / "env").read_text().splitlines()
    assert {"PRICE_TARGET_CPU=1.60", f"AKASH_OWNER={OWNER}", "AKASH_DENOM=uact"} <= set(lines)
    assert not [line for line in lines if "MNEMONIC" in line]
    assert "AP_NODE" in script_environment({"AP_NODE": "x"}, owner="", denom="")


async def test_a_script_has_no_file_of_ours_and_a_group_of_its_own(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        await said(
            tmp_path,
            f"cd {tmp_path}; ls /proc/$$/fd > fd; ps -o pgid= -p $$ > group; echo $$ >> group; echo 1",
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert set((tmp_path / "fd").read_text().split()) <= {"0", "1", "2", "3", "255"}
    assert len(set((tmp_path / "group").read_text().split())) == 1


async def test_a_script_that_prints_without_end_is_killed_at_64_kib(tmp_path: Path) -> None:
    found = await said(tmp_path, f"head -c 10000000000 /dev/zero; touch {tmp_path}/printed", timeout_s=3600)
    assert "printed 65536 bytes or more" in found.problem
    assert not (tmp_path / "printed").exists()
    assert len(found.said) <= 1000


async def test_words_on_stderr_without_end_hurt_nobody(tmp_path: Path) -> None:
    found = await said(tmp_path, "head -c 3000000 /dev/zero >&2; echo 7")
    assert found.price == Price("uact", Decimal(7))


@pytest.mark.parametrize(
    "text", ["NaN", "inf", "-inf", "1e400", "1E2", ".5", "5.", "1,5", "0x10", "١", "DEBUG: cpu\n4.2", "1 2", "--1"]
)
def test_what_is_not_a_number_is_quoted(text: str) -> None:
    with pytest.raises(PricingError) as caught:
        parse_amount(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["9" * 60000, str(2**256), "1." + "1" * 50000])
def test_a_huge_number_is_refused_in_a_short_text(text: str) -> None:
    with pytest.raises(PricingError) as caught:
        parse_amount(text)
    assert len(str(caught.value)) < 400


def test_the_largest_decimal_and_leading_zeros_are_numbers() -> None:
    assert parse_amount(str(2**256 - 1)) == 2**256 - 1
    assert parse_amount("+" + "0" * 200 + "1.000000000000000001") == Decimal("1.000000000000000001")


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    assert "No such file" in (await quote(str(tmp_path / "none"))).problem
    assert "ermission denied" in (await quote(str(tmp_path))).problem
    assert "ermission denied" in (await quote(script(tmp_path, "echo 1", mode=0o644))).problem
    assert "cannot be started" in (await quote("a\0b")).problem
    (tmp_path / "raw").write_bytes(b"\x00\x01nothing")
    (tmp_path / "raw").chmod(0o755)
    assert "format" in (await quote(str(tmp_path / "raw"))).problem


async def test_a_child_that_keeps_the_output_open_delays_no_bid_and_ends_at_the_limit(tmp_path: Path) -> None:
    text = f"sleep 3600 & echo $! > {tmp_path}/child; echo 5"
    found = await said(tmp_path, text, timeout_s=1800)
    child = int((tmp_path / "child").read_text())
    assert (found.price, running(child)) == (Price("uact", Decimal(5)), True), "the price came before the child's end"
    os.kill(child, signal.SIGKILL)
    await said(tmp_path, text, timeout_s=1.5)
    await gone(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("leaves", ["setsid sleep 60 &", "setsid -f sleep 60"])
async def test_a_child_in_a_session_of_its_own_ends_at_the_limit_too(tmp_path: Path, leaves: str) -> None:
    """One whose script ended before, and one whose script never does."""
    marker = f"60.{os.getpid()}{abs(hash(str(tmp_path))) % 10**6}"
    for last, words in (("echo 5", ""), ("read x < /dev/zero; sleep 60", "did not end")):
        text = f"{leaves.replace('60', marker)}\nexec 1>&1\n{last}"
        found = await said(tmp_path, text, timeout_s=1.0)
        assert words in found.problem
        await eventually(lambda: not any(marker in command for command in commands()))


def commands() -> list[str]:
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError):
                found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return [line for line in found if line.startswith("sleep")]


async def test_what_a_script_prints_of_secrets_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COIN_API_KEY", "s3cr3t-key-of-ours")
    monkeypatch.setenv("LESSOR_STORE_URL", "postgresql+asyncpg://lessor:hunter2@db/lessor")
    found = await said(tmp_path, 'env >&2; echo "$COIN_API_KEY https://me:pw@x/y $LESSOR_STORE_URL"; exit 1')
    for text in (found.said, found.problem, found.given):
        assert "s3cr3t" not in text
        assert "hunter2" not in text
        assert "me:pw" not in text
    assert "***" in found.said


async def test_a_script_that_reads_nothing_is_not_waited_for(tmp_path: Path) -> None:
    units = tuple(group().units[0] for _ in range(3000))
    found = await said(tmp_path, "exec 0<&-; echo 5", spec=replace(group(), units=units))
    assert found.price == Price("uact", Decimal(5))


async def test_a_script_that_is_replaced_while_it_runs_ends_as_it_began(tmp_path: Path) -> None:
    path = script(tmp_path, f"touch {tmp_path}/begun; until [ -e {tmp_path}/replaced ]; do sleep 0.05; done; echo 5")
    task = asyncio.create_task(quote(path))
    await eventually((tmp_path / "begun").exists)
    (tmp_path / "new").mkdir()
    Path(script(tmp_path / "new", "echo 6")).replace(path)
    (tmp_path / "replaced").touch()
    assert (await task).price == Price("uact", Decimal(5))
    assert (await quote(path)).price == Price("uact", Decimal(6))


async def test_input_and_output_are_kept_with_the_quote(tmp_path: Path) -> None:
    found = await said(tmp_path, "echo DEBUG; echo 4.2")
    assert found.said == "DEBUG\n4.2\n"
    assert found.given == script_input(group().units, maximum_price(group()))
    assert "'DEBUG\\n4.2'" in found.problem


def test_vector_62_chance_stays_between_its_ends() -> None:
    fixture = group(cpu=10, memory=2**20, volume=5 * 2**20, count=2)
    assert random_price(fixture, below=lambda n: 0) == Price("uact", Decimal(1))
    assert random_price(fixture, below=lambda n: n - 1).amount == Decimal("1.449999")
    assert all(1 <= random_price(fixture).amount < Decimal("1.45") for _ in range(200))
    assert random_price(group(memory=2**30)).amount == 50
    assert random_price(group(memory=1)).amount == 1
