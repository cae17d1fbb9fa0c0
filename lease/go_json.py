"""JSON as Go's `encoding/json` writes and reads it: first value only, its error texts, bad UTF-8 replaced, bounded
depth.

Python's C decoder reads the text. A text that it refuses is read again, slowly, to find the error that Go would report.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NoReturn

__all__ = [
    "GoSyntaxError",
    "Members",
    "Number",
    "Value",
    "escape_html",
    "first_value",
    "go_json",
    "kind_of",
    "values_in",
]

_ESCAPED = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})

EXACT_BYTES = 32 * 1024
"""The largest text whose syntax error is reported in Go's words; a larger one would take too long to read again."""


class GoSyntaxError(ValueError):
    """The text is not JSON; the message is Go's."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class Members(list[tuple[str, object]]):
    """An object: its members in order, repeated names included."""


Value = Members | list[object] | Number | str | bool | None


def _replace_bytes(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD for one bad byte, as Go replaces them; Python's own handler replaces a run of them at once."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("lessor-go-json", _replace_bytes)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
)
_BLANKS = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")


def first_value(body: bytes | str) -> Value:
    """The first JSON value of `body`; what follows it is ignored. Raises `GoSyntaxError`, never RecursionError."""
    text = body if isinstance(body, str) else body.decode("utf-8", errors="lessor-go-json")
    blanks = _BLANKS.match(text)
    value: Value
    try:
        value, _ = _DECODER.raw_decode(text, blanks.end() if blanks else 0)
    except RecursionError:
        raise GoSyntaxError("exceeded max depth") from None
    except ValueError:
        raise GoSyntaxError(_syntax_problem(text.encode("utf-8", errors="replace"))) from None
    return _without_surrogates(value) if "\\u" in text or _SURROGATE.search(text) else value


_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # possessive: an unfinished text is passed over once
_STRUCTURE = (b",", b"{", b"[")


def values_in(body: bytes, *, most: int) -> int:
    """How many values the JSON text holds, counted without reading it; never too few. Texts are searched for commas
    and brackets only when more than `most` values would be counted with them.
    """
    count = sum(map(body.count, _STRUCTURE)) + 1
    return count if count <= most else sum(map(_TEXT.sub(b"", body).count, _STRUCTURE)) + 1


def _without_surrogates(value: Any) -> Any:
    """The value with U+FFFD for each lone surrogate, as Go reads them; a lone surrogate cannot be encoded again. The
    decoder has bounded the depth.
    """
    if type(value) is str:
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, Members):
        return Members((_SURROGATE.sub("\ufffd", name), _without_surrogates(item)) for name, item in value)
    return [_without_surrogates(item) for item in value] if isinstance(value, list) else value


def kind_of(value: object) -> str:
    """Go's name for the kind of a JSON value in type errors."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Number):
        return "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, Members) else "array"


def go_json(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """JSON as Go's `encoding/json` writes it: compact unless `indent` is given, non-ASCII characters as they are."""
    separators = (",", ":") if indent is None else (",", ": ")
    return escape_html(json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys))


def escape_html(text: str) -> str:
    """The JSON `text` with `<`, `>`, `&`, U+2028 and U+2029 escaped, so that it may stand in HTML and JavaScript.

    In JSON these characters occur only inside strings.
    """
    return text.translate(_ESCAPED)


# What follows finds the first error the way Go's scanner does: byte by byte, a stack of open brackets.

_STRING_STOP = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_SHORT = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 0x27: "\\'", 0x5C: "\\\\"}


def _quoted(byte: int) -> str:
    if byte in _SHORT:
        return f"'{_SHORT[byte]}'"
    if byte < 0x20 or byte == 0x7F:
        return f"'\\x{byte:02x}'"
    return f"'\\u{byte:04x}'" if 0x80 <= byte <= 0xA0 or byte == 0xAD else f"'{chr(byte)}'"


