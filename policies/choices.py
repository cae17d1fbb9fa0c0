"""The operator's file: levels, lists and exemptions (docs/policies.md). Every key is known, or the file is refused."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from policies.errors import PolicyFileError
from policies.rules import Level

__all__ = ["Exemption", "PolicyChoices", "nearest", "read_choices"]

_MAX_BYTES = 1 << 20
Pattern = Annotated[str, Field(min_length=1, max_length=500)]


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


def _range(text: str) -> str:
    first, dash, last = text.partition("-")
    try:
        ends = [ipaddress.ip_address(each.strip()) for each in (first, last)] if dash else []
        if not dash:
            ipaddress.ip_network(text)
        elif ends[0].version != ends[1].version or int(ends[0]) > int(ends[1]):
            raise ValueError(text)
    except ValueError:
        raise ValueError("is neither a network such as 203.0.113.0/24 nor a range first-last") from None
    return text


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ImageLists(_Model):
    """`*` is any text, `?` one character; every way to write an image is the same image."""

    allow: tuple[Pattern, ...] = Field((), description="the only images that are run; empty: all")
    deny: tuple[Pattern, ...] = Field((), description="images that are not run")
    deny_miners: bool = Field(False, description="deny the images of known miners")


class HostnameLists(_Model):
    deny: tuple[Pattern, ...] = Field((), description="hostnames that are not served")


class AddressLists(_Model):
    ranges: tuple[Annotated[str, AfterValidator(_range)], ...] = Field(
        (), description="the only addresses that are leased: networks, or first-last; empty: all"
    )


class AnnotationLists(_Model):
    allow: dict[str, Annotated[str, AfterValidator(_expression)]] = Field(
        default_factory=dict, description="further keys, each with a regular expression for its whole value"
    )


class LabelLists(_Model):
    allow: tuple[Pattern, ...] = Field((), description="further keys of labels")


class StorageLists(_Model):
    classes: tuple[Pattern, ...] = Field((), description="the only storage classes that are rented out; empty: all")


class Exemption(_Model):
    """Rules whose violations are advisory for one owner. Every exemption is listed by `lessor policy list`."""

    owner: str = Field(pattern=r"^[a-z]+1[a-z0-9]{6,90}$")
    rules: tuple[str, ...] = Field(min_length=1)
    reason: str = Field(min_length=1, max_length=500)
    until: date | None = Field(None, description="the last day (UTC) on which it holds; empty: for ever")


class PolicyChoices(_Model):
    """The content of the file; the default is that of no file."""

    levels: dict[str, Level] = Field(default_factory=dict, description="another level than a rule's own, by its id")
    images: ImageLists = ImageLists()
    hostnames: HostnameLists = HostnameLists()
    addresses: AddressLists = AddressLists()
    annotations: AnnotationLists = AnnotationLists()
    labels: LabelLists = LabelLists()
    storage: StorageLists = StorageLists()
    exemptions: tuple[Exemption, ...] = ()
    rules: tuple[Path, ...] = Field((), description="files of the operator's own rules, relative to this file")


def read_choices(path: Path) -> PolicyChoices:
    """The file at `path`. Paths in it become absolute. Raises `PolicyFileError`, which names every problem."""
    try:
        text = path.read_bytes()
        if len(text) > _MAX_BYTES:
            raise PolicyFileError(path, [f"it is longer than {_MAX_BYTES} bytes"])
        document = yaml.safe_load(text.decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyFileError(path, [f"it cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    except yaml.YAMLError as error:
        raise PolicyFileError(path, [f"it is no YAML: {' '.join(str(error).split())}"]) from None
    try:
        choices = PolicyChoices.model_validate({} if document is None else document)
    except ValidationError as error:
        raise PolicyFileError(path, [_problem(each) for each in error.errors(include_url=False)]) from None
    folder = path.absolute().parent
    return choices.model_copy(update={"rules": tuple(folder / each for each in choices.rules)})


def _problem(problem: Mapping[str, Any]) -> str:
    place = ".".join(map(str, problem["loc"])) or "the file"
    if problem["type"] == "extra_forbidden":
        known = _keys(problem["loc"][:-1])
        return f"{place}: there is no such key{nearest(str(problem['loc'][-1]), known)}; known are {', '.join(known)}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{place}: {message[:1].lower()}{message[1:]}, not {str(problem['input'])[:100]!r}"


def _keys(place: Sequence[object]) -> list[str]:
    """The keys that are known at this place of the file."""
    model: type[BaseModel] = PolicyChoices
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            kinds = (model.model_fields[part].annotation, *get_args(model.model_fields[part].annotation))
            model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), model)
    return list(model.model_fields)


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing where no known name is near."""
    found = get_close_matches(name[:100], list(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""
