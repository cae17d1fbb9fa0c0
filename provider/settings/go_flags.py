"""Names of the Go provider and its Helm chart that are no settings here, each with the reason.

Sources: bidding.md §6, gateway.md §7, operators.md §1.3 and the values of the chart `akash-provider`. A name of this
table is accepted everywhere that a setting is, so that an operator moves with the files and flags that exist.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CHART_KEYS", "CHART_SPELLINGS", "NO_MEANING", "PROVIDER_RECORD", "SWITCHES"]

_ISSUER = "Lessor's issuer answers HTTP-01 only, at AP_CERT_ISSUER_HTTP_CHALLENGE_PORT"
_ISSUER_CHART = "AP_CERT_ISSUER_ENABLED and the settings beside it order the certificate"
_ONE_TRANSACTION = "it is for commands that send one transaction"
_GAS = "the gas of each transaction is simulated; LESSOR_FEE_LIMIT and LESSOR_FEE_BUDGET limit its price"
_VALIDITY = "LESSOR_TX_TIMEOUT_BLOCKS limits how long a transaction is valid"
_WATCHES = "the API server's watches say when something changes, nothing is polled"
_CLAIMS = "Lessor keeps claims of hostnames and addresses itself and asks no operator"
_STORE = "LESSOR_STORE_URL names the database; certificates of tenants are read from the chain"
_DEAD = "the Go provider reads it and does nothing with it"
_UNREAD = "the chart sets it and no program reads it"
_OPERATOR = "it is an option of a command `lessor operator …`"
_ATTESTATION = "Lessor offers no confidential computing"
_KEY = "name the key's file with LESSOR_KEYRING_FILE, LESSOR_ARMORED_KEY_FILE or LESSOR_MNEMONIC_FILE"

NO_MEANING: Mapping[str, str] = {
    "cluster-k8s": "Lessor always uses Kubernetes",
    "cluster-node-port-quantity": "LESSOR_NODE_PORT_RANGE and LESSOR_ORDER_NODE_PORTS limit the node ports of orders",
    "cluster-wait-ready-duration": "Lessor waits for the API server as long as it takes",
    "inventory-resource-poll-period": _WATCHES,
    "inventory-resource-debug-frequency": "`lessor status` and the dashboard show the inventory",
    "monitor-healthcheck-period": _WATCHES,
    "monitor-healthcheck-period-jitter": _WATCHES,
    "deployment-ingress-expose-lb-hosts": _DEAD,
    "auth-pem": _DEAD,
    "ip-operator": "addresses are leased when LESSOR_IP_RANGES or LESSOR_IP_POOLS is set",
    "ip-operator-endpoint": _CLAIMS,
    "hostname-operator-endpoint": _CLAIMS,
    "cached-result-max-age": "what was read from the chain is kept until an event of the chain changes it",
    "persistent-config-backend": _STORE,
    "persistent-config-path": _STORE,
    "cert-issuer-storage-dir": "the certificate and the account's key are in AP_HOME, folder `issuer`",
    **{f"cert-issuer-{name}": _ISSUER for name in ("tls-challenge-port", "dns-providers", "dns-resolvers")},
    "migrations-enabled": "records of older versions are read as they are",
    "migrations-state-path": "records of older versions are read as they are",
    "gateway-provider": "LESSOR_EDGE names the ingress controller",
    "gateway-implementation": "LESSOR_EDGE names the ingress controller",
    "keyring-backend": _KEY,
    "keyring-dir": _KEY,
    "keyring-default-keyname": _KEY,
    "gas": _GAS,
    "fees": _GAS,
    "minimum-gas-prices": "it is a setting of a node",
    "broadcast-mode": "LESSOR_TX_MODE says how transactions are sent",
    "sign-mode": "Lessor signs in the mode `direct`",
    "account-number": "it is read from the chain",
    "sequence": "it is read from the chain",
    "note": "Lessor's transactions carry no note",
    "ledger": "the provider signs without a person, which a Ledger does not allow",
    "fee-payer": "AP_FEE_GRANTER names the account whose fee grant pays",
    **dict.fromkeys(("dry-run", "generate-only", "offline", "aux", "tip"), _ONE_TRANSACTION),
    "yes": "`lessor run` asks nothing",
    "timeout-height": _VALIDITY,
    "timeout-duration": _VALIDITY,
    "unordered": _VALIDITY,
    "output": "LESSOR_LOG_FORMAT is the form of the log",
    "log-color": "the log has colours on a terminal; NO_COLOR turns them off",
    "log-no-color": "the log has colours on a terminal; NO_COLOR turns them off",
    "log-timestamp": "each line of the log has its time",
    "trace": "a defect is logged with its traceback",
    "debug": "LESSOR_LOG_LEVEL is the least level that is logged",
    "boot-keys": _KEY,
    **dict.fromkeys(
        (
            "version",
            "balances-period",
            "bid-price-cpu",
            "bid-price-memory",
            "bid-price-storage",
            "cluster-storage",
            "deployment-ingress-domain-config-secret-name",
            "bid-deposit-cpu-denom",
            "bid-deposit-memory-denom",
            "bid-deposit-endpoint-denom",
            "bid-deposit-ip-denom",
            "bid-deposit-storage-denoms",
            "resource-definition",
        ),
        _UNREAD,
    ),
    **dict.fromkeys(
        (
            "attestation-webhook-enabled",
            "attestation-sidecar-image",
            "attestation-webhook-port",
            "cc-persistent-storage-classes",
        ),
        _ATTESTATION,
    ),
    **dict.fromkeys(
        (
            "rest-port",
            "rest-address",
            "grpc-port",
            "prune-interval",
            "web-refresh-interval",
            "retry-delay",
            "ignore-list-entry-limit",
            "ignore-list-age-limit",
            "event-failure-limit",
            "provider",
            "metal-lb-pool",
            "metal-lb-endpoint",
            "api-timeout",
            "query-timeout",
            "registry-query-period",
            "provider-configs-url",
            "discovery-image",
            "pod-namespace",
            "pod-name",
        ),
        _OPERATOR,
    ),
}
"""Flags and variables of the Go provider: the reason why each is no setting of `lessor run`, by the flag's name."""

