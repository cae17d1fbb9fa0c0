"""The one settings model. Environment names are the Go provider's (`AP_…`, bidding.md §6) where it has the setting,
else `LESSOR_…`.

An empty value counts as not set, as there. What is wrong is reported by variable, value and what is allowed; a
secret's value is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from lease.spec import IngressMode
from provider.errors import SettingsError
from provider.units import (
    AddressRange,
    Coin,
    parse_address,
    parse_address_range,
    parse_blocked,
    parse_closed_range,
    parse_coin,
    parse_duration,
    parse_endpoint,
    parse_hostname,
    parse_label,
    parse_nginx_size,
    parse_object_name,
    parse_quantity,
)

__all__ = ["LogFormat", "Settings", "load_settings", "unknown_variables"]

_BECH32 = re.compile(r"akash1[02-9ac-hj-np-z]{38}")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s]*):(\d{1,5})")
_PREFIXES = ("AP_", "AKASH_", "LESSOR_")
_NOT_SETTINGS = frozenset({"LESSOR_CACHE", "LESSOR_GO_CACHE", "LESSOR_PYTHON", "LESSOR_SHARED"})
"""Read by the build of the tools, the language host and the tests."""


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


def _ap(flag: str) -> AliasChoices:
    """A setting that the Go provider has; it reads both prefixes, `AP_` first."""
    return AliasChoices(f"AP_{flag}", f"AKASH_{flag}")


def _ours(name: str) -> AliasChoices:
    return AliasChoices(f"LESSOR_{name}")


def _items(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _coin(value: object) -> object:
    return parse_coin(value) if isinstance(value, str) else value


def _ranges(value: object) -> object:
    return tuple(parse_address_range(part) for part in _items(value)) if isinstance(value, str) else value  # type: ignore[attr-defined]


def _scale(value: object) -> object:
    """Decimal text, scientific notation accepted, not negative (bidding.md §2.1)."""
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation as error:
        raise ValueError("not a decimal number") from error
    if not number.is_finite() or number < 0:
        raise ValueError("must be a finite number, 0 or more")
    return number


def _storage_scale(value: object) -> object:
    """`0.00016,beta2=0.0002`: without a class it is for ephemeral storage; the last of two wins (bidding.md §2.1)."""
    if not isinstance(value, str):
        return value
    pairs = (part.rpartition("=") for part in value.split(",") if part.strip())
    return {name.strip() or "ephemeral": _scale(number) for name, _, number in pairs}


def _classes(value: object) -> object:
    """`beta2=500Gi,beta3=1Ti`: bytes a storage class may hand out."""
    if not isinstance(value, str):
        return value
    pairs = (part.partition("=") for part in value.split(",") if part.strip())
    return {name.strip(): _size(name.strip(), size) for name, _, size in pairs}


def _size(name: str, text: str) -> int:
    size = int(parse_quantity(text))
    if not name or size < 0:
        raise ValueError(f"{name}={text}: needs a class and a size of 0 or more")
    return size


def _each(parse: Callable[[str], str]) -> Callable[[object], object]:
    """Texts between commas, each as `parse` takes it."""

    def check(value: object) -> object:
        return tuple(parse(item) for item in _items(value)) if isinstance(value, str) else value  # type: ignore[attr-defined]

    return check


def _maybe_name(value: str) -> str:
    return parse_object_name(value.strip()) if value.strip() else ""


def _listen(value: object) -> object:
    match = _LISTEN.fullmatch(str(value))
    if match is None or int(match[2]) > 65535:
        raise ValueError("must be host:port, for example 0.0.0.0:8443")
    return value


def _node(value: object) -> object:
    """CometBFT's own `tcp://` means plain HTTP here; a path prefix is kept."""
    address = str(value).strip().rstrip("/").replace("tcp://", "http://", 1)
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", address):
        raise ValueError("must be http://host:port, https://host or tcp://host:port, without user and password")
    return address


