"""The node's errors, each with a codespace, a code and a log (chain.md §10, §15).

A module that wraps its error in a text of another kind loses code and codespace: the node then reports `undefined` 1
(recorded correction 1). Panics are `undefined` 111222 (correction 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc

__all__ = ["PANIC", "Kind", "QueryPanicked", "QueryRefused", "Refused", "panicked", "undefined"]


class Refused(Exception):
    """The node refused a transaction or message, with its `codespace`, `code` and `log`."""

    def __init__(self, codespace: str, code: int, log: str) -> None:
        super().__init__(f"{codespace} {code}: {log}")
        self.codespace = codespace
        self.code = code
        self.log = log
        self.located = True
        """Whether the error of a simulation names the place in the source; not for errors before the ante chain."""

    def in_message(self, index: int) -> Refused:
        """This error as the node reports it for the message at `index` of a transaction; a panic stays unchanged."""
        if self.code == PANIC:
            return self
        return Refused(self.codespace, self.code, f"failed to execute message; message index: {index}: {self.log}")


PANIC = 111222


@dataclass(frozen=True, slots=True)
class Kind:
    """A registered error of a module. A call makes the `Refused`, with a detail before the registered text."""

    codespace: str
    code: int
    text: str
    status: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __call__(self, detail: str = "") -> Refused:
        return Refused(self.codespace, self.code, f"{detail}: {self.text}" if detail else self.text)

    def in_query(self) -> QueryRefused:
        """This error as the answer to a query. Only gRPC shows codes of modules (correction 5)."""
        return QueryRefused(self.status, self.text, module=f"codespace {self.codespace} code {self.code}: ")


def undefined(log: str) -> Refused:
    """An error without a registered code."""
    return Refused("undefined", 1, log)


def panicked(text: str) -> Refused:
    """A recovered panic, without the stack that a real node adds."""
    return Refused("undefined", PANIC, f"recovered: {text}\nstack:\n<removed>")


_ABCI = {
    grpc.StatusCode.NOT_FOUND: (22, "key not found"),
    grpc.StatusCode.INVALID_ARGUMENT: (18, "invalid request"),
}
_NAMES = {
    grpc.StatusCode.NOT_FOUND: "NotFound",
    grpc.StatusCode.INVALID_ARGUMENT: "InvalidArgument",
    grpc.StatusCode.INTERNAL: "Internal",
    grpc.StatusCode.UNKNOWN: "Unknown",
    grpc.StatusCode.UNIMPLEMENTED: "Unimplemented",
}


@dataclass(eq=False)
class QueryRefused(Exception):
    """A query answered with an error. `module` is the prefix of errors that come from a module rather than from gRPC.

    `plain` errors are those the node never turned into a gRPC status (a request that does not decode).
    """

    status: grpc.StatusCode
    text: str
    module: str = ""
    plain: bool = field(default=False)

    def abci(self) -> tuple[int, str]:
        """(code, log) as `abci_query` reports it. The codespace is always `sdk` (correction 5)."""
        code, suffix = _ABCI.get(self.status, (6, "unknown request"))
        bare = self.module or self.plain
        text = self.text if bare else f"rpc error: code = {_NAMES[self.status]} desc = {self.text}"
        return code, f"{text}: {suffix}"

    def grpc(self) -> tuple[grpc.StatusCode, str]:
        """(status, details) as the gRPC port reports it; a plain error has no own status there."""
        return (grpc.StatusCode.UNKNOWN if self.plain else self.status), self.module + self.text


class QueryPanicked(QueryRefused):
    """A recovered panic: over `abci_query` without a height and outside the codespace `sdk` (correction 14)."""

    def __init__(self, text: str) -> None:
        super().__init__(grpc.StatusCode.INTERNAL, text)

    def abci(self) -> tuple[int, str]:
        return PANIC, f"{self.text}: panic"