SWITCHES = frozenset(
    {
        "cluster-k8s",
        "deployment-ingress-expose-lb-hosts",
        "ip-operator",
        "migrations-enabled",
        "ledger",
        "dry-run",
        "generate-only",
        "offline",
        "aux",
        "yes",
        "unordered",
        "log-color",
        "log-no-color",
        "log-timestamp",
        "trace",
        "debug",
    }
)
"""Those of `NO_MEANING` that stand on a command line without a value."""

CHART_SPELLINGS: Mapping[str, str] = {
    "bidmindeposit": "AP_BID_DEPOSIT",
    "gatewayapigatewayname": "AP_GATEWAY_NAME",
    "gatewayapigatewaynamespace": "AP_GATEWAY_NAMESPACE",
    "publichostname": "AP_CLUSTER_PUBLIC_HOSTNAME",
    "ingressdomain": "AP_DEPLOYMENT_INGRESS_DOMAIN",
}
"""Keys of the chart's `values.yaml` that are spelled otherwise than a variable, without case and separators."""

_PODS = "it shapes the pods of the Helm chart; Pulumi.example.yaml has the settings of the cluster stack"
_PRICE_SCRIPT = "a price script reads it as a variable in upper case from the environment of `lessor run`"

CHART_KEYS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "image",
            "imagepullsecrets",
            "nameoverride",
            "fullnameoverride",
            "serviceaccount",
            "podsecuritycontext",
            "securitycontext",
            "resources",
            "autoscaling",
            "nodeselector",
            "tolerations",
            "affinity",
            "storage",
        ),
        _PODS,
    ),
    **dict.fromkeys(("gcp", "env", "certissuer", "letsencrypt"), _ISSUER_CHART),
    **dict.fromkeys(("key", "keysecret"), _KEY),
    **dict.fromkeys(
        (
            "pricetargetcpu",
            "pricetargetmemory",
            "pricetargethdephemeral",
            "pricetargethdpershdd",
            "pricetargethdpersssd",
            "pricetargethdpersnvme",
            "pricetargetendpoint",
            "pricetargetip",
            "pricetargetgpumappings",
            "whitelisturl",
            "debugbidscript",
        ),
        _PRICE_SCRIPT,
    ),
    "bidpricescript": "write the script to a file and name it with AP_BID_PRICE_SCRIPT_PATH",
    "gatewayapiimplementation": "LESSOR_EDGE names the ingress controller",
    "attestation": _ATTESTATION,
    "confidentialcompute": _ATTESTATION,
}
"""Keys of the chart's `values.yaml` that are no settings, without case and separators: the reason."""

PROVIDER_RECORD = frozenset({"host", "info", "attributes", "email", "website", "jwthosturi"})
"""Keys of `provider.yaml` that belong to the provider's record on the chain; `attributes` is also the order filter."""
