"""The trouble of a pod that does not run, in one line, from its conditions and container states (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["PodTrouble", "Trouble", "first", "pod_trouble", "shortened"]

_LONGEST = 240
_BEGINNING = 100
_REVISION = "controller-revision-hash"


class Trouble(StrEnum):
    UNSCHEDULABLE = "unschedulable"
    NODE = "node lost"
    EVICTED = "evicted"
    REJECTED = "ended by its node"
    TERMINATING = "terminating"
    CREATING = "being created"
    IMAGE = "image cannot be pulled"
    CONFIG = "cannot be started"
    MEMORY = "out of memory"
    CRASH = "crash loop"
    EXIT = "ended"
    NOT_READY = "not ready"


_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_LOST = frozenset({"Unknown", "ContainerStatusUnknown"})
"""How containerd and the kubelet call the end of a container that neither of them has seen."""
_OF_THE_TENANT = frozenset({Trouble.CONFIG, Trouble.MEMORY, Trouble.CRASH, Trouble.EXIT, Trouble.NOT_READY})
_BROKEN = frozenset({Trouble.IMAGE, Trouble.CONFIG, Trouble.MEMORY, Trouble.CRASH, Trouble.EXIT})
_OVER = frozenset({Trouble.EVICTED, Trouble.REJECTED})
_OF_A_NODE = (
    *("no space left on device", "read-only file system", "input/output error", "code = unavailable"),
    *("nvidia-container", "cgroup", "error mounting"),
)
_OF_A_NETWORK = ("timeout", "timed out", "no such host", "connection refused", "connection reset", "unreachable")
_OF_AN_IMAGE = (
    *("not found", "manifest unknown", "name unknown", "does not exist", "no match for platform"),
    *("denied", "unauthorized", "forbidden", "authorization failed", "authentication required", "no basic auth"),
    *("invalidimagename", "invalid reference", "invalid image name", "couldn't parse image"),
)
"""What a registry answers when the image's name, its access or its platforms are wrong."""
_OF_A_COMMAND = (
    *("executable file not found", "no such file or directory", "permission denied", "exec format error"),
    *("is a directory", "not a directory", "no command specified", "argument list too long", "chdir to cwd"),
    *("no such user", "unable to find user", "unable to find group", "no users found", "runasnonroot", "non-root"),
)
"""What a runtime says when the command, the user or the working directory of the image is wrong."""
_CLAIMS = "unbound immediate persistentvolumeclaims"
_BACK_OFF = 'back-off pulling image "'


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """`text` is one line and names the pod; it may quote the image's name and the registry's answer. `revision`: which
    of its StatefulSet's templates the pod was made from, empty for other pods. `uid` tells the pod from those that had
    its name before. `node`: where it was placed, empty before that.
    """

    pod: str
    kind: Trouble
    text: str
    revision: str = ""
    uid: str = ""
    node: str = ""

    @property
    def over(self) -> bool:
        """Whether the pod has ended for good. Its controller makes another one, and this one may stay beside it."""
        return self.kind in _OVER

    @property
    def broken(self) -> bool:
        """Whether its container does not run at all, so that deleting the pod loses nothing."""
        return self.kind in _BROKEN

    @property
    def of_the_tenant(self) -> bool:
        """Whether the application alone is the cause: no node, no capacity and no network of the provider. An unknown
        cause of an image or a start is the provider's (a registry's limit for the provider's address, a driver).
        """
        if self.kind not in (Trouble.IMAGE, Trouble.CONFIG):
            return self.kind in _OF_THE_TENANT
        text, known = self.text.lower(), _OF_AN_IMAGE if self.kind is Trouble.IMAGE else _OF_A_COMMAND
        return any(part in text for part in known) and not any(part in text for part in (*_OF_A_NODE, *_OF_A_NETWORK))

    @property
    def unexplained(self) -> bool:
        """Whether an event may say more: a pod that is being created or waits for its volume, and, with a kubelet
        before 1.33, the pause between two pulls of an image.
        """
        text = self.text.lower()
        return self.waits or (_BACK_OFF in text and text.endswith('"'))

    @property
    def waits(self) -> bool:
        """Whether only an event, which no watch follows, says what the pod waits for."""
        return self.kind is Trouble.CREATING or (self.kind is Trouble.UNSCHEDULABLE and _CLAIMS in self.text.lower())


