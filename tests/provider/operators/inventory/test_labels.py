"""The labels of a node in both spellings (operators.md §2.7, §8 row 5, §10 D1)."""

from __future__ import annotations

import json

import pytest

from lease.kubernetes_names import is_label_name
from provider.inventory.reading import CARDS
from provider.inventory.reading import node as market_node
from provider.operators.inventory.labels import healthy, is_managed, label_changes, node_labels
from provider.operators.inventory.registry import Gpu, bundled_registry, parse_registry
from tests.data import DATA, read

A100 = Gpu("nvidia", "a100", "80Gi", "PCIe", "10de", "20b5")
GO = "akash.network/capabilities.gpu.vendor.nvidia.model.a100"
LONG = Gpu("nvidia", "rtxpro6000blackwell", "96Gi", "PCIe", "10de", "2bb1")


def test_d1_two_cards_and_two_classes() -> None:
    labels = node_labels([A100, A100], ["beta2", "default"], present={"nvidia"})
    go = {
        "akash.network": "true",
        "akash.network/capabilities.storage.class.beta2": "1",
        "akash.network/capabilities.storage.class.default": "1",
        "nvidia.com/gpu.present": "true",
        GO: "2",
        f"{GO}.ram.80Gi": "2",
        f"{GO}.interface.pcie": "2",
    }
    documentation = {
        "akash.network/capabilities.gpu.vendor.nvidia": "true",
        "akash.network/capabilities.gpu.model.a100": "true",
    }
    assert labels == go | documentation


def test_d1_every_sxm_is_one_interface() -> None:
    labels = node_labels([Gpu("nvidia", "a100", "", "SXM4")], [], present={"nvidia"})
    assert labels[f"{GO}.interface.sxm"] == "1"
    assert not any(".ram." in key for key in labels)


def test_a_key_that_is_too_long_is_left_out_and_the_annotation_has_the_card() -> None:
    """The API server would refuse every label of the node for one key of 64 characters."""
    labels = node_labels([LONG], [], present={"nvidia"})
    assert all(is_label_name(key.rpartition("/")[2]) for key in labels)
    model = "akash.network/capabilities.gpu.vendor.nvidia.model.rtxpro6000blackwell"
    assert labels[model] == "1" and f"{model}.interface.pcie" not in labels
    changes = label_changes({}, labels, cards=[LONG], have_cards="")
    assert changes is not None
    [card] = json.loads(changes["metadata"]["annotations"][CARDS])
    assert card == {
        "vendor": "nvidia",
        "model": "rtxpro6000blackwell",
        "memory_size": "96Gi",
        "interface": "pcie",
        "count": 1,
    }


@pytest.mark.parametrize("text", ["80 GB", "80Gi/ecc", "-", "é", "80Gi,beta"])
def test_a_memory_or_interface_that_cannot_be_in_a_key_is_left_out(text: str) -> None:
    """Neither is checked when the public registry is read."""
    labels = node_labels([Gpu("nvidia", "a100", text, text)], [], present={"nvidia"})
    assert all(is_label_name(key.rpartition("/")[2]) for key in labels)
    assert labels[GO] == "1"


def test_the_market_reads_from_a_node_the_very_cards_that_were_found() -> None:
    mixed = [A100, Gpu("nvidia", "a100", "40Gi", "SXM4"), LONG]
    labels = node_labels(mixed, [], present={"nvidia"})
    changes = label_changes({}, labels, cards=mixed, have_cards="")
    assert changes is not None
    found = market_node(
        {
            "metadata": {"name": "n1", **changes["metadata"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "3"}},
        }
    )
    assert found is not None
    assert [(card.model, card.memory_size, card.interface) for card in found.cards] == [
        ("a100", "40Gi", "sxm"),
        ("a100", "80Gi", "pcie"),
        ("rtxpro6000blackwell", "96Gi", "pcie"),
    ]


@pytest.mark.parametrize(
    ("offered", "left"),
    [(4, ["a100", "a100", "t4", "t4"]), (3, ["a100", "t4"]), (2, []), (0, []), (9, ["a100", "a100", "t4", "t4"])],
)
def test_a_card_that_is_missing_may_be_of_any_model(offered: int, left: list[str]) -> None:
    gpus = [Gpu("nvidia", name) for name in ("a100", "a100", "t4", "t4")]
    assert [gpu.name for gpu in healthy(gpus, {"nvidia": offered})] == left


def test_vendors_are_counted_apart() -> None:
    gpus = [Gpu("amd", "mi100"), Gpu("nvidia", "t4")]
    assert healthy(gpus, {"amd": 0, "nvidia": 1}) == (gpus[1],)


def test_changes_name_what_differs_and_nothing_of_others() -> None:
    have = {"akash.network": "true", "akash.network/capabilities.gpu.vendor.nvidia.model.t4": "1"}
    changes = label_changes(have, {"akash.network": "true", "nvidia.com/gpu.present": "true"}, cards=(), have_cards="")
    old = "akash.network/capabilities.gpu.vendor.nvidia.model.t4"
    assert changes == {"metadata": {"labels": {"nvidia.com/gpu.present": "true", old: None}}}
    assert label_changes(have, have, cards=(), have_cards="") is None
    assert not is_managed("akash.networkx/a") and not is_managed("nvidia.com/gpu.product")


def test_the_bundled_registry_is_the_public_one_with_intel_s_cards() -> None:
    public = parse_registry(read("gpus.json"), source="public")
    assert (DATA / "gpus.json").exists()
    assert {ids: gpu for ids, gpu in bundled_registry().items() if ids[0] != "8086"} == public
    assert {gpu.vendor for gpu in bundled_registry().values()} == {"nvidia", "amd", "intel"}
