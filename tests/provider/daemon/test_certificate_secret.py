"""The account certificate in a Secret: a provider that has lost its home serves the certificate that tenants pin."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from provider.daemon.certificate_secret import CertificateSecret
from provider.errors import ClusterError, SettingsError
from provider.gateway.tls import ensure_certificate, next_certificate, old_certificates, take_next
from provider.protocols.cluster import SECRET
from tests.provider.chain.world import signing_key
from tests.provider.gateway.world import PROVIDER
from tests.world.cluster import FakeCluster
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
NOW = 1_795_820_000.25
DAY = 86_400.0
SPACE, NAME = "akash-services", "lessor-certificate"
MAIN = f"{PROVIDER}.pem"
PASSWORDS = signing_key(0).certificate_passwords


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(SPACE)


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """A home, and the one after it was lost."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path / "first", tmp_path / "second"


def secret(cluster: FakeCluster, home: Path) -> CertificateSecret:
    return CertificateSecret(cluster, SPACE, NAME, PROVIDER, home, PASSWORDS)


def made(home: Path, now: float = NOW):
    return ensure_certificate(PROVIDER, home, now=now, passwords=PASSWORDS)


async def stored(cluster: FakeCluster) -> dict[str, bytes]:
    found = await cluster.get(SECRET, NAME, namespace=SPACE)
    return {name: base64.b64decode(text) for name, text in ((found or {}).get("data") or {}).items()}


def put(cluster: FakeCluster, **files: bytes) -> None:
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    cluster.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME, "namespace": SPACE}, "data": data})


async def test_a_lost_home_finds_its_certificate(cluster: FakeCluster, homes: tuple[Path, Path]) -> None:
    first = made(homes[0])
    await secret(cluster, homes[0]).keep()
    await secret(cluster, homes[1]).take(VirtualClock())
    assert made(homes[1]).pem == first.pem
    assert (homes[1] / MAIN).stat().st_mode & 0o777 == 0o600


async def test_the_secret_holds_the_go_providers_file_with_its_key_encrypted(
    cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    first = made(homes[0])
    await secret(cluster, homes[0]).keep()
    files = await stored(cluster)
    assert files == {MAIN: first.path.read_bytes()}
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in files[MAIN]


async def test_the_secret_follows_a_renewal_and_what_is_still_to_be_revoked_survives_a_lost_home(
    cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    keeping = secret(cluster, homes[0])
    first = made(homes[0])
    await keeping.keep()
    following = next_certificate(PROVIDER, homes[0], now=NOW + DAY, passwords=PASSWORDS)
    await keeping.keep()
    assert set(await stored(cluster)) == {MAIN, f"{MAIN}.next"}
    taken = take_next(first, following)
    await keeping.keep()
    await secret(cluster, homes[1]).take(VirtualClock())
    again = made(homes[1])
    assert again.pem == taken.pem
    assert [serial for serial, _ in old_certificates(again)] == [first.certificate.serial_number]


async def test_the_newer_certificate_wins_when_a_home_was_restored(
    cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    made(homes[0])
    newer = made(homes[1], NOW + DAY)
    await secret(cluster, homes[1]).keep()
    await secret(cluster, homes[0]).take(VirtualClock())
    assert made(homes[0]).pem == newer.pem


async def test_the_homes_certificate_stays_when_the_secret_has_an_older_one(
    cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    newer = made(homes[0], NOW + DAY)
    made(homes[1])
    await secret(cluster, homes[1]).keep()
    keeping = secret(cluster, homes[0])
    await keeping.take(VirtualClock())
    assert made(homes[0], NOW + DAY).pem == newer.pem
    await keeping.keep()
    assert (await stored(cluster))[MAIN] == newer.path.read_bytes()


async def test_a_home_without_a_certificate_waits_for_the_cluster(
    cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    made(homes[0])
    await secret(cluster, homes[0]).keep()
    clock = VirtualClock()
    failures = iter([True, True, False])

    def refuse(*_: str) -> None:
        if next(failures):
            raise ClusterError("https://fake", "does not answer")

    cluster.before = refuse
    await secret(cluster, homes[1]).take(clock)
    assert clock.monotonic() > 0 and (homes[1] / MAIN).exists()


async def test_a_home_with_a_certificate_waits_for_nobody(cluster: FakeCluster, homes: tuple[Path, Path]) -> None:
    made(homes[0])

    def refuse(*_: str) -> None:
        raise ClusterError("https://fake", "does not answer")

    cluster.before, clock = refuse, VirtualClock()
    await secret(cluster, homes[0]).take(clock)
    assert clock.monotonic() == 0


@pytest.mark.parametrize("content", [b"nonsense", b"\xff\xfe", b""])
async def test_a_damaged_secret_is_replaced_by_what_the_home_has_and_is_never_taken(
    content: bytes, cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    own = made(homes[0])
    put(cluster, **{MAIN: content})
    with pytest.raises(SettingsError, match=f"{SPACE}/{NAME} is damaged"):
        await secret(cluster, homes[1]).take(VirtualClock())
    assert not list(homes[1].iterdir())
    keeping = secret(cluster, homes[0])
    await keeping.take(VirtualClock())
    await keeping.keep()
    assert (await stored(cluster))[MAIN] == own.path.read_bytes()


async def test_the_certificate_of_another_account_is_left_alone(cluster: FakeCluster, homes: tuple[Path, Path]) -> None:
    put(cluster, **{"akash1other.pem": b"theirs"})
    keeping = secret(cluster, homes[0])
    await keeping.take(VirtualClock())
    assert not list(homes[0].iterdir())
    own = made(homes[0])
    await keeping.keep()
    assert await stored(cluster) == {"akash1other.pem": b"theirs", MAIN: own.path.read_bytes()}


async def test_an_unchanged_home_asks_the_cluster_nothing(cluster: FakeCluster, homes: tuple[Path, Path]) -> None:
    made(homes[0])
    asked: list[str] = []
    cluster.before = lambda operation, kind, name: asked.append(operation)
    task = asyncio.create_task(secret(cluster, homes[0]).follow(VirtualClock()))
    await asyncio.sleep(3600)
    task.cancel()
    assert asked == ["get", "apply"]


async def test_a_write_that_failed_is_tried_again(cluster: FakeCluster, homes: tuple[Path, Path]) -> None:
    made(homes[0])
    left = [3]

    def refuse(*_: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ClusterError("https://fake", "does not answer")

    cluster.before = refuse
    task = asyncio.create_task(secret(cluster, homes[0]).follow(VirtualClock()))
    await asyncio.sleep(3600)
    task.cancel()
    assert MAIN in await stored(cluster)


async def test_a_certificate_that_the_chain_calls_revoked_stays_in_the_home_alone(
    cluster: FakeCluster, homes: tuple[Path, Path]
) -> None:
    first = made(homes[0])
    keeping = secret(cluster, homes[0])
    await keeping.keep()
    first.path.rename(first.path.with_name(f"{MAIN}.revoked-1"))
    second = made(homes[0], NOW + DAY)
    await keeping.keep()
    assert await stored(cluster) == {MAIN: second.path.read_bytes()}
