"""What an operator or a tenant can read about a lease: its states, the reasons beside them and the trouble of its pods,
each with its meaning and what to do. `provider.observe.operating` has the rest and writes the page.

In a text, `*` is a part that differs from case to case.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PODS", "REASONS", "STATES", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """`text`: as it is printed. `action`: what an operator does; empty: nothing."""

    text: str
    meaning: str
    action: str = ""


STATES = (
    Row(
        "unknown", "The chain or the cluster could not be asked since the start. Nothing is changed.", "See the reason."
    ),
    Row("waiting for manifest", "The tenant has won the lease and has not sent a manifest that was accepted."),
    Row(
        "blocked",
        "The newest version cannot be applied because of a hostname, an address, a namespace or the manifest itself.",
        "See the reason. What ran before goes on running and is kept up.",
    ),
    Row("applying", "A version is being applied, or its pods are being made."),
    Row("running", "Every service of the newest version has its pods ready."),
    Row(
        "degraded",
        "The version is applied, and a service has too few ready pods.",
        "See the reason; it names pod and node.",
    ),
    Row(
        "failed",
        "The first version could not be applied.",
        "The tenant sends another manifest. `lessor lease retry` tries again.",
    ),
    Row(
        "update failed (running the previous version)",
        "The newest version was refused; the one before runs.",
        "The tenant sends another manifest. `lessor lease retry` tries again.",
    ),
    Row(
        "closing", "The lease has ended and its objects are being removed.", "After ten minutes see what it waits for."
    ),
    Row(
        "quarantined",
        "The lease has ended, and only its volumes are kept (LESSOR_VOLUME_QUARANTINE).",
        "`lessor lease restore`",
    ),
    Row("closed", "The lease has ended and nothing is left of it."),
)
"""The states of a lease in `lessor lease list` and `lessor status`."""

REASONS = (
    Row("the tenant has not sent a manifest that was accepted", "The lease is won and the tenant's turn has come."),
    Row(
        "*the lease is given up * after it was won",
        "AP_MANIFEST_TIMEOUT runs. Then the chain is asked to end the lease.",
    ),
    Row("no manifest has come within *", "The time is over; the lease is given up."),
    Row(
        "*the lease had one and is not given up: *",
        "Records of the lease are gone. Something of it still runs, or this provider has served it.",
        "Have the tenant send the manifest again.",
    ),
    Row("the provider gives this lease up: *", "The chain was asked to end the lease, or to begin its notice."),
    Row(
        "the provider gives this lease up and the chain does not know yet: *",
        "The request did not reach the chain; it is repeated.",
        "See the chain's nodes in `lessor status`.",
    ),
    Row(
        "the provider ends this lease at * (*)",
        "The notice of the lease runs; it is served until that time and then closed. A notice cannot be taken back.",
    ),
    Row(
        "the notice of this lease ended at *: the provider closes the lease",
        "The chain is asked to end the lease, once a minute until it has ended.",
    ),
    Row(
        "it waits for evidence of the notice beside the answer of one node",
        "One node alone says that the notice was given, and a lease is not closed for that.",
        "Name a second node in AP_NODE, or send MsgCloseBid yourself.",
    ),
    Row(
        "the chain has not taken the request yet",
        "The chain or its node refused the close.",
        "See `lifecycle.notice_not_ended` in the log.",
    ),
    Row(
        "*the application has not run for * s",
        "AP_MONITOR_MAX_RETRIES is set, and the application did not run for that time.",
    ),
    Row(
        "the application has ended * times; it is ready again, and called running after * s",
        "A crash loop, between two ends.",
    ),
    Row(
        "service *: * of * ready*",
        "Pods of a service are not ready. The text of the pod follows.",
        "See the table of pods.",
    ),
    Row("service *: * of * pods updated*", "A new version replaces the pods of the old one."),
    Row("*; * more pods likewise", "Only the first three pods are named."),
    Row(
        "service *: port * waits for its address *",
        "The Service has not got its leased address: the load balancer is away or has none to give.",
        "See MetalLB's controller.",
    ),
    Row(
        "service *: hostname * is not served: *",
        "The gateway refuses the route of the hostname; its reason follows.",
        "See the Gateway's listeners.",
    ),
    Row(
        "hostname * is not served: *",
        "Something else has the hostname; the lease runs without it and gets it when it is free.",
        "The tenant takes the hostname out of one of the leases.",
    ),
    Row(
        "hostname * is still served by the lease that had it: *",
        "The hostname migrates to this lease. The other lease serves it until this one does; the rest says why.",
    ),
    Row("this lease does not run yet", "A part of the reason above: the workloads are not ready."),
    Row(
        "the gateway has not accepted the new route yet",
        "A part of the reason above: the HTTPRoute has no condition Accepted.",
        "If it stays, see the status of the HTTPRoute.",
    ),
    Row(
        "the edge answers *",
        "A part of the reason above: LESSOR_EDGE_ENDPOINT has no route for the hostname, or nothing behind it.",
        "If it stays, see the log of the ingress controller.",
    ),
    Row(
        "the edge is about to use the new route", "A part of the reason above: the edge has answered for less than 3 s."
    ),
    Row(
        "service *: port *: this provider's edge does not apply its HTTP options *",
        "With AP_INGRESS_MODE=gateway-api and with LESSOR_EDGE=traefik-plain no HTTP option acts, with "
        "LESSOR_EDGE=traefik all but the buffer size, with LESSOR_EDGE=ingress-nginx all.",
    ),
    Row(
        "port * of service * has no address: *",
        "Another lease of the owner serves that port of the same IP endpoint; it is given when it is free.",
        "The tenant takes the port out of one of the leases.",
    ),
    Row(
        "service *: port * is not served as *: an earlier expose has that port",
        "Two exposes of the manifest want one port; the first one has it.",
        "The tenant changes one of them.",
    ),
    Row("lease */*/* has it*", "The lease that has the hostname or the port; the owner is the same."),
    Row("another lease has it*", "A lease of another owner has the hostname; the tenant does not read which."),
    Row("something else in the cluster serves it", "A route that Lessor did not make serves the hostname."),
    Row(
        "*; what was made of it cannot be removed: *",
        "A first version was refused half-way, and its objects are still there; it is tried again.",
        "See the error.",
    ),
    Row(
        "no leased address is free; the lease gets the first one that is", "What the tenant reads of `no free address`."
    ),
    Row("the provider cannot read its record of the lease", "What the tenant reads of a damaged Manifest or Secret."),
    Row(
        "the cluster does not answer; this is what it said last",
        "The lease status is the last report of the watches.",
        "See the cluster in `lessor status`.",
    ),
    Row(
        "* * (HTTP *)",
        "The API server refuses an object of the version in a dry run; nothing was applied.",
        "The tenant changes the manifest; the text names the policy or the field.",
    ),
    Row("missing: *", "A workload of the lease does not exist. It is made again unless LESSOR_DRIFT is `report`."),
    Row(
        "not as applied: *",
        "Somebody changed an object of the lease, and it was not undone (LESSOR_DRIFT, or undone too often).",
        "Undo the change, or `lessor lease recreate`.",
    ),
    Row(
        "changed when the tenant sends a manifest or the lease is recreated: *",
        "An older Lessor made these pods; they run on as they are.",
    ),
    Row(
        "adopted: as another provider made it until the tenant sends a manifest or the lease is recreated",
        "`lessor adopt` has taken the lease over; nothing of it was changed.",
    ),
    Row(
        "* is no part of this lease's stack: it stays until it is deleted",
        "An object of an older Lessor that this one does not use.",
        "Delete it when nothing uses it.",
    ),
    Row("applying the first version", "The engine runs."),
    Row("applying the newest version", "The engine runs."),
    Row("applied; waiting for the workloads", "The engine is done; the pods are being made."),
    Row("going back to the previous version: *", "The newest version was refused; the reason follows."),
    Row("restoring the previous version: *", "The newest version is blocked; the reason follows."),
    Row(
        "the previous version could not be restored: *",
        "Neither version could be applied; it is tried again.",
        "See the error.",
    ),
    Row("repairing: *", "Objects of the lease were changed or are gone, and are restored."),
    Row("the namespace is gone*", "Somebody deleted the namespace of the lease; it is made again."),
    Row(
        "namespace * is terminating*",
        "The namespace cannot be used or removed before Kubernetes has deleted it.",
        "If it lasts, see the finalizers that the text names.",
    ),
    Row(
        "refused by policy: *",
        "The version breaks a rule of `policies/`, or has an image of LESSOR_IMAGES_DENIED.",
        "The tenant changes the manifest.",
    ),
    Row(
        "the record of this version cannot be written: *",
        "The API server takes no Secret of this form or size.",
        "The tenant sends a smaller manifest.",
    ),
    Row(
        "hostname not allowed: *",
        "The hostname belongs to another lease or to the provider, or is blocked.",
        "The tenant chooses another. It is claimed as soon as it is free.",
    ),
    Row(
        "no free address for *",
        "All addresses of LESSOR_IP_RANGES and LESSOR_IP_POOLS are in use.",
        "Widen LESSOR_IP_RANGES, or a pool.",
    ),
    Row(
        "nothing is changed: *",
        "What the chain answers proves neither that the lease lives nor that it ended.",
        "See the chain's nodes in `lessor status`.",
    ),
    Row(
        "nothing is removed: *",
        "The lease looks ended; evidence beside one node's answers is missing.",
        "See the rest of the text.",
    ),
    Row("the chain says * at height *", "Why the lease has ended."),
    Row("*more at another height is needed", "The end is proved at two heights."),
    Row(
        "the node does not know this lease at height *",
        "It proves nothing.",
        "`lessor lease list --suspect`; `lessor lease close` ends it.",
    ),
    Row(
        "the node answered at height *, this provider has already seen *",
        "The node is behind; its answer does not count.",
    ),
    Row(
        "the node answered at height *, this provider has read blocks up to * only*",
        "The node names a height that the chain cannot have.",
        "Check AP_NODE.",
    ),
    Row(
        "the node did not say at which height and on which chain it answered",
        "Its answer does not count.",
        "Check AP_NODE.",
    ),
    Row("the node is on chain *, this provider on *: check AP_NODE", "Its answer does not count.", "Check AP_NODE."),
    Row(
        "the nodes disagree: *",
        "One named node calls the lease alive, another ended. The lease stays.",
        "Remove the node that is wrong from AP_NODE.",
    ),
    Row("* calls the lease alive", "The node that contradicts.", "Check that node."),
    Row("by this provider's own arithmetic its escrow has run out", "Evidence of the end, in the log."),
    Row("* signed its end in block *", "Evidence of the end, in the log: the tenant or the provider signed it."),
    Row("* nodes agree: *", "Evidence of the end, in the log."),
    Row("one node only is named", "There is no second node that could be evidence.", "Name a second node in AP_NODE."),
    Row(
        "no second node of AP_NODE can confirm it now",
        "The end waits for a second node, an hour at most.",
        "Bring the node back.",
    ),
    Row(
        "teardown brake: *",
        "More leases than LESSOR_BRAKE_LEASES are said to have ended by one node alone.",
        "`lessor lease list --suspect`; then `lessor lease release-brake` or `lessor lease close`.",
    ),
    Row(
        "unexpected *",
        "A defect of Lessor. The lease is left as it is and tried again.",
        "Report it, with the lines of the log.",
    ),
    Row(
        "* has trouble of its own and tries again",
        "What the tenant reads while the cluster or the engine fails for the provider's reasons.",
        "`lessor lease show` has the cause.",
    ),
    Row(
        "*send a corrected manifest, or the same one again to have it tried again",
        "What the tenant can do after a failure.",
    ),
)
"""The reasons beside the state of a lease. Errors of nodes, of the API server and of the engine come as they are."""

PODS = (
    Row(
        "unschedulable",
        "No node takes the pod; the scheduler's message follows.",
        "Compare the nodes with `lessor status`.",
    ),
    Row(
        "node lost",
        "The pod's node does not report. No time counts against the tenant; a volume of the node waits for it.",
        "Bring the node back, or delete it from the cluster.",
    ),
    Row("evicted", "The node had too little memory or disk and ended the pod. Another pod is made.", "See the node."),
    Row("ended by its node", "The node refused or ended the pod; its reason follows.", "See the node."),
    Row("terminating", "The pod is being deleted."),
    Row(
        "being created",
        "The node makes the pod; a warning follows when it cannot.",
        "See the warning: volumes, images, network of the node.",
    ),
    Row(
        "image cannot be pulled",
        "The registry's or the runtime's answer follows.",
        "The tenant's when the registry refuses name or access. Its limits and the node's network are yours.",
    ),
    Row(
        "cannot be started",
        "The container's command or user is wrong, or the node cannot start it.",
        "The tenant's when the text names the command or the user; anything else (a driver, a mount) is yours.",
    ),
    Row("out of memory", "The application used more memory than the tenant rents."),
    Row("crash loop", "The application ends again and again; its exit code follows."),
    Row("ended", "The application ended; its exit code follows."),
    Row("not ready", "The application runs and does not answer its probe."),
)
"""The trouble of a pod, after its name. Without an action it is the tenant's own."""