def pod_trouble(pod: Mapping[str, Any]) -> PodTrouble | None:
    """What keeps this pod from being ready; None for a pod that is ready or has ended well."""
    name, status = str(pod["metadata"]["name"]), pod.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True" and not pod["metadata"].get("deletionTimestamp"):
        return None
    found = _of_pod(pod, status, conditions) or _of_containers(status)
    if found is None:
        return None
    kind, detail = found
    text = " ".join(f"pod {name} {kind}{': ' if detail else ''}{detail}".split())
    revision = str((pod["metadata"].get("labels") or {}).get(_REVISION, ""))
    uid, node = str(pod["metadata"].get("uid", "")), str((pod.get("spec") or {}).get("nodeName") or "")
    return PodTrouble(name, kind, shortened(text), revision, uid=uid, node=node)


def shortened(text: str, *, longest: int = _LONGEST, beginning: int = _BEGINNING) -> str:
    """The text, without its middle when it is too long: kubelet and runtime put the cause last, behind all who pass
    it on.
    """
    if len(text) <= longest:
        return text
    return f"{text[:beginning]} ... {text[beginning + 5 - longest :]}"


def _of_pod(
    pod: Mapping[str, Any], status: Mapping[str, Any], conditions: Mapping[Any, Mapping[str, Any]]
) -> tuple[Trouble, str] | None:
    if pod["metadata"].get("deletionTimestamp"):
        return Trouble.TERMINATING, ""
    if status.get("reason") == "NodeLost" or status.get("phase") == "Unknown":
        return Trouble.NODE, str(status.get("message", ""))
    if _is_on_a_silent_node(pod, conditions):
        return Trouble.NODE, f"node {pod['spec'].get('nodeName', '')} does not report"
    if status.get("reason") == "Evicted":
        return Trouble.EVICTED, str(status.get("message", ""))
    if status.get("phase") == "Failed":
        return Trouble.REJECTED, ": ".join(filter(None, (str(status.get(key) or "") for key in ("reason", "message"))))
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return Trouble.UNSCHEDULABLE, _of_scheduler(str(scheduled.get("message", "")))
    return None


def _is_on_a_silent_node(pod: Mapping[str, Any], conditions: Mapping[Any, Mapping[str, Any]]) -> bool:
    """Whether the node controller alone calls the pod not ready: the kubelet's own last report says that it is."""
    if "spec" not in pod or pod["spec"].get("readinessGates"):
        return False
    states = [conditions.get(name, {}).get("status") for name in ("ContainersReady", "Ready")]
    return states == ["True", "False"]


def _of_scheduler(message: str) -> str:
    """The scheduler's message without its part about preemption: no lease may evict another."""
    return message.partition(" preemption:")[0].strip()


def _of_containers(status: Mapping[str, Any]) -> tuple[Trouble, str] | None:
    states = list(status.get("containerStatuses") or ())
    found = next(filter(None, map(_of_container, states)), None)
    if found is not None:
        return found
    if status.get("phase") == "Succeeded":
        return None
    return (Trouble.NOT_READY, "") if status.get("phase") == "Running" else (Trouble.CREATING, "")


def _of_container(container: Mapping[str, Any]) -> tuple[Trouble, str] | None:
    state, last = container.get("state") or {}, (container.get("lastState") or {}).get("terminated") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    restarts = int(container.get("restartCount") or 0)
    if reason in _IMAGE:
        return Trouble.IMAGE, ": ".join(filter(None, (reason, message)))
    if reason in _CONFIG:
        return Trouble.CONFIG, ": ".join(filter(None, (reason, message)))
    if reason == "CrashLoopBackOff":
        return _of_end(last, Trouble.CRASH, restarts)
    if ended.get("reason") in _LOST:
        return Trouble.NODE, "its container was lost when the node or its runtime stopped"
    if not ended or not ended.get("exitCode"):
        return None
    # between an end and the pause before the next start a crash loop is one all the same
    return _of_end(ended, Trouble.CRASH if restarts else Trouble.EXIT, restarts)


def _of_end(ended: Mapping[str, Any], otherwise: Trouble, restarts: int) -> tuple[Trouble, str]:
    if ended.get("reason") == "StartError":  # its program is not there, or may not be run
        return Trouble.CONFIG, str(ended.get("message", ""))
    if ended.get("reason") == "OOMKilled":
        return Trouble.MEMORY, f"restarted {restarts} times"
    return otherwise, f"exit code {ended.get('exitCode', 'unknown')}, restarted {restarts} times"


def first(troubles: Iterable[PodTrouble], *, most: int = 3) -> str:
    """The first `most` of several troubles in one line."""
    listed = list(troubles)
    more = f"; {len(listed) - most} more pods likewise" if len(listed) > most else ""
    return "; ".join(trouble.text for trouble in listed[:most]) + more
