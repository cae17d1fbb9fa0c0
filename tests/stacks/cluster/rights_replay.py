"""Rights that roles give and rights that an API server's audit log shows in use, and what differs between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["AUDIT_POLICY", "Right", "granted_to", "missing", "refused", "rules_of", "unused", "used_by"]

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:akash-services"]},
        {"level": "None"},
    ],
}
"""Logs what the accounts of the stack ask."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """`namespace` empty: in the whole cluster, or an object without one. `name` empty: every object, or none named."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def covers(self, other: Right) -> bool:
        """Whether whoever has this right may do what `other` is."""
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.namespace in ("", other.namespace)
            and self.name in ("", other.name)
        )


def rules_of(role: Mapping[str, Any], namespace: str = "") -> Iterator[Right]:
    for rule in role.get("rules") or ():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(group, resource, verb, namespace, name)


def granted_to(account: str, objects: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The rights of a service account by the roles and bindings among the objects."""
    found = list(objects)
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
        for one in found
        if one["kind"] in ("Role", "ClusterRole")
    }
    rights: set[Right] = set()
    for binding in found:
        subjects = binding.get("subjects") or () if binding["kind"].endswith("RoleBinding") else ()
        if account in {subject["name"] for subject in subjects if subject["kind"] == "ServiceAccount"}:
            space = binding["metadata"].get("namespace", "")
            kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
            rights |= set(rules_of(roles[kind, space if kind == "Role" else "", name], space))
    return rights


def _entries(log: Path, account: str, namespace: str) -> Iterator[Mapping[str, Any]]:
    user = f"system:serviceaccount:{namespace}:{account}"
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["user"]["username"] == user and entry.get("objectRef"):
            yield entry


def used_by(account: str, log: Path, *, namespace: str = "akash-services") -> set[Right]:
    """What the account asked for. An apply that made its object needs `create` as well."""
    found: set[Right] = set()
    for entry in _entries(log, account, namespace):
        right = _right(entry)
        found.add(right)
        if right.verb == "patch" and entry.get("responseStatus", {}).get("code") == 201:
            found.add(Right(right.group, right.resource, "create", right.namespace, right.name))
    return found


def refused(account: str, log: Path, *, namespace: str = "akash-services") -> set[Right]:
    """What the account asked for and no role gives."""
    return {
        _right(entry)
        for entry in _entries(log, account, namespace)
        if (entry.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
    }


def _right(entry: Mapping[str, Any]) -> Right:
    what = entry["objectRef"]
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    space = what.get("namespace", "") if what["resource"] != "namespaces" else ""
    return Right(what.get("apiGroup", ""), resource, entry["verb"], space, what.get("name", ""))


def missing(granted: Iterable[Right], used: Iterable[Right]) -> set[Right]:
    """What was asked for, and no right covers."""
    rights = list(granted)
    return {one for one in used if not any(right.covers(one) for right in rights)}


def unused(granted: Iterable[Right], used: Iterable[Right]) -> set[Right]:
    """The rights that cover nothing that was asked for."""
    asked = list(used)
    return {right for right in granted if not any(right.covers(one) for one in asked)}
