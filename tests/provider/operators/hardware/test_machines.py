"""The hardware of recorded machines and of this one, in the JSON of the Go provider's hardware server (operators.md
§2.4).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from provider.operators.hardware.features import cuda_version
from provider.operators.hardware.report import KINDS, node_report, report, whole_report
from provider.operators.hardware.tree import Tree

Machine: TypeAlias = Callable[[str], Tree]
GIB = 1024**3


@pytest.mark.parametrize(
    ("name", "processors"),
    [
        ("amd64-6179", [(0, 6, 12, "AuthenticAMD", "AMD Ryzen 5 1600 Six-Core Processor")]),
        (
            "amd64-8581",
            [(id_, 6, 12, "GenuineIntel", "Intel(R) Xeon(R) CPU           L5640  @ 2.27GHz") for id_ in (0, 1)],
        ),
        ("amd64-accel-nvidia", [(0, 8, 8, "GenuineIntel", "Intel(R) Xeon(R) CPU E5-2695 v4 @ 2.10GHz")]),
        ("arm64", [(60, 1, 1, "ARM", "")]),
    ],
)
def test_a_processor_is_a_physical_package_with_its_cores_and_threads(
    machine: Machine, name: str, processors: list[tuple[int, int, int, str, str]]
) -> None:
    found = report("cpu", machine(name))
    keys = ("id", "total_cores", "total_hardware_threads", "vendor", "model")
    assert [tuple(one[key] for key in keys) for one in found["processors"]] == processors
    assert found["total_cores"] == sum(one[1] for one in processors)
    assert found["total_hardware_threads"] == found["total_threads"] == sum(one[2] for one in processors)


def test_a_core_lists_its_logical_processors_and_a_processor_its_capabilities(machine: Machine) -> None:
    [processor] = report("cpu", machine("amd64-6179"))["processors"]
    core = {"id": 0, "total_hardware_threads": 2, "total_threads": 2, "logical_processors": [0, 6]}
    assert processor["cores"][0] == core
    assert {"avx2", "aes"} <= set(processor["capabilities"])


def test_processors_that_are_offline_are_left_out(machine: Machine) -> None:
    tree = machine("amd64-offlineCPUs")
    assert len([name for name in tree.names("/sys/devices/system/cpu") if name[3:].isdigit()]) == 4
    assert report("cpu", tree)["total_hardware_threads"] == 2


def test_a_card_has_the_address_and_the_ids_of_its_device(machine: Machine) -> None:
    [card] = report("gpu", machine("amd64-6179"))["cards"]
    assert (card["address"], card["index"]) == ("0000:0a:00.0", 0)
    assert card["pci"]["vendor"] == {"id": "1002", "name": "unknown"}
    assert card["pci"]["product"]["id"] == "6758"
    assert [card["pci"][key]["id"] for key in ("class", "subclass", "programming_interface")] == ["03", "00", "00"]


def test_a_compute_card_without_a_display_device_is_a_card(machine: Machine) -> None:
    """The tree has no /sys/class/drm, where the Go provider's server looks."""
    cards = report("gpu", machine("amd64-accel-nvidia"))["cards"]
    found = [(card["index"], card["pci"]["vendor"]["id"], card["pci"]["product"]["id"]) for card in cards]
    assert found == [(0, "1af4", "1050"), (1, "10de", "15f8")]
    assert cards[1]["pci"]["driver"] == "nvidia"


def test_an_accelerator_is_a_card(machine: Machine) -> None:
    classes = [card["pci"]["class"]["id"] for card in report("gpu", machine("amd64-accel"))["cards"]]
    assert classes == ["03", "12"]


def test_cards_are_null_where_a_machine_has_none(machine: Machine) -> None:
    assert report("gpu", machine("amd64-offlineCPUs")) == {"cards": None}


