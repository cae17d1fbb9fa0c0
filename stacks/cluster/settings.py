"""Configuration of the cluster stack, checked as a whole: a misspelt key is an error that names the key.

Values come from `pulumi config` (project `lessor`); `Pulumi.example.yaml` lists every key with its default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeGuard, get_args

import pulumi
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from lease.spec import IngressMode
from stacks.cluster.process_settings import Image, Label, Name, OptionalName, ProcessSettings, fault

__all__ = [
    "ClusterStackSettings",
    "ConfigError",
    "GatewaySettings",
    "MetalLbSettings",
    "parse_settings",
    "read_settings",
]

PROJECT = "lessor"
TAKEN_OVER = {"pulumi.com/patchForce": "true"}
"""Annotations of every object. What an earlier stack has left in the cluster, with another version's fields or after a
lost state, is taken over; without them the API server refuses the fields of another writer.
"""
_LONGEST = 80


def _not_the_clusters(name: str) -> str:
    if name == "default" or name.startswith("kube-"):
        raise ValueError("is a namespace of the cluster itself, which the stack would close and delete")
    return name


OwnNamespace = Annotated[Label, AfterValidator(_not_the_clusters)]


class ConfigError(Exception):
    """A key of `pulumi config` is unknown or its value is wrong. The text names each, with what is allowed."""


class _Settings(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=False, alias_generator=lambda name: name.replace("_", "-")
    )


class MetalLbSettings(_Settings):
    """`required` is false for a provider that leases no addresses. `install`: the stack brings MetalLB, else the
    operator has installed it.
    """

    required: bool = True
    namespace: OwnNamespace = "metallb-system"
    install: bool = False
    controller_image: Image = "quay.io/metallb/controller:v0.15.2"
    speaker_image: Image = "quay.io/metallb/speaker:v0.15.2"

    @model_validator(mode="after")
    def _is_needed(self) -> MetalLbSettings:
        if self.install and not self.required:
            raise fault("install", "is true, but required is false")
        return self


class GatewaySettings(_Settings):
    """The Gateway of tenants' HTTPRoutes, with ingress-mode gateway-api. `create`: the stack makes it, else it exists.
    `domain`: of generated hostnames, for which `wildcard-secret` has the certificate. `nginx-policies`: for NGINX
    Gateway Fabric.
    """

    create: bool = False
    name: Name = "akash-gateway"
    namespace: OwnNamespace = "akash-gateway"
    gateway_class: Name = "nginx"
    domain: OptionalName = ""
    wildcard_secret: Name = "wildcard-ingress-tls"  # noqa: S105 (an object's name)
    default_secret: Name = "akash-default-tls"  # noqa: S105 (an object's name)
    nginx_policies: bool = True


class ClusterStackSettings(_Settings):
    """Names as in the Go provider's charts (kubernetes-objects.md §8.3)."""

    manifest_namespace: OwnNamespace = "lease"
    services_namespace: OwnNamespace = "akash-services"
    service_account: Name = "lessor"
    admission_policy: bool = True
    ingress_mode: IngressMode = IngressMode.INGRESS
    ingress_class: Name = "akash-ingress-class"
    ingress_controller: Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^\s]+$")] = "k8s.io/ingress-nginx"
    gateway: GatewaySettings = Field(default_factory=GatewaySettings)
    metallb: MetalLbSettings = Field(default_factory=MetalLbSettings)
    network_policies: bool = True
    storage_classes: tuple[Name, ...] = ()
    runtime_classes: dict[Name, Name] = Field(default_factory=dict)
    priority_class: OptionalName = "lessor"
    processes: ProcessSettings = Field(default_factory=ProcessSettings)
    keep_leases: bool = True

    @model_validator(mode="after")
    def _have_names_of_their_own(self) -> ClusterStackSettings:
        names = [self.manifest_namespace, self.services_namespace]
        names += [self.metallb.namespace] if self.metallb.install else []
        names += [self.gateway.namespace] if self.gateway.create else []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise fault(_of_namespace(self, twice[0]), f"{twice[0]} is the namespace of something else too")
        if self.gateway.create and self.ingress_mode is not IngressMode.GATEWAY_API:
            raise fault("gateway.create", "needs lessor:ingress-mode gateway-api")
        return self


def _of_namespace(settings: ClusterStackSettings, name: str) -> str:
    """The path of the last setting that names the namespace."""
    places = {
        "services-namespace": settings.services_namespace,
        "metallb.namespace": settings.metallb.namespace,
        "gateway.namespace": settings.gateway.namespace,
    }
    return [path for path, found in places.items() if found == name][-1]


def read_settings() -> ClusterStackSettings:
    """The configuration of the running program's stack. Raises `ConfigError`."""
    return parse_settings(pulumi.runtime.config.CONFIG.get())


def parse_settings(config: Mapping[str, Any]) -> ClusterStackSettings:
    """The settings in `config`, which has keys `project:name` and texts, structured values as JSON. Other projects'
    keys are ignored.
    """
    own = {key.removeprefix(f"{PROJECT}:"): value for key, value in config.items() if key.startswith(f"{PROJECT}:")}
    try:
        return ClusterStackSettings.model_validate({key: _decode(value) for key, value in own.items()})
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _decode(value: Any) -> Any:
    """The value of a text. Structured values arrive as JSON; a text that looks like JSON but is no object stays
    a text.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        path = f"{PROJECT}:" + ".".join(str(part) for part in problem["loc"] if part != "[key]")
        if problem["type"] == "extra_forbidden":
            lines.append(f"{path}: there is no such setting; {_known(problem['loc'][:-1])}")
        elif problem["type"] == "lessor":
            context = problem["ctx"]
            lines.append(f"{path}{'' if path.endswith(':') else '.'}{context['path']}: {context['text']}")
        else:
            lines.append(f"{path}: {problem['msg']}, not {_value_text(problem)}")
    return "the configuration of the cluster stack is wrong:\n  " + "\n  ".join(sorted(lines))


def _known(place: Sequence[int | str]) -> str:
    """The settings of the top level or of one group."""
    model: type[BaseModel] = ClusterStackSettings
    for part in place:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        found = fields[str(part)].annotation if part in fields else None
        model = next((one for one in (found, *get_args(found)) if _is_model(one)), model)
    where = ".".join(str(part) for part in place) or "the top level"
    return f"{where} has: {', '.join(field.alias or name for name, field in model.model_fields.items())}"


def _is_model(found: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(found, type) and issubclass(found, BaseModel)


def _value_text(problem: Mapping[str, Any]) -> str:
    """The wrong value, shortened. What is in a process's environment may be a secret and is not shown."""
    if "environment" in problem["loc"] and problem["loc"][-1] != "[key]":
        return f"this {type(problem['input']).__name__}"
    text = repr(problem["input"])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
