"""The objects of one process: account, rights, workload, Service, network policy and disruption budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pulumi import Resource, ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apps.v1 import (
    Deployment,
    DeploymentSpecArgs,
    DeploymentStrategyArgs,
    StatefulSet,
    StatefulSetSpecArgs,
)
from pulumi_kubernetes.core.v1 import (
    CapabilitiesArgs,
    ConfigMap,
    ConfigMapEnvSourceArgs,
    ConfigMapVolumeSourceArgs,
    ContainerArgs,
    ContainerPortArgs,
    EmptyDirVolumeSourceArgs,
    EnvFromSourceArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    HTTPGetActionArgs,
    LocalObjectReferenceArgs,
    ObjectFieldSelectorArgs,
    PersistentVolumeClaimArgs,
    PersistentVolumeClaimSpecArgs,
    PodSecurityContextArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ProbeArgs,
    ResourceRequirementsArgs,
    SeccompProfileArgs,
    SecretKeySelectorArgs,
    SecretVolumeSourceArgs,
    SecurityContextArgs,
    Service,
    ServiceAccount,
    ServicePortArgs,
    ServiceSpecArgs,
    TCPSocketActionArgs,
    VolumeArgs,
    VolumeMountArgs,
    VolumeResourceRequirementsArgs,
)
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, ObjectMetaArgs
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetSpecArgs
from pulumi_kubernetes.rbac.v1 import SubjectArgs

from stacks.cluster.inventory_rights import DISCOVERY_ACCOUNT, INVENTORY_CONTAINER
from stacks.cluster.process_settings import SECRET_VARIABLES
from stacks.cluster.processes import CONFIGURATION, KEY, PROVIDER, TLS, VOLUME, Process
from stacks.cluster.rights import bind
from stacks.cluster.settings import TAKEN_OVER, ClusterStackSettings

__all__ = ["IMAGE_USER", "Place", "run_process"]

_TMP = "/tmp"  # noqa: S108  an emptyDir of the pod
IMAGE_USER = 10001
"""The user of the image (Containerfile)."""
_SMALL = "1Gi"
_CHANGES = "akash.network/configuration"
"""An annotation of the pods with a hash of their environment: another environment replaces them."""
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}
"""A provider is ready when chain and cluster have answered; `pulumi up` must not wait for that, nor for a Secret."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs. `labels`: of every object of the stack. `after`: what has to exist before."""

    settings: ClusterStackSettings
    labels: Mapping[str, str]
    after: Resource
    provider_account: Resource
    priority_class: str

    @property
    def namespace(self) -> str:
        return self.settings.services_namespace

    @property
    def options(self) -> ResourceOptions:
        return ResourceOptions(depends_on=[self.after], deleted_with=self.after)


def run_process(place: Place, process: Process) -> None:
    """Register the objects of one process. The provider has its state in a claim, unless the state is elsewhere."""
    needed: list[Resource] = [place.provider_account, *_accounts(place, process)]
    if data := _configuration(process):
        needed.append(ConfigMap(process.name, metadata=_meta(place, process), data=data, opts=place.options))
    # without its account a pod is refused, and tried again with growing pauses
    options = ResourceOptions.merge(place.options, ResourceOptions(depends_on=needed))
    _workload(place, process, options)
    _service(place, process)
    if place.settings.processes.service_monitor and "metrics" in process.ports:
        _monitor(place, process)
    chosen = LabelSelectorArgs(match_labels=_selector(process))
    PodDisruptionBudget(
        process.name,
        metadata=_meta(place, process),
        spec=PodDisruptionBudgetSpecArgs(max_unavailable=1, selector=chosen),
        opts=place.options,
    )


def _accounts(place: Place, process: Process) -> Iterator[ServiceAccount]:
    """The accounts of a process beside the provider's own, with their rights."""
    if process.name != PROVIDER:
        meta = _meta(place, process, name=process.account)
        yield ServiceAccount(process.account, metadata=meta, opts=place.options)
        subject = SubjectArgs(kind="ServiceAccount", name=process.account, namespace=place.namespace)
        bind(process.grants, name=process.account, subject=subject, labels=place.labels, opts=place.options)
    if process.name == INVENTORY_CONTAINER:
        meta = _meta(place, process, name=DISCOVERY_ACCOUNT)
        options = place.options
        yield ServiceAccount(DISCOVERY_ACCOUNT, metadata=meta, automount_service_account_token=False, opts=options)


