"""`lessor operator inventory`: the inventory operator, until a signal ends it (operators.md §1.3, §2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from provider.cli.flags import flag, variables
from provider.cli.output import failure
from provider.cli.signals import until_signal
from provider.errors import SettingsError
from provider.observe.logs import configure_logging
from provider.operators.inventory.discovery_pod import DiscoveryOptions
from provider.operators.inventory.operator import OperatorOptions
from provider.operators.inventory.process import Listeners, ProcessOptions, run_inventory
from provider.settings import LogFormat
from provider.units import parse_duration

__all__ = ["inventory"]

_IMAGE = "ghcr.io/akash-network/provider"


_Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", envvar=[*variables("kubeconfig"), "KUBECONFIG"], help="Kubeconfig of the cluster."),
]


def inventory(
    *,
    kubeconfig: _Kubeconfig = None,
    config: Annotated[
        str, flag("config", "What is offered: a file that ends in yaml, or YAML. Without it every managed class is.")
    ] = "",
    rest_address: Annotated[str, flag("rest-address", "Address of REST and gRPC.")] = "0.0.0.0",  # noqa: S104
    rest_port: Annotated[
        int | None, flag("rest-port", "Port of REST; default: that of the own container, else 8080.", min=0, max=65535)
    ] = None,
    grpc_port: Annotated[
        int | None, flag("grpc-port", "Port of gRPC; default: that of the own container, else 8081.", min=0, max=65535)
    ] = None,
    registry: Annotated[
        str, flag("provider-configs-url", "Where the registry of GPUs is.")
    ] = "https://provider-configs.akash.network",
    period: Annotated[str, flag("registry-query-period", "How often the registry is read.")] = "5m",
    gpu_file: Annotated[
        Path | None, flag("gpu-file", "File with GPUs that the registry lacks, in the registry's own form.")
    ] = None,
    image: Annotated[
        str, flag("discovery-image", "Image of the discovery pods; default: that of the own container.")
    ] = "",
    privileged: Annotated[
        bool, flag("discovery-privileged", "Discovery pods see the node's own /sys and /proc.")
    ] = False,
    namespace: Annotated[str, flag("pod-namespace", "Namespace of the discovery pods.")] = "akash-services",
    pod: Annotated[str, flag("pod-name", "The pod in which this process runs.")] = "",
    log_format: Annotated[LogFormat, flag("log-format", "Form of the log.")] = LogFormat.CONSOLE,
) -> None:
    """Run the inventory operator: discover what the nodes have, label them, and publish what is free.

    Its REST paths, gRPC services, discovery pods, labels and configuration are those of the Go provider's operator.

    Example: `lessor operator inventory --rest-port 8080`
    """
    discovery = DiscoveryOptions(namespace, image or _IMAGE, privileged=privileged)
    try:
        operator = OperatorOptions(discovery, config, gpu_file, _seconds(period))
        listeners = Listeners(rest_address, rest_port, grpc_port)
        options = ProcessOptions(
            operator, kubeconfig, pod, registry_url=registry, listeners=listeners, image_given=bool(image)
        )
        configure_logging(form=log_format)
        asyncio.run(until_signal(run_inventory(options), what="operator"))
    except SettingsError as error:
        raise failure(error) from None


def _seconds(period: str) -> float:
    try:
        seconds = parse_duration(period)
    except ValueError as error:
        raise SettingsError(f"--registry-query-period={period}: {error}") from error
    if seconds < 1:
        raise SettingsError(f"--registry-query-period={period}: must be at least 1s")
    return seconds