Items = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_items)]
Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0)]
Hostname = Annotated[str, AfterValidator(parse_hostname)]
ObjectName = Annotated[str, AfterValidator(parse_object_name)]
CoinText = Annotated[Coin, NoDecode, BeforeValidator(_coin)]
Scale = Annotated[Decimal, BeforeValidator(_scale)]
Listen = Annotated[str, BeforeValidator(_listen)]


class Settings(BaseSettings):
    """Frozen. In code fields are set by name (`Settings(node=…)`); times are seconds, sizes bytes."""

    model_config = SettingsConfigDict(
        frozen=True,
        env_ignore_empty=True,
        case_sensitive=True,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
    )

    # where we keep things
    home: Path = Field(Path.home() / ".lessor", validation_alias=_ap("HOME"))
    store_url: str = Field("", validation_alias=_ours("STORE_URL"), description="SQLAlchemy URL; empty: SQLite in home")
    store_key_file: Path | None = Field(
        None, validation_alias=_ours("STORE_KEY_FILE"), description="keys of the store's secrets; empty: in home"
    )
    history_runs: int = Field(100, ge=1, le=100_000, validation_alias=_ours("HISTORY_RUNS"), description="kept a lease")
    history_ended: Duration = Field(
        30 * 86400.0,
        validation_alias=_ours("HISTORY_ENDED"),
        description="how long the history of a closed lease stays",
    )
    pulumi_home: Path | None = Field(
        None, validation_alias=AliasChoices("PULUMI_HOME"), description="with the kubernetes plugin; empty: ~/.pulumi"
    )
    stack_workers: int = Field(2, ge=1, le=64, validation_alias=_ours("STACK_WORKERS"))
    shared_plugin: bool = Field(
        False, validation_alias=_ours("SHARED_PLUGIN"), description="one Kubernetes plugin for all operations"
    )
    engine: Literal["thin", "stock"] = Field(
        "thin", validation_alias=_ours("ENGINE"), description="stock: the SDK's own stack class, four times the cost"
    )
    stack_secrets: Literal["transit", "vault", "passphrase"] = Field(
        "transit", validation_alias=_ours("STACK_SECRETS"), description="who encrypts new stacks; others keep theirs"
    )
    stack_backend: str = Field(
        "", validation_alias=_ours("STACK_BACKEND"), description="Pulumi's URL of the states; empty: folders in home"
    )
    vault_url: str = Field("", validation_alias=_ours("VAULT_URL"), description="with stack secrets in a Vault")
    vault_token_file: Path | None = Field(
        None, validation_alias=_ours("VAULT_TOKEN_FILE"), description="read at every operation"
    )
    vault_key: str = Field("lessor", pattern=r"^[A-Za-z0-9_.-]{1,128}$", validation_alias=_ours("VAULT_KEY"))
    skip_checkpoints: bool = Field(
        True, validation_alias=_ours("SKIP_CHECKPOINTS"), description="states are written at the end of an operation"
    )
    log_format: LogFormat = Field(LogFormat.CONSOLE, validation_alias=_ours("LOG_FORMAT"))
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", validation_alias=_ours("LOG_LEVEL"))

    # chain
    node: Annotated[str, BeforeValidator(_node)] = Field("http://127.0.0.1:26657", validation_alias=_ap("NODE"))
    chain_id: str = Field("", validation_alias=_ap("CHAIN_ID"), description="empty: the node's, fixed at first contact")
    mnemonic_file: Path | None = Field(None, validation_alias=_ours("MNEMONIC_FILE"))
    mnemonic: SecretStr | None = Field(None, validation_alias=_ours("MNEMONIC"))
    private_key_file: Path | None = Field(None, validation_alias=_ours("PRIVATE_KEY_FILE"), description="64 hex digits")
    key_index: int = Field(0, ge=0, lt=2**31, validation_alias=_ours("KEY_INDEX"), description="N of m/44'/118'/0'/0/N")
    provider_address: str = Field("", validation_alias=_ap("FROM"), description="checked against the key when given")
    gas_prices: CoinText = Field(Coin("uakt", Decimal("0.025")), validation_alias=_ap("GAS_PRICES"))
    gas_adjustment: float = Field(1.5, ge=1, le=10, validation_alias=_ap("GAS_ADJUSTMENT"))
    rpc_timeout: Duration = Field(10, gt=0, validation_alias=_ap("RPC_QUERY_TIMEOUT"))
    tx_timeout: Duration = Field(30, gt=0, validation_alias=_ap("TX_BROADCAST_TIMEOUT"))
    poll_interval: Duration = Field(
        2, gt=0, validation_alias=_ours("POLL_INTERVAL"), description="of /status when the websocket is silent"
    )
    close_confirmations: int = Field(
        2, ge=2, le=100, validation_alias=_ours("CLOSE_CONFIRMATIONS"), description="heights that must say closed"
    )

    # market
    bid_price_strategy: Annotated[str, Field(pattern="^(scale|randomRange|shellScript|table)$")] = Field(
        "scale", validation_alias=_ap("BID_PRICE_STRATEGY"), description="scale, randomRange, shellScript or table"
    )
    price_script: str = Field("", validation_alias=_ap("BID_PRICE_SCRIPT_PATH"))
    price_script_limit: int = Field(32, ge=0, le=1024, validation_alias=_ap("BID_PRICE_SCRIPT_PROCESS_LIMIT"))
    price_script_timeout: Duration = Field(10, validation_alias=_ap("BID_PRICE_SCRIPT_PROCESS_TIMEOUT"))
    price_table: Path | None = Field(None, validation_alias=_ours("PRICE_TABLE"), description="YAML")
    akt_price_file: Path | None = Field(None, validation_alias=_ours("AKT_PRICE_FILE"), description="USD for one AKT")
    akt_price_age: Duration = Field(3600, gt=0, validation_alias=_ours("AKT_PRICE_AGE"))
    cpu_scale: Scale = Field(Decimal(0), validation_alias=_ap("BID_PRICE_CPU_SCALE"), description="per milli-CPU")
    memory_scale: Scale = Field(Decimal(0), validation_alias=_ap("BID_PRICE_MEMORY_SCALE"), description="per MiB")
    storage_scale: Annotated[dict[str, Decimal], NoDecode, BeforeValidator(_storage_scale)] = Field(
        {}, validation_alias=_ap("BID_PRICE_STORAGE_SCALE"), description="per MiB and class"
    )
    endpoint_scale: Scale = Field(Decimal(0), validation_alias=_ap("BID_PRICE_ENDPOINT_SCALE"))
    ip_scale: Scale = Field(Decimal(0), validation_alias=_ap("BID_PRICE_IP_SCALE"))
    bid_deposit: CoinText = Field(Coin("uakt", Decimal(500000)), validation_alias=_ap("BID_DEPOSIT"))
    bid_timeout: Duration = Field(300, validation_alias=_ap("BID_TIMEOUT"), description="0: a bid stays open for ever")
    provider_config: Path | None = Field(None, validation_alias=_ap("PROVIDER_CONFIG"), description="filters orders")
    market_interval: Duration = Field(60, gt=0, validation_alias=_ours("MARKET_INTERVAL"), description="full passes")

    # inventory
    overcommit_cpu: int = Field(0, ge=0, le=10000, validation_alias=_ap("OVERCOMMIT_PCT_CPU"), description="percent")
    overcommit_memory: int = Field(0, ge=0, le=10000, validation_alias=_ap("OVERCOMMIT_PCT_MEM"))
    overcommit_storage: int = Field(0, ge=0, le=10000, validation_alias=_ap("OVERCOMMIT_PCT_STORAGE"))
    storage_classes: Annotated[dict[str, int], NoDecode, BeforeValidator(_classes)] = Field(
        {}, validation_alias=_ours("STORAGE_CLASSES"), description="class to bytes, beta2=500Gi,beta3=1Ti"
    )
    ip_ranges: Annotated[tuple[AddressRange, ...], NoDecode, BeforeValidator(_ranges)] = Field(
        (), validation_alias=_ours("IP_RANGES"), description="203.0.113.10-203.0.113.20,198.51.100.0/28"
    )

    preview_updates: bool = Field(
        False,
        validation_alias=_ours("PREVIEW_UPDATES"),
        description="preview each update of a lease before it is applied",
    )

    # cluster
    kubeconfig: Path | None = Field(
        None, validation_alias=AliasChoices("AP_KUBECONFIG", "AKASH_KUBECONFIG", "KUBECONFIG")
    )
    manifest_namespace: ObjectName = Field(
        "lease", min_length=1, max_length=63, validation_alias=_ap("K8S_MANIFEST_NS")
    )
    metallb_namespace: ObjectName = Field("metallb-system", min_length=1, validation_alias=_ours("METALLB_NAMESPACE"))
    ingress_domain: Hostname = Field("", validation_alias=_ap("DEPLOYMENT_INGRESS_DOMAIN"))
    ingress_static_hosts: bool = Field(False, validation_alias=_ap("DEPLOYMENT_INGRESS_STATIC_HOSTS"))
    ingress_mode: IngressMode = Field(IngressMode.INGRESS, validation_alias=_ap("INGRESS_MODE"))
    ingress_class: ObjectName = Field("akash-ingress-class", min_length=1, validation_alias=_ours("INGRESS_CLASS"))
    gateway_name: ObjectName = Field("akash-gateway", validation_alias=_ap("GATEWAY_NAME"))
    gateway_namespace: ObjectName = Field("akash-gateway", validation_alias=_ap("GATEWAY_NAMESPACE"))
    proxy_buffer_size: Annotated[str, AfterValidator(parse_nginx_size)] = Field(
        "16k", validation_alias=_ap("PROXY_BUFFER_SIZE")
    )
    edge_namespace: str = Field(
        "",
        pattern="^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
        validation_alias=_ours("EDGE_NAMESPACE"),
        description="of an edge that policies must let in, such as Traefik's; Ingress-NGINX and the gateway's are",
    )
    edge_labels: Annotated[Items, BeforeValidator(_each(parse_label))] = Field(
        (), validation_alias=_ours("EDGE_LABELS"), description="of its pods, key=value[,…]; empty: all of its namespace"
    )
    node_dns: Annotated[Items, BeforeValidator(_each(parse_address))] = Field(
        (), validation_alias=_ours("NODE_DNS"), description="addresses of a DNS cache on the nodes, 169.254.25.10"
    )
    closed_ranges: Annotated[Items, BeforeValidator(_each(parse_closed_range))] = Field(
        (), validation_alias=_ours("CLOSED_RANGES"), description="more IPv4 networks that no tenant may reach"
    )
    public_hostname: Hostname = Field("", validation_alias=_ap("CLUSTER_PUBLIC_HOSTNAME"))
    blocked_hostnames: Annotated[Items, BeforeValidator(_each(parse_blocked))] = Field(
        (), validation_alias=_ap("DEPLOYMENT_BLOCKED_HOSTNAMES"), description="a.com is one name, .b.com a domain"
    )
    network_policies: bool = Field(True, validation_alias=_ap("DEPLOYMENT_NETWORK_POLICIES_ENABLED"))
    api_server_endpoints: Annotated[Items, BeforeValidator(_each(parse_endpoint))] = Field(
        (), validation_alias=_ours("API_SERVER_ENDPOINTS"), description="address:port, for network policies"
    )
    pull_secret: Annotated[str, AfterValidator(_maybe_name)] = Field(
        "", validation_alias=_ap("DOCKER_IMAGE_PULL_SECRETS_NAME")
    )
    runtime_class: Annotated[str, AfterValidator(_maybe_name)] = Field(
        "",
        validation_alias=_ap("DEPLOYMENT_RUNTIME_CLASS"),
        description="of services without an NVIDIA card, such as gvisor; empty or none: the cluster's own",
    )

    # leases
    drift: str = Field(
        "repair",
        pattern="^(repair|report)$",
        validation_alias=_ours("DRIFT"),
        description="repair or report objects that were changed by hand",
    )
    monitor_max_retries: int = Field(
        -1,
        ge=-1,
        le=1_000_000,
        validation_alias=_ap("MONITOR_MAX_RETRIES"),
        description="unhealthy checks before a lease is closed; -1: never",
    )
    monitor_retry_period: Duration = Field(4, ge=1, validation_alias=_ap("MONITOR_RETRY_PERIOD"))
    monitor_retry_period_jitter: Duration = Field(15, validation_alias=_ap("MONITOR_RETRY_PERIOD_JITTER"))
    brake_leases: int = Field(
        10,
        ge=0,
        validation_alias=_ours("BRAKE_LEASES"),
        description="may be removed in BRAKE_WINDOW without an event of the chain; three always may",
    )
    brake_percent: float = Field(20, ge=0, le=100, validation_alias=_ours("BRAKE_PERCENT"), description="of all leases")
    brake_window: Duration = Field(600, gt=0, validation_alias=_ours("BRAKE_WINDOW"))

    # gateway
    gateway_listen: Listen = Field("0.0.0.0:8443", validation_alias=_ap("GATEWAY_LISTEN_ADDRESS"))

    @property
    def database_url(self) -> str:
        return self.store_url or f"sqlite+aiosqlite:///{self.home / 'lessor.db'}"

    @property
    def store_key(self) -> Path:
        return self.store_key_file or self.home / "store.key"

    @property
    def unstable_after(self) -> float:
        """Seconds that so many unhealthy checks take (kubernetes-objects.md §4.4); 0: no lease is closed for it."""
        checks = self.monitor_max_retries + 1
        return checks * (self.monitor_retry_period + self.monitor_retry_period_jitter / 2)

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.provider_address and not _BECH32.fullmatch(self.provider_address):
            raise ValueError(f"AP_FROM: {self.provider_address[:60]!r} is not an akash address (akash1…)")
        if self.ingress_static_hosts and not self.ingress_domain:
            raise ValueError("AP_DEPLOYMENT_INGRESS_STATIC_HOSTS needs AP_DEPLOYMENT_INGRESS_DOMAIN")
        if self.edge_labels and not self.edge_namespace:
            raise ValueError("LESSOR_EDGE_LABELS needs LESSOR_EDGE_NAMESPACE: labels alone say nothing of an edge")
        if self.bid_deposit.amount != int(self.bid_deposit.amount):
            raise ValueError(f"AP_BID_DEPOSIT: {self.bid_deposit} must be a whole amount")
        return self


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment; `overrides` (by field name) win. Raises `SettingsError` naming every wrong
    variable.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(problem) for problem in error.errors())) from None


