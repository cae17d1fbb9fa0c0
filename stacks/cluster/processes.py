"""The processes of a provider in the cluster, as data: command, ports, probes and rights (operators.md §6, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from lease.spec import IngressMode
from stacks.cluster.admission import CERTIFICATE_SECRET
from stacks.cluster.challenges import CHALLENGE_PORT, CHALLENGES, orders_certificate
from stacks.cluster.inventory_rights import INVENTORY_CONTAINER, MARKET_RESOURCE_NAMES, MARKET_RULES, Rule
from stacks.cluster.process_settings import GatewayProcess
from stacks.cluster.rbac import PROVIDER_RULES
from stacks.cluster.settings import ClusterStackSettings

__all__ = ["CONFIGURATION", "KEY", "PROVIDER", "TLS", "VOLUME", "Grant", "Process", "environment", "provider"]

PROVIDER = "akash-provider"
"""The name and the label `app` by which clients of the Go provider find its pod."""
VOLUME = "/var/lib/lessor"
_HOME = f"{VOLUME}/home"
"""A folder of the provider's own: the root of a volume belongs to the storage, and others may often read it."""
CONFIGURATION = PurePosixPath("/etc/lessor/config.yaml")
KEY = "/run/secrets/lessor"
TLS = "/run/secrets/lessor-tls"
_PORTS = {"api": 8443, "grpc": 8444, "metrics": 9090, "health": 8090}


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights in one namespace, or in the whole cluster when `namespace` is empty. `names`: the only objects."""

    rules: tuple[Rule, ...]
    namespace: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """`ports`: by name, of the container and of the Service. `liveness` and `readiness`: path and port's name; without
    a path the open port is the answer. `public`: the ports that everybody may connect to; the others are open to the
    own namespace. `environment`: the data of its ConfigMap. `configuration`: the document of the file CONFIGURATION,
    none if empty. `holds_key`: of the provider's account. `beside`: other containers of its pod, with the same
    settings; their ports are some of its own.
    """

    name: str
    container: str
    account: str
    command: tuple[str, ...]
    ports: Mapping[str, int]
    liveness: tuple[str, str]
    readiness: tuple[str, str]
    public: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    cpu: str = "500m"
    memory: str = "512Mi"
    holds_key: bool = False
    beside: tuple[Process, ...] = ()


def environment(settings: ClusterStackSettings) -> dict[str, str]:
    """The settings of `lessor run` that follow from this stack, by variable."""
    found = {"AP_K8S_MANIFEST_NS": settings.manifest_namespace, "AP_INGRESS_MODE": settings.ingress_mode.value}
    if settings.ingress_mode is IngressMode.INGRESS:
        found["LESSOR_INGRESS_CLASS"] = settings.ingress_class
    else:
        found |= {"AP_GATEWAY_NAME": settings.gateway.name, "AP_GATEWAY_NAMESPACE": settings.gateway.namespace}
    if settings.metallb.required:
        found["LESSOR_METALLB_NAMESPACE"] = settings.metallb.namespace
    return found


def provider(settings: ClusterStackSettings) -> Process:
    """The provider itself. Neither probe asks the chain or the API server."""
    challenges = {CHALLENGES: CHALLENGE_PORT} if orders_certificate(settings) else {}
    return Process(
        name=PROVIDER,
        container="provider",
        account=settings.service_account,
        command=("lessor", "run"),
        ports={**_PORTS, **challenges},
        liveness=("/healthz", "health"),
        readiness=("/readyz", "health"),
        public=("api", "grpc", *challenges),
        labels={"app": PROVIDER},
        grants=_provider_grants(settings),
        environment=_provider_environment(settings),
        cpu=settings.processes.cpu,
        memory=settings.processes.memory,
        holds_key=True,
        beside=(_gateway(settings),) if settings.processes.gateway_process is GatewayProcess.SEPARATE else (),
    )


def _gateway(settings: ClusterStackSettings) -> Process:
    """The gateway beside the provider: the restart of one container does not end the other. Its port is open when the
    provider has told it the certificate.
    """
    return Process(
        name=PROVIDER,
        container="gateway",
        account=settings.service_account,
        command=("lessor", "gateway"),
        ports={name: _PORTS[name] for name in ("api", "grpc")},
        liveness=("", "api"),
        readiness=("", "api"),
        environment=_provider_environment(settings),
        cpu=settings.processes.cpu,
        memory="1Gi",
    )


def _provider_grants(settings: ClusterStackSettings) -> tuple[Grant, ...]:
    """A provider in a pod asks the inventory operator directly. One elsewhere asks through the API server."""
    everywhere = Grant(PROVIDER_RULES)
    if settings.processes.image:
        return (everywhere,)
    return everywhere, Grant(MARKET_RULES, settings.services_namespace, MARKET_RESOURCE_NAMES)


def _provider_environment(settings: ClusterStackSettings) -> dict[str, str]:
    processes = settings.processes
    operator = f"http://{INVENTORY_CONTAINER}.{settings.services_namespace}.svc:8080" if processes.inventory else "off"
    account = {"AP_FROM": processes.account} if processes.account else {}
    port = {"AP_CERT_ISSUER_HTTP_CHALLENGE_PORT": str(CHALLENGE_PORT)} if orders_certificate(settings) else {}
    form = processes.gateway_process
    gateway = {"LESSOR_GATEWAY_PROCESS": form.value} if form is not GatewayProcess.INSIDE else {}
    tls = {"AP_GATEWAY_TLS_CERT": f"{TLS}/tls.crt", "AP_GATEWAY_TLS_KEY": f"{TLS}/tls.key"}
    return {
        "AP_HOME": _HOME,
        "AP_METRICS_LISTENER": f"0.0.0.0:{_PORTS['metrics']}",
        "LESSOR_CERTIFICATE_SECRET": f"{settings.services_namespace}/{CERTIFICATE_SECRET}",
        "LESSOR_HEALTH_LISTENER": f"0.0.0.0:{_PORTS['health']}",
        "LESSOR_MNEMONIC_FILE": f"{KEY}/mnemonic",
        "LESSOR_INVENTORY_ENDPOINT": operator,
        **account,
        **port,
        **gateway,
        **(tls if processes.tls_secret else {}),
        **environment(settings),
        **processes.environment,
    }
