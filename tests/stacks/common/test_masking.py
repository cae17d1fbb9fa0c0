"""A secret is masked in whatever form an error quotes it, and what is no secret stays readable."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from lease.ids import LeaseId
from lease.spec import EnvironmentVariable, LeaseSpec, RegistryCredentials, ServiceSpec
from stacks.common.masking import SHORTEST, mask, mask_result
from stacks.common.results import FailureCause, Operation, PropertyChange, ResourceChange, StackResult

SECRET = "p\"ä\\ss</w0rd>&+ 'x'"
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "json": json.dumps,
    "json, not only ascii": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "go's json": lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    "url path": quote,
    "url": lambda text: quote(text, safe=""),
    "url query": quote_plus,
    "hex": lambda text: text.encode().hex(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for urls": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    **{
        f"base64 after {shift}": lambda text, shift=shift: base64.b64encode(b"u" * shift + text.encode()).decode()  # type: ignore[misc]
        for shift in range(1, 6)
    },
}


def a_spec(*values: str, password: str = "") -> LeaseSpec:
    variables = tuple(EnvironmentVariable(name=f"V{i}", value=SecretStr(value)) for i, value in enumerate(values))
    own = EnvironmentVariable(name="AKASH_OWNER", value=SecretStr("akash1owner"))
    credentials = RegistryCredentials(host="r", email="", username="me", password=SecretStr(password))
    web = ServiceSpec(
        name="web", image="nginx", environment=(*variables, own), count=1, resource_version="1", resource_id=1,
        cpu_request_milli=1, cpu_limit_milli=1, memory_request_bytes=1, memory_limit_bytes=1,
        credentials=credentials if password else None,
    )  # fmt: skip
    lease = LeaseId("akash1tenant", 7, 1, 1, "akash1provider")
    return LeaseSpec(lease=lease, group="west", first_resource_version="1", services=(web,))


def _core(text: str) -> str:
    """The middle: at the ends of base64 a character may belong to a neighbour too."""
    return text.strip('"')[9:-9]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", ["environment", "password"])
def test_every_form_is_masked(form: str, where: str) -> None:
    spec = a_spec(SECRET) if where == "environment" else a_spec(password=SECRET)
    quoted = FORMS[form](SECRET)
    masked = mask(f"before {quoted} after", spec)
    assert _core(quoted) not in masked
    assert masked.startswith("before ") and masked.endswith(" after")
    assert "[secret]" in masked


@given(st.text(min_size=SHORTEST, max_size=40), st.sampled_from(sorted(FORMS)))
def test_no_secret_survives_in_any_form(secret: str, form: str) -> None:
    quoted = FORMS[form](secret)
    if "json" in form:
        quoted = quoted[1:-1]  # no more: the secret itself may end in a quote
    masked = mask(f"<<{quoted}>>", a_spec(secret))
    if form.startswith("base64"):
        quoted = quoted.rstrip("=")[2 + 6 : -2]
    if len(quoted) >= 8 and quoted not in "<<[secret]>>":
        assert quoted not in masked


def test_a_line_of_a_key_is_masked_and_user_and_password_together() -> None:
    key = "-----BEGIN KEY-----\nMIIEabcdefgh1234\n}\n-----END KEY-----\n"
    spec = a_spec(key, password="hunter2")
    auth = base64.b64encode(b"me:hunter2").decode()
    masked = mask(f'line 2: MIIEabcdefgh1234 is bad }}; {{"auth": "{auth}"}}', spec)
    assert masked.startswith('line 2: [secret] is bad }; {"auth": "[secret]')
    assert auth[2:12] not in masked


def test_short_values_and_the_providers_own_stay() -> None:
    text = "1 of true akash1owner web nginx"
    assert mask(text, a_spec("1", "true", "")) == text
    assert mask(text, None) == text
    assert mask("", a_spec(SECRET)) == ""


def test_a_long_secret_is_not_left_in_pieces_by_a_short_one() -> None:
    assert mask("say hunter2hunter2 now", a_spec("hunter2", "hunter2hunter2")) == "say [secret] now"


def test_results_are_masked_in_error_and_values_but_not_in_names() -> None:
    change = ResourceChange(
        "update", "kubernetes:apps/v1:Deployment", "mongodb", "urn::mongodb", ("spec.mongodb",),
        (PropertyChange("spec.mongodb", old="mongodb:1", new=f"x{SECRET}x"), PropertyChange("spec.y", new=None)),
    )  # fmt: skip
    result = StackResult(
        Operation.UP, "stack", ok=False, seconds=1.0, changes=(change,), summary={"update": 1},
        error=f"quota exceeded: {SECRET}", cause=FailureCause.QUOTA, spec_hash="mongodb",
    )  # fmt: skip
    masked = mask_result(result, [a_spec("mongodb"), a_spec(SECRET, "quota exceeded", "create")])
    assert masked.error == "[secret]: [secret]"
    first, second = masked.changes[0].properties
    assert (first.path, first.old, first.new) == ("spec.mongodb", "[secret]:1", "x[secret]x")
    assert (second.old, second.new) == (None, None)
    kept = replace(masked, error=result.error, changes=())
    assert kept == replace(result, changes=())
    assert replace(masked.changes[0], properties=()) == replace(change, properties=())