def unknown_variables(environment: Iterable[str]) -> dict[str, str]:
    """Variables that look like settings and are none, each with the setting that was probably meant (or nothing)."""
    known = {name for field in Settings.model_fields.values() for name in _choices(field)}
    strangers = (name for name in environment if name.startswith(_PREFIXES) and name not in known | _NOT_SETTINGS)
    return {name: next(iter(get_close_matches(name, known, n=1, cutoff=0.85)), "") for name in sorted(strangers)}


def _explain(problem: Any) -> str:
    location = str(problem["loc"][0]) if problem["loc"] else ""
    field = next((item for name, item in Settings.model_fields.items() if location in _names(name, item)), None)
    message = str(problem["msg"]).removeprefix("Value error, ")
    if field is None:
        return f"{location}: no such setting" if problem["type"] == "extra_forbidden" else message
    value = "***" if "SecretStr" in str(field.annotation) else repr(str(problem["input"])[:80])
    hint = f" ({field.description})" if field.description else ""
    return f"{_variable(field)}={value}: {message}{hint}"


def _names(name: str, field: Any) -> tuple[str, ...]:
    return (name, *_choices(field))


def _choices(field: Any) -> tuple[str, ...]:
    return tuple(field.validation_alias.choices)


def _variable(field: Any) -> str:
    return str(field.validation_alias.choices[0])
