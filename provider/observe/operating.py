"""The table of what an operator can read about the market and the provider, and the page `docs/operating.md`, which is
written from it and from `provider.observe.meanings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provider.observe.meanings import PODS, REASONS, STATES, Row

__all__ = ["CHECKS", "FINDINGS", "markdown"]

CHECKS = (
    Row(
        "wallet",
        "No bids are made: the wallet cannot pay, the picture of the cluster is too old, or the deposit is too small.",
        "The reason names the remedy.",
    ),
    Row("order", "The order is not open, or the tenant is this provider's own account."),
    Row(
        "tenant",
        "The tenant is not served, or has reached a limit of one tenant.",
        "LESSOR_OWNERS_ALLOWED, LESSOR_OWNERS_DENIED, LESSOR_OWNER_…",
    ),
    Row("size", "The order is too large to be looked at."),
    Row("attributes", "The order requires attributes that the provider's record does not have."),
    Row("order filter", "The order does not require the attributes that AP_PROVIDER_CONFIG filters by."),
    Row(
        "capabilities",
        "The provider's record declares no such storage class or GPU.",
        "If nodes have it, add it to the record.",
    ),
    Row("volumes", "A unit has more volumes than the Go provider takes."),
    Row("signatures", "The auditors that the order names have not signed the record.", "Have the record audited."),
    Row("group", "The order breaks a rule of the chain."),
    Row("denom", "The order pays in another denom.", "LESSOR_BID_DENOMS"),
    Row("reclamation", "The order demands a notice that this provider does not give.", "AP_RECLAMATION_WINDOW"),
    Row("capacity", "No node, or no storage class, has enough.", "`lessor bid explain` names what each node lacks."),
    Row("leased IPs", "Too few addresses are free.", "LESSOR_IP_RANGES"),
    Row("node ports", "Too few node ports are free, or one order wants too many.", "LESSOR_ORDER_NODE_PORTS"),
    Row("price", "The strategy names no price, or one above the order's maximum.", "`lessor bid explain`"),
)
"""The checks that an order can fail, as in `declined` of `lessor status` and in the metric `lessor_declined`."""

FINDINGS = (
    Row("no block has been read yet", "The provider has just started.", "If it lasts, see the nodes."),
    Row(
        "no block has been read for * s",
        "No node of AP_NODE gives new blocks; no bids, no ends of leases.",
        "Check the nodes and AP_NODE.",
    ),
    Row("node *: *", "A node of AP_NODE does not answer or is behind.", "Check the node."),
    Row(
        "the API server has not answered for more than * s: *",
        "The picture of the cluster is old; no bids are made.",
        "Check API server and kubeconfig.",
    ),
    Row(
        "* could not be read for more than * s: *",
        "One kind of object cannot be read; no bids are made.",
        "Check the rights of the provider's account (cluster stack).",
    ),
    Row("no node takes pods of tenants *", "No node has the label, is ready and has no taint.", "Label a node."),
    Row(
        "node * lacks * for the pods on it",
        "The node shrank or got pods without the scheduler; it has nothing free.",
        "Move pods away.",
    ),
    Row(
        "the wallet has *",
        "Too little for deposits and fees; no more bids.",
        "Fill the wallet. Bids go on at the next block.",
    ),
    Row(
        "* has *, the fees to close and to withdraw take *",
        "Too little for fees; no more bids.",
        "Fill the account that is named.",
    ),
    Row("* has *, less than AP_MINIMUM_BALANCE=*", "A warning before bids stop.", "Fill the account that is named."),
    Row("the node asks * gas for *", "A node asks absurd fees; nothing is signed.", "Use another node (AP_NODE)."),
    Row(
        "the transaction would cost *",
        "The fee is above LESSOR_FEE_LIMIT; nothing is signed.",
        "Lower AP_GAS_PRICES or raise the limit.",
    ),
    Row(
        "the money of the leases cannot be checked: *",
        "Nothing is withdrawn meanwhile.",
        "See the error and the nodes.",
    ),
    Row("the wallet cannot be read: *", "Bids go on with what was known before.", "See the error and the nodes."),
    Row(
        "leases, bids and open orders cannot be read: *",
        "New orders are seen in blocks; older ones, lost bids and ends that no block named wait.",
        "See the error and the nodes.",
    ),
    Row(
        "the fee budget of the day is used up (LESSOR_FEE_BUDGET)",
        "Not even closes are sent.",
        "Raise LESSOR_FEE_BUDGET, or wait.",
    ),
    Row(
        "the fee budget of the day has nothing left for bids (LESSOR_FEE_BUDGET)",
        "Withdrawals and closes go on.",
        "Raise LESSOR_FEE_BUDGET, or wait.",
    ),
    Row(
        "this provider is not registered on the chain: no bids are made",
        "The chain has no record of this account.",
        "Send MsgCreateProvider.",
    ),
    Row("no bids are made: *", "The reason follows.", "As the reason says."),
    Row(
        "the chain requires a bid deposit of at least *",
        "AP_BID_DEPOSIT is too small; no bids are made.",
        "Raise AP_BID_DEPOSIT.",
    ),
    Row(
        "the price strategy has named no price for * orders*",
        "Script or table fail for every order.",
        "`lessor bid list --declined`, `lessor bid explain`",
    ),
    Row(
        "* lost bids still hold their deposits",
        "The chain leaves lost bids open; every full pass closes them.",
        "If it lasts, see `market.bid_not_closed` in the log.",
    ),
    Row(
        "storage class * is advertised and *",
        "The record promises a class that no node or no setting has.",
        "Correct the record, the labels or LESSOR_STORAGE_CLASSES.",
    ),
    Row(
        "storage class * is on the nodes and not advertised*",
        "No order for the class gets a bid.",
        "Add it to the record.",
    ),
    Row(
        "GPU * is advertised and no node has it",
        "The record promises a card that no node has.",
        "Correct the record or the labels.",
    ),
    Row("GPU * is on the nodes and not advertised*", "No order for the card gets a bid.", "Add it to the record."),
    Row(
        "feat-endpoint-ip is advertised and no address can be leased*",
        "The record promises leased addresses.",
        "Set LESSOR_IP_RANGES, install MetalLB, or correct the record.",
    ),
    Row(
        "the brake holds * leases*",
        "They are said to have ended by one node alone.",
        "`lessor lease list --suspect`, `lessor lease release-brake`",
    ),
    Row(
        "* leases look closed*",
        "They may have ended; nothing proves it.",
        "`lessor lease list --suspect`, `lessor lease close`",
    ),
    Row(
        "* stacks belong to no known lease",
        "The engine holds stacks that neither chain nor cluster explain.",
        "`lessor lease list --suspect`",
    ),
    Row(
        "the provider is drained and makes no bids; `lessor undrain` ends it",
        "`lessor drain` stopped the bids; what runs is served.",
        "`lessor undrain`, or wait for the end of the drain.",
    ),
    Row(
        "node * is drained and takes no new lease",
        "`lessor drain NODE` keeps new leases from the node; its pods run on.",
        "`lessor undrain NODE`",
    ),
    Row("lease * is * for * s*", "The lease that the provider's own trouble has kept longest.", "`lessor lease show`"),
    Row(
        "the account certificate, which tenants pin: the chain calls it revoked: *",
        "Clients of tenants refuse it.",
        "Restart the provider, which makes another one.",
    ),
    Row(
        "no gateway is connected and tenants are answered by nobody: *",
        "LESSOR_GATEWAY_PROCESS is `separate`, and for a minute no gateway process has been there.",
        "Start `lessor gateway`; see its log.",
    ),
    Row(
        "the gateway's process has ended * times in a row*",
        "Each ended within a minute and was started again; tenants are not served meanwhile. A negative number is a "
        "signal (-9: killed, perhaps for its memory).",
        "The log of the provider has the child's last lines; LESSOR_GATEWAY_PROCESS=inside is the way out.",
    ),
    Row(
        "the CA's certificate for * is not issued: *",
        "The CA did not issue, or was not reached. Clients get the certificate before it, or the account certificate.",
        "As the text says.",
    ),
    Row("* ended * days ago: *", "A certificate has ended; its users refuse it.", "As the text says."),
    Row("* ends in * days: *", "A certificate ends within 14 days.", "As the text says."),
    Row("* GiB of * GiB are free at *", "The file system of the home is nearly full.", "Free space, or move AP_HOME."),
    Row("AP_HOME=*: *", "The home cannot be read.", "Correct the folder."),
    Row(
        "the database cannot be *",
        "Decisions and fees cannot be read or written. Without a record no bid is made.",
        "Check LESSOR_STORE_URL and the disk.",
    ),
    Row(
        "the database is damaged and cannot be replaced: *",
        "No bid is made; leases go on.",
        "Correct what the reason says: the disk, or the rights of the home.",
    ),
    Row(
        "an empty database was begun, the history is lost: *",
        "The file was damaged or gone. Leases, claims and bids come from chain and cluster.",
        "Check the disk; see docs/recovery.md.",
    ),
    Row(
        "a damaged database is kept as *",
        "It was set aside, and an empty one took its place.",
        "Read what you need from it, and move it out of the home.",
    ),
)
"""What `lessor status` names as a warning or as trouble."""

_HEAD = """# Operating