def _monitor(place: Place, process: Process) -> None:
    """A ServiceMonitor, for a cluster with the Prometheus operator."""
    CustomResource(
        f"monitor-{process.name}",
        api_version="monitoring.coreos.com/v1",
        kind="ServiceMonitor",
        metadata=_meta(place, process),
        spec={"selector": {"matchLabels": _selector(process)}, "endpoints": [{"port": "metrics", "path": "/metrics"}]},
        opts=place.options,
    )


def _selector(process: Process) -> dict[str, str]:
    return dict(process.labels)


def _meta(place: Place, process: Process, *, name: str = "") -> ObjectMetaArgs:
    labels = {**place.labels, **process.labels}
    return ObjectMetaArgs(
        name=name or process.name, namespace=place.namespace, labels=labels, annotations={**_NOT_AWAITED, **TAKEN_OVER}
    )


def _configuration(process: Process) -> dict[str, str]:
    """The data of a process's ConfigMap: its environment and its file."""
    file = {CONFIGURATION.name: json.dumps(process.configuration, sort_keys=True)} if process.configuration else {}
    return {**process.environment, **file}


def _workload(place: Place, process: Process, options: ResourceOptions) -> None:
    """One replica, which ends before the next one begins: two providers of one account would bid against each other."""
    selector, template = LabelSelectorArgs(match_labels=_selector(process)), _template(place, process)
    meta = _meta(place, process)
    if process.name == PROVIDER and not place.settings.processes.remote_state:
        spec = StatefulSetSpecArgs(
            replicas=1,
            service_name=process.name,
            selector=selector,
            template=template,
            volume_claim_templates=[_claim(place)],
        )
        StatefulSet(process.name, metadata=meta, spec=spec, opts=options)
        return
    deployment = DeploymentSpecArgs(
        replicas=1,
        revision_history_limit=1,
        strategy=DeploymentStrategyArgs(type="Recreate"),
        selector=selector,
        template=template,
    )
    Deployment(process.name, metadata=meta, spec=deployment, opts=options)


def _claim(place: Place) -> PersistentVolumeClaimArgs:
    processes = place.settings.processes
    return PersistentVolumeClaimArgs(
        metadata=ObjectMetaArgs(name="home"),
        spec=PersistentVolumeClaimSpecArgs(
            access_modes=["ReadWriteOnce"],
            storage_class_name=processes.storage_class or None,
            resources=VolumeResourceRequirementsArgs(requests={"storage": processes.storage}),
        ),
    )


def _template(place: Place, process: Process) -> PodTemplateSpecArgs:
    secret = place.settings.processes.pull_secret
    text = json.dumps(dict(process.environment), sort_keys=True)
    annotations = {_CHANGES: hashlib.sha256(text.encode()).hexdigest()[:16]} if process.environment else None
    return PodTemplateSpecArgs(
        metadata=ObjectMetaArgs(labels={**place.labels, **process.labels}, annotations=annotations),
        spec=PodSpecArgs(
            service_account_name=process.account,
            automount_service_account_token=True,
            enable_service_links=False,  # AKASH_PROVIDER_PORT and others would look like settings
            share_process_namespace=True,  # its first process reaps what a killed engine leaves
            priority_class_name=place.priority_class or None,
            termination_grace_period_seconds=60,
            image_pull_secrets=[LocalObjectReferenceArgs(name=secret)] if secret else None,
            security_context=PodSecurityContextArgs(
                run_as_non_root=True,
                run_as_user=IMAGE_USER,
                run_as_group=IMAGE_USER,
                fs_group=IMAGE_USER,
                seccomp_profile=SeccompProfileArgs(type="RuntimeDefault"),
            ),
            containers=[_container(place, each) for each in (process, *process.beside)],
            volumes=_volumes(place, process),
        ),
    )


