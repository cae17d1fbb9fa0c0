"""The program behind the top-level `Pulumi.yaml`, run by `pulumi preview|up|destroy`."""

from __future__ import annotations

import pulumi

from stacks.cluster.program import cluster
from stacks.cluster.settings import ConfigError, read_settings
from stacks.common.tracebacks import plain_traceback

try:
    cluster(read_settings())
except ConfigError as error:
    # a RunError is shown as its text, without a traceback
    raise pulumi.RunError(str(error)) from None
except Exception as error:
    raise pulumi.RunError(plain_traceback(error)) from None
