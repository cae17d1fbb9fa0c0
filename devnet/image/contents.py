"""What the image holds and how it starts: the facts that `Containerfile` and this package share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = [
    "COMMAND",
    "ENTRYPOINT",
    "ENVIRONMENT",
    "LABELS",
    "PACKAGES",
    "PREFIX",
    "PROGRAMS",
    "PULUMI_HOME",
    "SITE_PACKAGES",
    "UNNEEDED",
    "USER",
    "VOLUME",
]

PACKAGES: Sequence[str] = ("ca-certificates", "libstdc++6", "python3")
"""Debian packages, with what they depend on. Nothing that compiles, downloads or installs is among them."""
UNNEEDED: Sequence[str] = ("debconf", "dpkg", "openssl", "readline-common", "tar")
"""Dependencies that only the installation of packages needs."""
PREFIX = "/opt/lessor"
"""The virtual environment: the wheel of Lessor and the locked packages that it needs to run."""
SITE_PACKAGES = f"{PREFIX}/lib/python3.11/site-packages"
PULUMI_HOME = "/opt/pulumi"
PROGRAMS: Sequence[str] = ("lessor-engine", "pulumi", "pulumi-language-python")
"""In /usr/local/bin."""
USER = 10001
VOLUME = "/var/lib/lessor"
"""The user's home folder, where the cluster stack mounts a claim."""
ENTRYPOINT: Sequence[str] = ("lessor",)
COMMAND: Sequence[str] = ("run",)
ENVIRONMENT: Mapping[str, str] = {
    "PATH": f"{PREFIX}/bin:/usr/local/bin:/usr/bin:/bin",
    "PULUMI_HOME": PULUMI_HOME,
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "LESSOR_PYTHON": f"{PREFIX}/bin/python",
}
LABELS: Mapping[str, str] = {
    "org.opencontainers.image.title": "lessor",
    "org.opencontainers.image.licenses": "Apache-2.0",
}