def _container(place: Place, process: Process) -> ContainerArgs:
    amounts = {"cpu": process.cpu, "memory": process.memory, "ephemeral-storage": _SMALL}
    settings = ConfigMapEnvSourceArgs(name=process.name)
    others = {name for each in process.beside for name in each.ports}
    ports = {name: port for name, port in process.ports.items() if name not in others}
    return ContainerArgs(
        name=process.container,
        image=place.settings.processes.image,
        command=list(process.command),
        env=[_own_name(), *_secret_settings(place, process)],
        env_from=[EnvFromSourceArgs(config_map_ref=settings)] if process.environment else None,
        ports=[ContainerPortArgs(name=name, container_port=port) for name, port in ports.items()],
        resources=ResourceRequirementsArgs(limits=amounts, requests={"cpu": "100m", "memory": "256Mi"}),
        startup_probe=_probe(process.liveness, failures=30),
        liveness_probe=_probe(process.liveness, failures=6),
        readiness_probe=_probe(process.readiness, failures=3),
        security_context=SecurityContextArgs(
            allow_privilege_escalation=False,
            privileged=False,
            read_only_root_filesystem=True,
            run_as_non_root=True,
            capabilities=CapabilitiesArgs(drop=["ALL"]),
        ),
        volume_mounts=_mounts(place, process),
    )


def _own_name() -> EnvVarArgs:
    own = ObjectFieldSelectorArgs(field_path="metadata.name")
    return EnvVarArgs(name="POD_NAME", value_from=EnvVarSourceArgs(field_ref=own))


def _secret_settings(place: Place, process: Process) -> list[EnvVarArgs]:
    if not process.holds_key:
        return []
    secret = place.settings.processes.key_secret
    keys = {name: SecretKeySelectorArgs(name=secret, key=name, optional=True) for name in SECRET_VARIABLES}
    return [EnvVarArgs(name=name, value_from=EnvVarSourceArgs(secret_key_ref=key)) for name, key in keys.items()]


def _probe(question: tuple[str, str], *, failures: int) -> ProbeArgs:
    path, port = question
    return ProbeArgs(
        http_get=HTTPGetActionArgs(path=path, port=port) if path else None,
        tcp_socket=None if path else TCPSocketActionArgs(port=port),
        period_seconds=10,
        timeout_seconds=5,
        failure_threshold=failures,
    )


def _volumes(place: Place, process: Process) -> list[VolumeArgs]:
    found = [VolumeArgs(name="tmp", empty_dir=EmptyDirVolumeSourceArgs(size_limit=_SMALL))]
    if process.configuration:
        found.append(VolumeArgs(name="configuration", config_map=ConfigMapVolumeSourceArgs(name=process.name)))
    if process.name == PROVIDER:
        secret = SecretVolumeSourceArgs(secret_name=place.settings.processes.key_secret, default_mode=0o400)
        found.append(VolumeArgs(name="key", secret=secret))
        if name := place.settings.processes.tls_secret:
            tls = SecretVolumeSourceArgs(secret_name=name, default_mode=0o400, optional=True)  # it may come later
            found.append(VolumeArgs(name="tls", secret=tls))
        if place.settings.processes.remote_state:
            found.append(VolumeArgs(name="home", empty_dir=EmptyDirVolumeSourceArgs(size_limit=_SMALL)))
    return found


def _mounts(place: Place, process: Process) -> list[VolumeMountArgs]:
    mounts = [VolumeMountArgs(name="tmp", mount_path=_TMP)]
    if process.configuration:
        mounts.append(VolumeMountArgs(name="configuration", mount_path=str(CONFIGURATION.parent), read_only=True))
    if process.name == PROVIDER:
        mounts.append(VolumeMountArgs(name="home", mount_path=VOLUME))
        if process.holds_key:
            mounts.append(VolumeMountArgs(name="key", mount_path=KEY, read_only=True))
        if place.settings.processes.tls_secret:
            mounts.append(VolumeMountArgs(name="tls", mount_path=TLS, read_only=True))
    return mounts


def _service(place: Place, process: Process) -> None:
    """The Service by whose name and ports clients of the Go provider find the process."""
    public = process.name == PROVIDER
    Service(
        process.name,
        metadata=_meta(place, process),
        spec=ServiceSpecArgs(
            type=place.settings.processes.service_type.value if public else "ClusterIP",
            selector=_selector(process),
            ports=[ServicePortArgs(name=name, port=port, target_port=name) for name, port in process.ports.items()],
        ),
        opts=place.options,
    )
