"""The Kubernetes API by plain manifests: the real `Cluster` (docs/architecture.md §3).

`stacks.kube` reads the kubeconfig and does TLS and authentication; requests are built here, because objects are
dictionaries everywhere in this project and typed models would only cost memory. Every request has a time limit; a watch
lives for ever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import quote

import structlog

from provider.errors import ClusterError, Conflict
from provider.kube.bodies import encoded, json_lines, refusal
from provider.kube.field_owners import taken_fields
from provider.kube.pods import KubePods
from provider.kube.resending import answered
from provider.kube.server import ApiServer, Fence, Request
from provider.metrics import KUBE_CALLS
from provider.protocols.cluster import Kind, WatchEvent, kind_of
from provider.waits import GrowingPause

__all__ = ["FIELD_MANAGER", "KubeCluster"]

FIELD_MANAGER = "lessor"
_PAGE = 500
_APPLY = {"Content-Type": "application/apply-patch+yaml"}
_MERGE = {"Content-Type": "application/merge-patch+json"}
_PAUSE = GrowingPause(first=0.2, longest=10.0)
_PROXIED_BYTES = 8 << 20
"""Of an answer of a pod, which is a tenant's, or of a node that was broken into."""
_SHORTEST_WATCH_S = 1.0
"""A watch that ends sooner, without an event, is no watch: the server or a proxy before it ends every request."""
_log = structlog.get_logger(__name__)
_Objects: TypeAlias = list[dict[str, Any]]


@dataclass(slots=True)
class _Seen:
    """What a watch has reported to its reader, so that a new list can report what was deleted meanwhile."""

    version: str = ""
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, event: WatchEvent) -> WatchEvent:
        key = _uid(event.object)
        if event.type == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = _trace(event.object)
        return event

    def relisted(self, objects: list[dict[str, Any]]) -> list[WatchEvent]:
        """DELETED for each object that is gone, then ADDED for each that exists."""
        there = {_uid(obj) for obj in objects}
        gone = [WatchEvent("DELETED", obj) for key, obj in self.objects.items() if key not in there]
        return [self.note(event) for event in [*gone, *(WatchEvent("ADDED", obj) for obj in objects)]]


