"""Leases in one stack for the stock command line: their specs and the kubeconfig are files that the environment names.

A lease's stack holds one lease. Here each is below a component of a type of its own, since the name of a resource of a
lease is unique within the lease only. The pack judges each lease alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pulumi
from pydantic import TypeAdapter

from components.resources.lease import LeaseComponent
from components.resources.manifest import ClusterProvider
from lease.spec import LeaseSpec

specs = TypeAdapter(list[LeaseSpec]).validate_json(Path(os.environ["CORPUS_SPECS"]).read_bytes())
cluster = ClusterProvider("cluster", kubeconfig=os.environ["CORPUS_KUBECONFIG"])
for number, spec in enumerate(specs):
    place = pulumi.ComponentResource(f"corpus:lease:Place{number}", spec.namespace)
    LeaseComponent(spec.namespace, spec, pulumi.ResourceOptions(provider=cluster, parent=place))