`make docs` writes this file from `provider/observe/meanings.py` and `operating.py`; a test holds it complete. `…` is a
part that differs. `lessor status` ends with 0 when all is well, 1 with a warning and 2 with trouble.

A pod has no field that limits its processes. `lessor doctor --kubeconfig FILE`, with your own kubeconfig, names the
nodes whose kubelet sets no `podPidsLimit`.
"""
_SECTIONS: Sequence[tuple[str, str, Sequence[Row]]] = (
    (
        "States of a lease",
        "`lessor lease list`, `lessor lease show`; the tenant's lease status shows them in `errors`.",
        STATES,
    ),
    (
        "Reasons beside the state",
        "Several are joined by `;`. Errors of nodes, API server and engine come as they are.",
        REASONS,
    ),
    ("Pods", "The word after a pod's name. Where nothing is to be done it is the tenant's own.", PODS),
    ("Declined orders", "The names of the checks in `lessor status` and in the metric `lessor_declined`.", CHECKS),
    ("Warnings and trouble", "The findings of `lessor status`.", FINDINGS),
)


def markdown() -> str:
    """The page."""
    return "\n".join([_HEAD, *(line for section in _SECTIONS for line in _section(*section))])


def _section(title: str, about: str, rows: Sequence[Row]) -> Iterator[str]:
    yield from (f"## {title}", "", about, "", "| text | meaning | what to do |", "|---|---|---|")
    for row in rows:
        yield f"| {row.text.replace('*', '…').replace('|', chr(92) + '|')} | {row.meaning} | {row.action} |"
    yield ""
