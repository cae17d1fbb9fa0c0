"""The commands of `lessor`: where each is, and the line of help that its group shows.

The devnet's commands are named here only; nothing else of the provider refers to the devnet.
"""

from __future__ import annotations

from provider.cli.lazy_group import CommandEntry, GroupEntry, Table

__all__ = ["COMMANDS"]

_SDL = GroupEntry(
    "Check an SDL; print its hash, manifest or group specs.",
    {
        "check": CommandEntry("provider.cli.sdl:check", "List every error in each SDL, with its line."),
        "hash": CommandEntry("provider.cli.sdl:hash_", "Print the hash that goes on chain, in hex."),
        "manifest": CommandEntry("provider.cli.sdl:manifest", "Print the manifest as JSON, as a client sends it."),
        "groups": CommandEntry("provider.cli.sdl:groups", "Print the group specs as JSON, as they go on chain."),
    },
)
_LEASE = GroupEntry(
    "List the leases of this provider, show what the provider did with each, and send the provider directives.",
    {
        "list": CommandEntry("provider.cli.lease:list_", "List the leases, each with its state and the reason for it."),
        "show": CommandEntry(
            "provider.cli.lease:show", "Show one lease: its state, what runs, and the outcomes of its runs."
        ),
        "history": CommandEntry("provider.cli.lease:history", "List the runs of one lease, the newest first."),
        "logs": CommandEntry(
            "provider.cli.lease_streams:logs",
            "Print the logs of a lease's pods, each line after the name of its pod.",
        ),
        "shell": CommandEntry(
            "provider.cli.lease_streams:shell", "Run a command in a pod of a lease; on a terminal with a terminal."
        ),
        "recreate": CommandEntry(
            "provider.cli.lease_directives:recreate",
            "Replace the pods of a lease whose objects an older version of Lessor made.",
        ),
        "retry": CommandEntry("provider.cli.lease_directives:retry", "Retry a version that was refused."),
        "close": CommandEntry(
            "provider.cli.lease_directives:close",
            "Remove a lease that looks closed from the cluster.",
        ),
        "forget": CommandEntry(
            "provider.cli.lease_directives:close",
            "Remove a lease that looks closed from the cluster.",
            hidden=True,
        ),
        "release-brake": CommandEntry(
            "provider.cli.lease_directives:release_brake", "Delete the leases that the teardown brake holds."
        ),
        "volumes": CommandEntry(
            "provider.cli.lease_restore:volumes", "List the volumes that are kept although their lease has ended."
        ),
        "restore": CommandEntry(
            "provider.cli.lease_restore:restore", "Give the volumes of a lease that has ended to another lease."
        ),
    },
)
_BID = GroupEntry(
    "List decisions about orders, and explain one.",
    {
        "list": CommandEntry("provider.cli.bid:list_", "List decisions about orders, the newest first."),
        "explain": CommandEntry("provider.cli.bid:explain", "Explain why an order was bid on or declined."),
    },
)
_POLICY = GroupEntry(
    "List the rules that leases and the cluster stack keep, and test an operator's own.",
    {
        "list": CommandEntry("provider.cli.policy:list_", "List every rule with its level, and every exemption."),
        "audit": CommandEntry(
            "provider.cli.policy:audit",
            "Judge the recorded state of all stacks, what runs in the namespaces of leases, and the cluster stack.",
        ),
        "test": CommandEntry(
            "provider.cli.policy:test", "Check a policy file or a file of own rules, and judge objects with it."
        ),
    },
)
_DEVNET = GroupEntry(
    "Start and stop a Kubernetes control plane on this machine, for development.",
    {
        "up": CommandEntry("devnet.cli.control_plane:up", "Start the control plane; missing tools are built first."),
        "down": CommandEntry(
            "devnet.cli.control_plane:down", "Stop the control plane with its real node and wait for the end."
        ),
        "status": CommandEntry("devnet.cli.control_plane:status", "Print the state of the control plane as JSON."),
        "exec": CommandEntry("devnet.cli.enclosure:exec_", "Run a command in the enclosure of the real node."),
        "enclosed": CommandEntry(
            "devnet.cli.enclosure:enclosed", "Run a command in a fresh enclosure, which ends with it."
        ),
    },
)
_OPERATOR = GroupEntry(
    "Run one of the operators beside the provider.",
    {
        "inventory": CommandEntry(
            "provider.cli.operator_inventory:inventory",
            "Run the inventory operator: discover what the nodes have, label them, and publish what is free.",
        ),
        "hostname": CommandEntry(
            "provider.cli.operator_claims:hostname",
            "Run the hostname operator: check tenants' hostnames, and serve what is known of them.",
        ),
        "ip": CommandEntry(
            "provider.cli.operator_claims:ip",
            "Run the IP operator: serve the state and the usage of leased addresses.",
        ),
    },
)
_ADDRESS = GroupEntry(
    "List the addresses that leases have, and those that had one before.",
    {
        "list": CommandEntry("provider.cli.inventory:addresses", "List the leased addresses, each with its lease."),
        "history": CommandEntry(
            "provider.cli.claim_history:address_history", "List which leases had an address, the newest first."
        ),
    },
)
_HOSTNAME = GroupEntry(
    "List the hostnames that leases have, and those that had one before.",
    {
        "list": CommandEntry(
            "provider.cli.inventory:hostnames", "List the hostnames, each with its lease and whether it is reached."
        ),
        "history": CommandEntry(
            "provider.cli.claim_history:hostname_history", "List which leases had a hostname, the newest first."
        ),
    },
)
_CONFIG = GroupEntry(
    "Show the settings and where each comes from; find mistakes before a restart.",
    {
        "show": CommandEntry(
            "provider.cli.config:show", "Show every setting, its value and where it comes from.", open_options=True
        ),
        "check": CommandEntry(
            "provider.cli.config:check", "Find every mistake in the settings and on this machine.", open_options=True
        ),
    },
)
_TOOLS = GroupEntry(
    "Programs that other parts of a provider start.",
    {
        "psutil": GroupEntry(
            "Print or serve the hardware of this machine.",
            {
                "list": CommandEntry(
                    "provider.cli.psutil:list_", "Print one kind of hardware of this machine as JSON."
                ),
                "serve": CommandEntry(
                    "provider.cli.psutil:serve",
                    "Serve the hardware of this machine over HTTP, as a discovery pod of the inventory operator does.",
                ),
            },
        ),
    },
)