class _Scanner:
    """One pass over a text that is known to be wrong."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def fail(self, context: str) -> NoReturn:
        if self.at >= len(self.text):
            raise GoSyntaxError("unexpected EOF")
        raise GoSyntaxError(f"invalid character {_quoted(self.text[self.at])} {context}")

    def peek(self) -> bytes:
        """The next byte that is not blank; b"" at the end."""
        while self.text[self.at : self.at + 1] in (b" ", b"\t", b"\n", b"\r") and self.at < len(self.text):
            self.at += 1
        return self.text[self.at : self.at + 1]

    def string(self) -> None:
        self.at += 1
        while True:
            if self.at > EXACT_BYTES:
                raise GoSyntaxError(f"invalid JSON somewhere after byte {EXACT_BYTES}")
            self.at = _STRING_STOP.match(self.text, self.at).end()  # type: ignore[union-attr]
            char = self.text[self.at : self.at + 1]
            if char == b'"':
                self.at += 1
                return
            if char != b"\\":
                self.fail("in string literal")
            self.at += 1
            self._escape()

    def _escape(self) -> None:
        char = self.text[self.at : self.at + 1]
        if not char or char not in b'bfnrt\\/"u':
            self.fail("in string escape code")
        self.at += 1
        for _ in range(4 if char == b"u" else 0):
            if self.text[self.at : self.at + 1] not in tuple(bytes([b]) for b in b"0123456789abcdefABCDEF"):
                self.fail("in \\u hexadecimal character escape")
            self.at += 1

    def _digits(self, context: str) -> None:
        end = _DIGITS.match(self.text, self.at).end()  # type: ignore[union-attr]
        if end == self.at:
            self.fail(context)
        self.at = end

    def number(self) -> None:
        if self.text[self.at : self.at + 1] == b"-":
            self.at += 1
        if self.text[self.at : self.at + 1] == b"0":
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.text[self.at : self.at + 1] == b".":
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.text[self.at : self.at + 1] in (b"e", b"E"):
            self.at += 1
            if self.text[self.at : self.at + 1] in (b"+", b"-"):
                self.at += 1
            self._digits("in exponent of numeric literal")

    def literal(self, word: bytes) -> None:
        for expected in word:
            if self.text[self.at : self.at + 1] != bytes([expected]):
                self.fail(f"in literal {word.decode()} (expecting {_quoted(expected)})")
            self.at += 1

    def scalar(self) -> None:
        char = self.peek()
        if char == b'"':
            self.string()
        elif char and char in b"-0123456789":
            self.number()
        elif char and char in b"tfn":
            self.literal({b"t": b"true", b"f": b"false", b"n": b"null"}[char])
        else:
            self.fail("looking for beginning of value")

    def key(self) -> None:
        if self.peek() != b'"':
            self.fail("looking for beginning of object key string")
        self.string()
        if self.peek() != b":":
            self.fail("after object key")
        self.at += 1


def _open(scanner: _Scanner, stack: list[bytes]) -> bool:
    """Step into the next bracket; True when the value that it begins is already complete (`{}`, `[]`)."""
    bracket = scanner.peek()
    scanner.at += 1
    if scanner.peek() == (b"}" if bracket == b"{" else b"]"):
        scanner.at += 1
        return True
    stack.append(bracket)
    if bracket == b"{":
        scanner.key()
    return False


def _close(scanner: _Scanner, stack: list[bytes]) -> None:
    """After a value: leave every bracket that ends here, then step over the comma."""
    if scanner.at > EXACT_BYTES:
        raise GoSyntaxError(f"invalid JSON somewhere after byte {EXACT_BYTES}")
    while stack:
        char = scanner.peek()
        inside = stack[-1] == b"{"
        if char == (b"}" if inside else b"]"):
            scanner.at += 1
            stack.pop()
            continue
        if char != b",":
            scanner.fail("after object key:value pair" if inside else "after array element")
        scanner.at += 1
        if inside:
            scanner.key()
        return


def _syntax_problem(text: bytes) -> str:
    scanner = _Scanner(text)
    if not scanner.peek():
        return "EOF"
    stack: list[bytes] = []
    try:
        while True:
            char = scanner.peek()
            if char and char in b"{[":
                if not _open(scanner, stack):
                    continue
            else:
                scanner.scalar()
            _close(scanner, stack)
            if not stack:
                return "invalid JSON"
    except GoSyntaxError as error:
        return str(error)