class KubeCluster:
    """One API server, found by kubeconfig (None: inside a pod its account, else $KUBECONFIG, else the user's own file).

    `timeout_seconds` bounds every request; `watch_seconds` is how long one watch request lives before it is renewed,
    and with a little slack also how long a half-open connection can go unnoticed.
    """

    def __init__(
        self, kubeconfig: Path | None = None, *, timeout_seconds: float = 15.0, watch_seconds: int = 60,
        fence: Fence = None,
    ) -> None:  # fmt: skip
        self._server = ApiServer(kubeconfig, timeout_seconds=timeout_seconds, fence=fence)
        self._timeout = timeout_seconds
        self._watch_seconds = watch_seconds

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def pods(self) -> KubePods:
        """Logs of pods and commands in them."""
        return KubePods(self._server)

    @property
    def certificate_s(self) -> float | None:
        """Seconds until the client's certificate in the kubeconfig ends; None without one."""
        return self._server.certificate_s()

    async def aclose(self) -> None:
        await self._server.aclose()

    async def version(self) -> dict[str, Any]:
        """The API server's `/version` document."""
        return await self._call("discovery-serverversion", "GET", "/version")

    async def through(self, kind: Kind, name: str, path: str, *, namespace: str, port: int | str) -> dict[str, Any]:
        """The JSON object that a pod or Service answers to GET `path`, through the API server's proxy."""
        proxied = f"{_path(kind, namespace, f'{name}:{port}')}/proxy/{path.lstrip('/')}"
        return await self._call(f"{kind.plural}-proxy", "GET", proxied, most=_PROXIED_BYTES)

    async def allows(self, verb: str, group: str, resource: str) -> bool:
        """Whether the own account may do this in every namespace."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
        }
        path = f"/apis/{body['apiVersion']}/selfsubjectaccessreviews"
        answer = await self._call("selfsubjectaccessreviews-create", "POST", path, body=body)
        return (answer.get("status") or {}).get("allowed") is True

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        """The object, or None when the API server answers 404."""
        found = await self._whole(kind, name, namespace)
        return None if found is None else _slim(found)

    async def _whole(self, kind: Kind, name: str, namespace: str | None) -> dict[str, Any] | None:
        try:
            return await self._call(f"{kind.plural}-get", "GET", _path(kind, namespace, name))
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[dict[str, Any]]:
        """Every object, in pages of 500; `labels` must all be equal, one of None must be absent."""
        return [obj async for page, _ in self._pages(kind, namespace, labels) for obj in page]

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply, taking over fields; `metadata.resourceVersion` is a precondition (`Conflict`)."""
        meta = obj["metadata"]
        kind = kind_of(obj)
        path = _path(kind, meta.get("namespace"), meta["name"]) + ("/status" if status else "")
        params = {"fieldManager": FIELD_MANAGER, "force": "true"} | ({"dryRun": "All"} if dry_run else {})
        return _slim(await self._call(f"{kind.plural}-apply", "PATCH", path, params=params, body=obj, headers=_APPLY))

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        """JSON merge patch; `metadata.resourceVersion` in `changes` is a precondition (`Conflict`)."""
        path, params = _path(kind, namespace, name), {"fieldManager": FIELD_MANAGER}
        stored = await self._call(f"{kind.plural}-patch", "PATCH", path, params=params, body=changes, headers=_MERGE)
        return _slim(stored)

    async def take_fields(self, kind: Kind, name: str, *, label: str, namespace: str | None = None) -> bool:
        meta = (await self._whole(kind, name, namespace) or {}).get("metadata") or {}
        if (taken := taken_fields(meta.get("managedFields") or [], manager=FIELD_MANAGER, label=label)) is None:
            return False
        changes = {"resourceVersion": meta["resourceVersion"], "managedFields": taken}
        await self.patch(kind, name, {"metadata": changes}, namespace=namespace)
        return True

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        """Ask for deletion (background); True means accepted, not gone."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if resource_version is not None:
            body["preconditions"] = {"resourceVersion": resource_version}
        try:
            await self._call(f"{kind.plural}-delete", "DELETE", _path(kind, namespace, name), body=body)
        except ClusterError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        """Each object that exists, then every change. An expired version lists again; a lost connection resumes.
        `known` and `current`: see `protocols.Cluster`.
        """
        seen = _Seen(objects={_uid(obj): _trace(obj) for obj in known})
        now = asyncio.get_running_loop().time
        failures = 0
        while True:
            try:
                if not seen.version:
                    async for event in self._relist(kind, namespace, labels, seen):
                        yield event
                began, events = now(), 0
                async for event in self._stream(kind, namespace, labels, seen, current=current):
                    failures, events = 0, events + 1
                    yield seen.note(event)
                if not events and now() - began < _SHORTEST_WATCH_S:
                    raise ClusterError(self.address, "the watch was ended at once, without an event")
                failures = 0
            except ClusterError as error:
                current(False)
                KUBE_CALLS.labels(f"{kind.plural}-watch", "fail").inc()
                if error.status:
                    seen.version = ""
                failures += 1
                pause = _PAUSE.after(failures)
                _log.warning("kube.watch_interrupted", kind=kind.plural, problem=str(error), next_try_s=pause)
                await asyncio.sleep(pause)

    async def _relist(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None] | None, seen: _Seen
    ) -> AsyncIterator[WatchEvent]:
        """The events of a new list, whose version is then the one seen. Without objects that may be gone each page is
        reported as it arrives, so that the objects of a large cluster are never in memory together.
        """
        known, latest = bool(seen.objects), ""
        objects: _Objects = []
        async for page, version in self._pages(kind, namespace, labels):
            latest = version
            if known:
                objects += page
                continue
            for obj in page:
                yield seen.note(WatchEvent("ADDED", obj))
        for event in seen.relisted(objects) if known else ():
            yield event
        seen.version = latest

    async def _pages(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None] | None
    ) -> AsyncIterator[tuple[_Objects, str]]:
        """The objects in pages, each with the version of the list."""
        params = {"limit": str(_PAGE), **_selector(labels)}
        type_meta = {"apiVersion": kind.api_version, "kind": kind.kind}
        while True:
            page = await self._call(f"{kind.plural}-list", "GET", _path(kind, namespace), params=params)
            meta = page.get("metadata") or {}
            objects = [_slim({**type_meta, **item}) for item in page.get("items") or () if _is_object(item)]
            yield objects, meta.get("resourceVersion", "")
            if not meta.get("continue"):
                return
            params["continue"] = meta["continue"]

    async def _stream(
        self,
        kind: Kind,
        namespace: str | None,
        labels: Mapping[str, str | None] | None,
        seen: _Seen,
        *,
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": seen.version,
            "timeoutSeconds": str(self._watch_seconds),
            **_selector(labels),
        }
        silent_s = self._watch_seconds + self._timeout
        request = Request("GET", _path(kind, namespace), params, silent_s=silent_s)
        try:
            async with self._server.request(request) as response:
                if response.status >= 400:
                    raise self._refused(response.status, await response.read())
                current(True)
                KUBE_CALLS.labels(f"{kind.plural}-watch", "success").inc()
                async for line in json_lines(response.content.iter_any()):
                    event = self._event(line)
                    seen.version = event.object.get("metadata", {}).get("resourceVersion", "")
                    if event.type != "BOOKMARK":
                        yield event
        except TimeoutError as error:
            raise ClusterError(self.address, f"GET {request.path}: no answer in time: {error}") from error

    def _event(self, line: bytes) -> WatchEvent:
        document = self._decoded(line)
        obj = document.get("object")
        if not _is_object(obj) or document.get("type") == "ERROR":
            said = obj if isinstance(obj, dict) else {}
            raise self._error(said.get("code") or 500, said.get("message") or "unreadable watch event")
        return WatchEvent(str(document.get("type")), _slim(obj))

    async def _call(
        self,
        action: str,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        most: int | None = None,
    ) -> dict[str, Any]:
        """The answer, of at most `most` bytes. The request is counted as `action`; that an object does not exist is no
        failure.
        """
        try:
            answer = await self._answer(method, path, params=params, body=body, headers=headers, most=most)
        except ClusterError as error:
            KUBE_CALLS.labels(action, "success" if error.status == 404 else "fail").inc()
            raise
        KUBE_CALLS.labels(action, "success").inc()
        return answer

    async def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        most: int | None,
    ) -> dict[str, Any]:
        content = None if body is None else encoded(body)
        sent = {"Content-Type": "application/json", **(headers or {})} if content else {}
        request = Request(method, path, params or {}, content, sent, most_bytes=most)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                status, answer = await answered(self._server, request, until=limit.when() or 0.0)
        except TimeoutError as error:
            raise ClusterError(self.address, f"{method} {path}: no answer in {self._timeout:g} s") from error
        if status >= 400:
            raise self._refused(status, answer)
        return self._decoded(answer)

    def _decoded(self, text: str | bytes) -> dict[str, Any]:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error(502, f"answered what is not JSON: {text[:80]!r}") from error
        if not isinstance(document, dict):
            raise self._error(502, f"answered {type(document).__name__} instead of an object")
        return document

    def _refused(self, status: int, content: bytes) -> ClusterError:
        return self._error(status, refusal(content))

    def _error(self, status: int, message: str) -> ClusterError:
        return (Conflict if status == 409 else ClusterError)(self.address, f"{message} (HTTP {status})", status=status)


def _path(kind: Kind, namespace: str | None, name: str = "") -> str:
    """A relative path: a server address with a path of its own (behind a proxy) keeps that path."""
    base = f"{'apis' if '/' in kind.api_version else 'api'}/{kind.api_version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{base}{place}/{kind.plural}" + (f"/{quote(name, safe='')}" if name else "")


def _selector(labels: Mapping[str, str | None] | None) -> dict[str, str]:
    terms = (f"!{key}" if value is None else f"{key}={value}" for key, value in (labels or {}).items())
    return {"labelSelector": ",".join(terms)} if labels else {}


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether this is an object with metadata: every caller reads its name."""
    return isinstance(value, dict) and isinstance(value.get("metadata", {}), dict)


def _slim(obj: dict[str, Any]) -> dict[str, Any]:
    """`obj` without managedFields, which are half of its bytes and are not used."""
    if isinstance(meta := obj.get("metadata"), dict):
        meta.pop("managedFields", None)
    return obj


def _trace(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata") if key in obj}


def _uid(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata") or {}
    return str(meta.get("uid") or f"{meta.get('namespace', '')}/{meta.get('name', '')}")
