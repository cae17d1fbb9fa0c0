"""The forms in which commands print their data, and a document as text in each."""

from __future__ import annotations

import json
from enum import StrEnum

__all__ = ["Output", "document_text"]


class Output(StrEnum):
    """`table` is text for people; `json` and `yaml` are one document."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def document_text(document: object, form: Output) -> str:
    """The document as JSON or YAML, ending with a line break, in ASCII: no text in it can steer a terminal."""
    text = json.dumps(document, indent=2, default=str)
    if form is not Output.YAML:
        return f"{text}\n"
    import yaml  # noqa: PLC0415  few outputs are YAML

    dumped: str = yaml.safe_dump(json.loads(text), sort_keys=False, default_flow_style=False, allow_unicode=False)
    return dumped
