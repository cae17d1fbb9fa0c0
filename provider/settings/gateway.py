"""The gateways that tenants use."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from provider.settings.kinds import RELOADED, Duration, GatewayForm, Listen, MaybeListen, MaybeNamespaced, ap, lessor

__all__ = ["GatewaySettings"]


class GatewaySettings(BaseModel, defer_build=True):
    """Gateway"""

    gateway_listen: Listen = Field(
        "0.0.0.0:8443",
        validation_alias=ap("GATEWAY_LISTEN_ADDRESS"),
        description="Address and port of the REST gateway (HTTPS).",
    )
    gateway_form: GatewayForm = Field(
        GatewayForm.INSIDE,
        validation_alias=lessor("GATEWAY_PROCESS"),
        description="Where the gateway runs. `inside`: in the provider's process. `child`: `lessor run` starts "
        "`lessor gateway` and ends it. `separate`: the operator starts `lessor gateway`, with the same settings but "
        "without the key; its streams outlive a restart of the provider.",
    )
    gateway_grpc_listen: MaybeListen = Field(
        "",
        validation_alias=ap("GATEWAY_GRPC_LISTEN_ADDRESS"),
        description="Address and port of the gRPC gateway. Empty: the REST gateway's address, one port higher.",
    )
    gateway_connections: int = Field(
        4096,
        ge=8,
        le=100_000,
        validation_alias=lessor("GATEWAY_CONNECTIONS"),
        json_schema_extra={RELOADED: True},
        description="Most connections that the REST gateway keeps open at one time. Fewer are kept where the limit of "
        "open files of the process is lower.",
    )
    gateway_connections_of_address: int = Field(
        128,
        ge=1,
        le=100_000,
        validation_alias=lessor("GATEWAY_CONNECTIONS_OF_ADDRESS"),
        json_schema_extra={RELOADED: True},
        description="Most of them from one IPv4 address or one IPv6 network of 64 bits. "
        "Many tenants may share the address of a web console or of a proxy.",
    )
    gateway_connections_of_tenant: int = Field(
        384,
        ge=1,
        le=100_000,
        validation_alias=lessor("GATEWAY_CONNECTIONS_OF_TENANT"),
        json_schema_extra={RELOADED: True},
        description="Most connections of the REST gateway over which one tenant sends requests.",
    )
    gateway_requests_of_tenant: int = Field(
        50,
        ge=1,
        le=100_000,
        validation_alias=lessor("GATEWAY_REQUESTS_OF_TENANT"),
        json_schema_extra={RELOADED: True},
        description="Requests that one tenant may send to the REST gateway a second; four times as many at once. "
        "Above, the answer is 429 with Retry-After.",
    )
    gateway_streams: int = Field(
        1000,
        ge=1,
        le=100_000,
        validation_alias=lessor("GATEWAY_STREAMS"),
        json_schema_extra={RELOADED: True},
        description="Most streams of logs and events and shells that are open at one time.",
    )
    gateway_streams_of_tenant: int = Field(
        256,
        ge=1,
        le=100_000,
        validation_alias=lessor("GATEWAY_STREAMS_OF_TENANT"),
        json_schema_extra={RELOADED: True},
        description="Most of them of one tenant.",
    )
    gateway_shell_idle: Duration = Field(
        3600.0,
        ge=10.0,
        validation_alias=lessor("GATEWAY_SHELL_IDLE"),
        json_schema_extra={RELOADED: True},
        description="A shell without input and output for so long is ended.",
    )
    gateway_grpc_connections: int = Field(
        128,
        ge=8,
        le=100_000,
        validation_alias=lessor("GATEWAY_GRPC_CONNECTIONS"),
        description="Most connections that the gRPC gateway keeps open at one time.",
    )
    gateway_grpc_connections_of_address: int = Field(
        16,
        ge=1,
        le=100_000,
        validation_alias=lessor("GATEWAY_GRPC_CONNECTIONS_OF_ADDRESS"),
        description="Most of them from one IPv4 address or one IPv6 network of 64 bits.",
    )
    gateway_tls_cert: Path | None = Field(
        None,
        validation_alias=ap("GATEWAY_TLS_CERT"),
        description="PEM file of the certificate that a CA signed for AP_CLUSTER_PUBLIC_HOSTNAME, with the chain above "
        "it. Clients that connect by this name get it; all others get the account certificate. Read again when it "
        "changes.",
    )
    gateway_tls_key: Path | None = Field(
        None,
        validation_alias=ap("GATEWAY_TLS_KEY"),
        description="PEM file of its private key, not encrypted. Empty: the key is in the certificate's file.",
    )
    certificate_secret: MaybeNamespaced = Field(
        "",
        validation_alias=lessor("CERTIFICATE_SECRET"),
        description="Secret that holds the account certificate beside the home, as `namespace/name`: a provider that "
        "has lost its home finds its certificate there. The cluster stack sets it. Empty: the certificate is in the "
        "home only.",
    )
    metrics_listen: MaybeListen = Field(
        "",
        validation_alias=ap("METRICS_LISTENER"),
        description="Address and port at which `/metrics` is served over plain HTTP for Prometheus, without "
        "credentials. Empty: nowhere.",
    )
    health_listen: MaybeListen = Field(
        "",
        validation_alias=lessor("HEALTH_LISTENER"),
        description="Address and port at which `/healthz` (the process answers, whatever the chain and the API server "
        "do) and `/readyz` (tenants are served) are served over plain HTTP for the kubelet. Empty: nowhere.",
    )
    metrics_on_gateway: bool = Field(
        False,
        validation_alias=lessor("METRICS_ON_GATEWAY"),
        description="Serve `/metrics` at the REST gateway too. Anybody can read them there.",
    )
    gateway_token_leeway: Duration = Field(
        5.0,
        le=300.0,
        validation_alias=lessor("GATEWAY_TOKEN_LEEWAY"),
        description="How far in the future a tenant's token may begin, for tenants whose clock is ahead. "
        "The end of a token has no leeway.",
    )
