"""The lease whose life is cut: two versions of it, and names that are the same in every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lease.addresses import pool_name
from lease.spec import LeaseSpec
from tests.components.specs import hostname
from tests.stacks.leases import demo

__all__ = ["OldAndNew", "old_and_new"]


@dataclass(frozen=True)
class OldAndNew:
    """`new` has another image, and a hostname in place of the old one: it changes, makes and removes objects."""

    old: LeaseSpec
    new: LeaseSpec

    @property
    def namespace(self) -> str:
        return self.old.namespace

    @property
    def pool(self) -> str:
        return pool_name(self.old.leased_ips[0].sharing_key)

    def short(self, name: str) -> str:
        """A resource's name with what differs from lease to lease left out."""
        for text, word in self._words().items():
            name = name.replace(text, word)
        return name

    def _words(self) -> Mapping[str, str]:
        old, new = self.old.hostnames[0].hostname, self.new.hostnames[0].hostname
        key = self.old.leased_ips[0].sharing_key
        return {new: "new.host", old: "old.host", key: "address", self.pool: "pool", self.namespace: "lease"}


def old_and_new() -> OldAndNew:
    """Of a lease nobody had before."""
    old = demo("nginx:1")
    web, *others = old.services
    moved = hostname(f"moved-{old.hostnames[0].hostname}")
    services = (web.model_copy(update={"image": "nginx:2", "resource_version": "43"}), *others)
    return OldAndNew(old, old.model_copy(update={"services": services, "hostnames": (moved,)}))
