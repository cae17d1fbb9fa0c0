"""Bodies of the API server's requests and responses: JSON that is read line by line, in whole, or as a refusal."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

__all__ = ["encoded", "json_lines", "limited", "refusal"]

_BARE_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def encoded(body: Mapping[str, Any]) -> bytes:
    """JSON that is also YAML, as an apply is read: no pairs of surrogates, no bare control characters."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return _BARE_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


async def json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream, which end with a line feed, and what follows the last one, without empty lines. JSON may
    hold every other character that Unicode calls an end of line, such as U+0085, as it is.
    """
    begun: list[bytes] = []
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for other in others:
            if line := b"".join(begun):
                yield line
            begun = [other]
    if line := b"".join(begun):
        yield line


async def limited(chunks: AsyncIterator[bytes], most: int) -> bytes:
    """The whole body. Raises ValueError for more than `most` bytes, and reads no further."""
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) > most:
            raise ValueError(f"answered more than {most} bytes")
    return bytes(found)


def refusal(content: bytes) -> str:
    """The reason in the body of a refused request."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return content[:200].decode(errors="replace") or "no reason given"