COMMANDS: Table = {
    "doctor": CommandEntry(
        "devnet.cli.doctor:doctor",
        "Show every tool, where it was found, and how to get a missing one.",
        before="provider.cli.doctor:home_is_open",
    ),
    "demo": CommandEntry(
        "devnet.cli.demo:demo",
        "Start a cluster, a chain, a provider and a tenant on this machine, and follow one lease from start to end.",
    ),
    "devnet": _DEVNET,
    "sdl": _SDL,
    "render": CommandEntry(
        "provider.cli.render:render", "Print the Kubernetes objects of an SDL as YAML, without a cluster."
    ),
    "run": CommandEntry(
        "provider.cli.run:run",
        "Run the provider: follow the chain, bid on orders that fit, serve the leases.",
        early="provider.cli.early_imports:import_early",
        open_options=True,
    ),
    "gateway": CommandEntry(
        "provider.cli.gateway:gateway",
        "Run the gateway for a provider on this machine whose LESSOR_GATEWAY_PROCESS is `separate`.",
    ),
    "worker": CommandEntry(
        "provider.cli.worker:worker",
        "Run stack operations for a provider whose LESSOR_STACK_QUEUE is set, on this machine or another.",
    ),
    "config": _CONFIG,
    "drain": CommandEntry("provider.cli.drain:drain", "Stop bidding, with the whole provider or for some nodes."),
    "undrain": CommandEntry("provider.cli.drain:undrain", "Bid again, with the whole provider or on some nodes."),
    "settings": CommandEntry(
        "provider.cli.settings:settings", "List every setting with its value, its source and its meaning."
    ),
    "keys": CommandEntry(
        "provider.cli.keys:keys", "Show the provider's address, where its key comes from, and its balance."
    ),
    "dashboard": CommandEntry(
        "provider.cli.dashboard:dashboard", "Print the link of the running provider's dashboard."
    ),
    "status": CommandEntry(
        "provider.cli.status:status",
        "Show whether all is well, then chain, cluster, market, leases, money, certificates and disk.",
    ),
    "trace": CommandEntry(
        "provider.cli.trace:trace",
        "Trace one lease: the decisions about its order, its bid, each run of the engine, its state and its earnings.",
    ),
    "inventory": CommandEntry(
        "provider.cli.inventory:inventory", "Show what the cluster has and what of it is free, by node and by card."
    ),
    "address": _ADDRESS,
    "hostname": _HOSTNAME,
    "lease": _LEASE,
    "bid": _BID,
    "policy": _POLICY,
    "earnings": CommandEntry("provider.cli.earnings:earnings", "Show what leases earned and what transactions cost."),
    "adopt": CommandEntry(
        "provider.cli.adopt:adopt", "Take over the leases of a cluster that a Go provider has run until now."
    ),
    "backup": CommandEntry(
        "provider.cli.backup:backup", "Write the home of the provider, running or not, to one file."
    ),
    "restore": CommandEntry("provider.cli.backup:restore", "Make the home of the provider from a backup."),
    "completion": CommandEntry(
        "provider.cli.completion:completion", "Print what makes a shell complete commands, options and leases."
    ),
    "diff": CommandEntry("provider.cli.diff:diff", "Show what another manifest would change for a running lease."),
    "operator": _OPERATOR,
    "tools": _TOOLS,
    "pulumi": CommandEntry("provider.cli.pulumi:pulumi", "Run the Pulumi command line on the stack of a lease."),
}
