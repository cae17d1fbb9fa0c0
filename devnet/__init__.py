"""A whole provider's world on one machine: tools, control plane, chain, tenant.

For development and tests; the provider does not know it exists.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # children are started by exec; gRPC would warn at each
