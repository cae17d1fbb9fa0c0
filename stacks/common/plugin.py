"""The Kubernetes plugin that is installed for Pulumi."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from stacks.common.errors import EngineError

__all__ = ["installed_plugin"]


def installed_plugin(home: Path) -> Path:
    """The plugin's executable where `pulumi plugin install` puts it in `home`, a PULUMI_HOME.

    The SDK takes the plugin of its own version only, and the engine lets Pulumi download none. Raises `EngineError`
    with the remedy when that plugin is not there.
    """
    wanted = version("pulumi-kubernetes")
    path = home / "plugins" / f"resource-kubernetes-v{wanted}" / "pulumi-resource-kubernetes"
    if not path.is_file():
        raise EngineError(
            f"Pulumi's Kubernetes plugin {wanted} is not in {home / 'plugins'}, so that no lease could be served: run "
            f"`make tools` in the checkout, or `PULUMI_HOME={home} pulumi plugin install resource kubernetes {wanted}`"
        )
    return path