def test_the_board_vendor_s_ids_are_the_subsystem_only(tmp_path: Path) -> None:
    """Field problem B1: a card of NVIDIA on another vendor's board is a card of NVIDIA."""
    device = tmp_path / "sys/bus/pci/devices/0000:41:00.0"
    device.mkdir(parents=True)
    alias = "pci:v000010DEd00002684sv000010B0sd0000167Abc03sc00i00"
    for name, text in {"vendor": "0x10de", "device": "0x2684", "class": "0x030000", "modalias": alias}.items():
        (device / name).write_text(f"{text}\n")
    [card] = report("gpu", Tree(tmp_path))["cards"]
    assert (card["pci"]["vendor"]["id"], card["pci"]["product"]["id"]) == ("10de", "2684")
    assert card["pci"]["subsystem"]["id"] == "167a"


@pytest.mark.parametrize(
    ("name", "count"), [("amd64-6179", 43), ("amd64-8581", 82), ("amd64-accel-nvidia", 29), ("arm64", 4)]
)
def test_every_pci_device_is_listed(machine: Machine, name: str, count: int) -> None:
    devices = report("pci", machine(name))["Devices"]
    assert len(devices) == count
    assert all(len(one["vendor"]["id"]) == 4 and len(one["class"]["id"]) == 2 for one in devices)


def test_names_come_from_the_root_s_pci_ids(machine: Machine, tmp_path: Path) -> None:
    ids = tmp_path / "usr/share/misc/pci.ids"
    ids.parent.mkdir(parents=True)
    ids.write_text(
        "# a comment\n10de  NVIDIA Corporation\n\t15f8  GP100GL [Tesla P100]\n\t\t10de 118f  The board\n"
        "C 03  Display controller\n\t02  3D controller\n"
    )
    (tmp_path / "sys").symlink_to(machine("amd64-accel-nvidia").path("sys"))
    [card] = [one for one in report("gpu", Tree(tmp_path))["cards"] if one["pci"]["vendor"]["id"] == "10de"]
    assert card["pci"]["vendor"]["name"] == "NVIDIA Corporation"
    assert card["pci"]["product"]["name"] == "GP100GL [Tesla P100]"
    assert (card["pci"]["class"]["name"], card["pci"]["subclass"]["name"]) == ("Display controller", "3D controller")


@pytest.mark.parametrize(
    ("name", "physical", "usable"),
    [("amd64-6179", 32 * GIB, 33564585984), ("amd64-8581", 66 * GIB, 67503390720), ("arm64", 2 * GIB, 1934315520)],
)
def test_physical_memory_is_the_blocks_that_are_online(machine: Machine, name: str, physical: int, usable: int) -> None:
    found = report("memory", machine(name))
    assert (found["total_physical_bytes"], found["total_usable_bytes"]) == (physical, usable)
    assert found["default_huge_page_size"] == (2 << 20)


def test_disks_are_those_of_hardware_with_their_kind(machine: Machine) -> None:
    found = report("block", machine("amd64-6179"))
    assert [(disk["name"], disk["drive_type"]) for disk in found["disks"]] == [
        ("sda", "ssd"),
        ("sdb", "hdd"),
        ("sdc", "ssd"),
    ]
    assert found["total_size_bytes"] == 256060514304 + 1000204886016 + 500107862016
    [nvme] = report("block", machine("arm64"))["disks"]
    assert (nvme["drive_type"], nvme["storage_controller"], nvme["size_bytes"]) == ("nvme", "nvme", 8 * GIB)
    assert [disk["drive_type"] for disk in report("block", machine("amd64-8581"))["disks"]] == ["hdd", "odd"]


def test_network_interfaces_have_the_address_of_their_card(machine: Machine) -> None:
    nics = report("network", machine("amd64-6179"))["nics"]
    assert [(nic["name"], nic["pci_address"]) for nic in nics] == [
        ("enp3s0", "0000:03:00.0"),
        ("enp6s0f0", "0000:06:00.0"),
        ("enp6s0f1", "0000:06:00.1"),
        ("enp8s0", "0000:08:00.0"),
    ]


def _structure(kind: int, body: bytes, *texts: str) -> bytes:
    ending = b"".join(text.encode() + b"\0" for text in texts) + b"\0" if texts else b"\0\0"
    return bytes([kind, len(body) + 4, 0, 0]) + body + ending


