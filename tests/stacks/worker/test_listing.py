"""The law of lists: a list asks the engine for exactly what the program asks through Pulumi's SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pulumi
import pytest

from components.resources.manifest import ClusterProvider, ManifestResource
from lease.errors import SpecRefused
from lease.spec import LeaseSpec
from stacks.common.errors import OperationRefused
from stacks.worker.listing import list_program
from tests.components.recorded import load, names
from tests.components.recorded_specs import recorded_spec
from tests.components.specs import everything
from tests.data import SDL
from tests.stacks.leases import PASSWORD, demo, small
from tests.whole.corpus.documents import NEVER_BID, SAMPLE, all_nodes, leases_of, valid_names

CLAIM = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default"}}


def pairs(specs: Iterable[LeaseSpec]) -> list[tuple[Any, Any]]:
    """What the SDK and the list ask for each spec."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.stacks.worker.listed"],
        input="".join(f"{spec.canonical_json()}\n" for spec in specs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def corpus(chosen: Iterable[str]) -> list[LeaseSpec]:
    nodes = all_nodes()
    numbered = [(number, name) for number, name in enumerate(valid_names()) if name in chosen]
    return [
        spec
        for number, name in numbered
        for spec in leases_of(
            name, (SDL / f"{name}.yaml").read_bytes(), number=number, nodes=nodes, api_server="192.0.2.1:6443"
        )
    ]


def recorded() -> Iterator[LeaseSpec]:
    """The recorded leases that were served."""
    for recording in map(load, names()):
        with suppress(SpecRefused):
            if recording["manifest_resource_version"]:
                yield recorded_spec(recording)


def check(specs: list[LeaseSpec]) -> None:
    found = pairs(specs)
    assert len(found) == len(specs)
    for spec, (by_sdk, by_list) in zip(specs, found, strict=True):
        assert by_list == by_sdk, spec.namespace
        assert len(by_list) > 5


def test_a_list_asks_for_what_the_sdk_asks() -> None:
    check([small(), demo(), everything(), *corpus(SAMPLE)])


@pytest.mark.long
def test_a_list_asks_for_what_the_sdk_asks_with_every_document_of_the_corpus_and_every_recording() -> None:
    check([*recorded(), *corpus([name for name in valid_names() if name not in NEVER_BID])])


def listed(*options: pulumi.ResourceOptions, properties: Any = None) -> Any:
    """A list of the cluster and of an object with each of the options."""

    def program() -> None:
        cluster = ClusterProvider("cluster", kubeconfig="/kubeconfig")
        first = ManifestResource(CLAIM | (properties or {}), pulumi.ResourceOptions(provider=cluster))
        for number, each in enumerate(options):
            claim = CLAIM | {"metadata": {"name": f"made-{number}"}}
            ManifestResource(claim, pulumi.ResourceOptions.merge(each, pulumi.ResourceOptions(parent=first)))

    return list_program(program, project="lease", stack="one")


def test_a_name_in_a_list_has_a_mark_that_no_text_of_a_tenant_can_hold() -> None:
    first, second = listed(), listed()
    assert first["mark"] != second["mark"]
    assert len(first["mark"]) > 30
    assert first["resources"][2]["request"]["provider"] == f"{first['mark']}1.urn::{first['mark']}1.id"


@pytest.mark.parametrize(
    "option",
    [
        {"protect": True},
        {"import_": "default/made"},
        {"delete_before_replace": True},
        {"aliases": [pulumi.Alias(name="older")]},
        {"custom_timeouts": pulumi.CustomTimeouts(create="1m")},
        {"replace_on_changes": ["data"]},
    ],
    ids=lambda option: next(iter(option)),
)
def test_an_option_that_a_list_does_not_carry_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(OperationRefused, match=next(iter(option))):
        listed(pulumi.ResourceOptions(**option))


@pytest.mark.parametrize(
    "value", [{1, 2}, b"bytes", object(), pulumi.StringAsset("text")], ids=lambda v: type(v).__name__
)
def test_a_value_that_a_list_does_not_carry_is_refused(value: Any) -> None:
    with pytest.raises(OperationRefused, match=type(value).__name__):
        listed(properties={"data": value})


def test_a_secret_is_marked_wherever_it_is_and_other_values_are_plain() -> None:
    def program() -> None:
        secret, plain = pulumi.Output.secret(PASSWORD), pulumi.Output.from_input({"key": "text"})
        data = {"plain": [1, 2.5, True, None, {}, plain], "hidden": [{"key": secret}]}
        cluster = ClusterProvider("cluster", kubeconfig="/kubeconfig")
        ManifestResource(CLAIM | {"data": data}, pulumi.ResourceOptions(provider=cluster))

    made = list_program(program, project="lease", stack="one")["resources"][2]["request"]["object"]["data"]
    assert made["plain"] == [1, 2.5, True, None, {}, {"key": "text"}]
    sealed = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": PASSWORD}
    assert made["hidden"] == [{"key": sealed}]


def test_the_sdk_asks_an_engine_again_after_a_program_that_failed() -> None:
    asks = vars(pulumi.resource)["register_resource"]

    def broken() -> None:
        raise ValueError("the program is broken")

    with pytest.raises(ValueError, match="the program is broken"):
        list_program(broken, project="lease", stack="one")
    assert vars(pulumi.resource)["register_resource"] is asks
