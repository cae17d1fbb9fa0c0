"""The cluster's side: the policies on one lease and on every SDL of the corpus, and the inventory operator.

    python -m benchmarks.cluster [--rounds 200] [--no-inventory]

Policies: one core, best of several rounds. Inventory: see `benchmarks.inventory`; takes some minutes. The last line
is one JSON object; exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable

from benchmarks.inventory import inventory_figures
from components.lease import lease_objects
from lease.spec import LeaseSpec
from policies.facts import facts_of
from policies.judge import RULES, judge
from tests.components.specs import hostname, port, service, spec
from tests.policies.corpus import corpus_leases

Figures = dict[str, float]

BARS: Figures = {
    "policy_ms": 3.0,
    "corpus_audit_s": 30.0,
    "first_state_s": 30.0,
    "publish_s": 1.0,
    "inventory_mb": 300.0,
}
"""At most these."""


def _fourteen_objects() -> LeaseSpec:
    """Namespace, quota, defaults, policy, and three services with Service and hostname, one of them on a node port."""
    services = [service(name, ports=(port(80, global_=True),)) for name in ("web", "api", "docs")]
    services[0] = service("web", ports=(port(80, global_=True), port(53, index=1, global_=True)))
    made = spec(
        *services,
        form=2,
        hostnames=tuple(hostname(f"{each.name}.localhost", service=each.name) for each in services[:2]),
    )
    assert len(lease_objects(made)) == 14, len(lease_objects(made))
    return made


def _best(rounds: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest round."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def measure_policies(rounds: int) -> Figures:
    """All rules on a lease of 14 objects, and on all leases of the corpus with the making of their objects."""
    lease = _fourteen_objects()
    objects, facts, specs = lease_objects(lease), facts_of(lease), list(corpus_leases().values())
    one = _best(rounds, lambda: judge(objects, lease=facts))
    return {
        "policy_ms": round(one * 1000, 3),
        "rules": len(RULES),
        "corpus_leases": len(specs),
        "corpus_audit_s": round(_best(1, lambda: _audit_all(specs)), 3),
    }


def _audit_all(leases: Iterable[LeaseSpec]) -> None:
    for lease in leases:
        _audit(lease)


def _audit(lease: LeaseSpec) -> None:
    found = judge(lease_objects(lease), form=lease.form, lease=facts_of(lease))
    if found:
        raise AssertionError(f"a valid SDL breaks a rule: {found[0]}")


def main() -> int:
    """Print the figures; returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--no-inventory", action="store_true", help="without the control plane")
    options = parser.parse_args()
    result: Figures = measure_policies(options.rounds)
    if not options.no_inventory:
        result |= inventory_figures()
    met = all(result[name] <= bar for name, bar in BARS.items() if name in result)
    print(json.dumps({"benchmark": "cluster", **result, "bars": BARS, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