def _memory_device(size: int, *, extended: int = 0, texts: tuple[str, ...] = ()) -> bytes:
    body = bytearray(0x24)
    body[0x08:0x0A] = size.to_bytes(2, "little")
    body[0x0C], body[0x0D], body[0x0E] = 1, 2, 0x1A
    body[0x11:0x13] = (3200).to_bytes(2, "little")
    body[0x13], body[0x14] = 3, 4
    body[0x18:0x1C] = extended.to_bytes(4, "little")
    return _structure(17, bytes(body), *texts)


@pytest.fixture
def firmware(tmp_path: Path) -> Callable[[bytes], list[dict[str, Any]]]:
    """The memory modules of a machine with a firmware table."""

    def modules(table: bytes) -> list[dict[str, Any]]:
        path = tmp_path / "sys/firmware/dmi/tables/DMI"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(table)
        found: list[dict[str, Any]] = report("memory", Tree(tmp_path))["modules"]
        return found

    return modules


def test_memory_modules_come_from_the_firmware_s_table(firmware: Callable[[bytes], list[dict[str, Any]]]) -> None:
    texts = ("DIMM_A1", "BANK 0", "Samsung", "S1234")
    slots = (_memory_device(16384, texts=texts), _memory_device(0), _memory_device(0x7FFF, extended=65536, texts=texts))
    found = firmware(_structure(1, bytes(20), "A board") + b"".join(slots) + _structure(127, b""))
    assert [one["size_bytes"] for one in found] == [16 * GIB, 64 * GIB]
    assert found[0] == {
        "label": "DIMM_A1",
        "location": "BANK 0",
        "serial_number": "S1234",
        "size_bytes": 16 * GIB,
        "vendor": "Samsung",
        "type": "DDR4",
        "speed_mts": 3200,
    }


@pytest.mark.parametrize("damage", [b"", b"\x11", b"\x11\x02\0\0\0\0", b"\x11\xff\0\0", b"\0" * 100, b"\xff" * 100])
def test_a_damaged_firmware_table_has_no_modules(
    firmware: Callable[[bytes], list[dict[str, Any]]], damage: bytes
) -> None:
    assert firmware(damage) == []


def test_the_driver_says_its_release_from_which_the_cuda_version_follows(tmp_path: Path) -> None:
    driver = tmp_path / "proc/driver/nvidia"
    (driver / "gpus/0000:41:00.0").mkdir(parents=True)
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
    (driver / "version").write_text(line)
    (driver / "gpus/0000:41:00.0/information").write_text("Model: \t\t NVIDIA A100\nVideo BIOS: \t 92.00\n")
    assert report("features", Tree(tmp_path)) == {
        "driver_version": "550.54.14",
        "cuda_version": "12.4",
        "gpus": [{"address": "0000:41:00.0", "model": "NVIDIA A100", "video_bios": "92.00"}],
    }


@pytest.mark.parametrize(
    ("driver", "cuda"), [("580.65.06", "13.0"), ("535.54.03", "12.2"), ("440.33", "10.2"), ("390.1", ""), ("", "")]
)
def test_the_cuda_version_is_the_newest_that_the_driver_runs(driver: str, cuda: str) -> None:
    assert cuda_version(driver) == cuda


def test_this_machine_has_what_its_kernel_says() -> None:
    found = report("cpu", Tree())
    assert found["total_hardware_threads"] == os.sysconf("SC_NPROCESSORS_ONLN")
    usable = report("memory", Tree())["total_usable_bytes"]
    assert usable == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert all(report(kind, Tree()) for kind in KINDS)


def test_a_folder_without_anything_has_no_hardware(tmp_path: Path) -> None:
    found = whole_report(Tree(tmp_path))
    assert found["errors"] is None
    assert found["cpu"] == {"total_cores": 0, "total_hardware_threads": 0, "total_threads": 0, "processors": []}
    assert (found["gpu"], found["pci"]) == ({"cards": None}, {"Devices": []})
    assert node_report(Tree(tmp_path))["block"] == {"total_size_bytes": 0, "disks": []}
