"""The settings of NVIDIA's container toolkit on a node, as far as they decide who chooses a container's cards.

The toolkit's runtime reads the environment of every container that it starts. By default it gives an unprivileged
container the cards that `NVIDIA_VISIBLE_DEVICES` names, whatever the pod rents, and an image can set that variable.
Lessor sets or leaves out the variable (lease.gpu_variables); with these settings the runtime does not read it at all.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TOOLKIT_FILE", "toolkit_problems"]

TOOLKIT_FILE = Path("/etc/nvidia-container-runtime/config.toml")
_WANTED = {
    "accept-nvidia-visible-devices-envvar-when-unprivileged": False,
    "accept-nvidia-visible-devices-as-volume-mounts": True,
}
"""The first one is true where it is not set, the second false (the toolkit's own defaults)."""
_DEFAULTS = {name: not value for name, value in _WANTED.items()}


def toolkit_problems(path: Path = TOOLKIT_FILE) -> tuple[str, ...]:
    """What an operator should change in the toolkit's file, one line each; none where there is no file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        return (f"{path} cannot be read ({type(error).__name__}): whether containers choose their cards is not known",)
    return tuple(_problems(document, path))


def _problems(document: dict[str, object], path: Path) -> Iterator[str]:
    for name, wanted in _WANTED.items():
        found = document.get(name, _DEFAULTS[name])
        if found is not wanted:
            said = "is not set" if name not in document else f"is {json.dumps(found, default=str)}"
            yield (
                f"{path}: {name} {said}, so that a container can choose cards of its node: set it to "
                f"{str(wanted).lower()}, and DEVICE_LIST_STRATEGY=volume-mounts for the device plugin"
            )
