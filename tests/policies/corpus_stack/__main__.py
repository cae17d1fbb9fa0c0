"""One lease's stack for the stock command line: the spec and the kubeconfig are files that the environment names."""

from __future__ import annotations

import os
from pathlib import Path

import pulumi

from components.resources.lease import LeaseComponent
from components.resources.manifest import ClusterProvider
from lease.spec import LeaseSpec

spec = LeaseSpec.model_validate_json(Path(os.environ["CORPUS_SPEC"]).read_bytes())
cluster = ClusterProvider("cluster", kubeconfig=os.environ["CORPUS_KUBECONFIG"])
LeaseComponent(spec.namespace, spec, pulumi.ResourceOptions(provider=cluster))
