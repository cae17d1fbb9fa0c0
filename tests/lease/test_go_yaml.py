"""How Go's yaml.v3 reads a document, rule by rule (sdl-and-manifest.md §1.1 and §1.2)."""

from __future__ import annotations

import pytest

from lease.errors import SdlInvalid
from lease.sdl import read_sdl
from tests.lease.documents import BASE, DEFAULTS, expose_of, problems, read, service_of

TEXT = BASE.format(**DEFAULTS)
UNCHANGED = read_sdl(TEXT).version


def args(item: str) -> tuple[str, ...] | None:
    return service_of(read(service=f"args: [{item}],")).args


def first(text: str | bytes) -> str:
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(text)
    return str(caught.value.findings[0])


KEPT = (
    *("1.10", "0x10", "0o17", "0b11", "1_000", "1e3", ".5", "+1", "-0", "08", "00", ".inf", ".NaN"),
    *("yes", "No", "on", "OFF", "true", "True", "2024-01-01", "12:30:45", "="),
)


@pytest.mark.parametrize("text", KEPT)
def test_a_string_target_keeps_the_text_of_any_scalar(text: str) -> None:
    assert args(text) == args(f"'{text}'") == args(f'"{text}"') == (text,)
    image = BASE.format(**DEFAULTS).replace("image: nginx", f"image: {text}")
    assert service_of(read_sdl(image)).image == text


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("'it''s'", "it's"),
        ('"a\\tb\\x41\\u00e9\\U0001F600"', "a\tbA\u00e9\U0001f600"),
        ('"a\\\n      b"', "ab"),
        ("plain text", "plain text"),
        ("!!str 5", "5"),
        ("!!int '5'", "5"),
        ("'~'", "~"),
        ("'null'", "null"),
        ("!!str ~", "~"),
        ("'a # b'", "a # b"),
    ],
)
def test_quotes_escapes_and_tags_say_what_a_text_is(written: str, read_as: str) -> None:
    assert args(written) == (read_as,)


def test_block_scalars_are_literal_or_folded_and_chomped() -> None:
    head = "services:\n  web:\n    image: nginx\n    ARGS\n    expose:"
    text = TEXT.replace("services: {web: {image: nginx,  expose:", head)
    text = text.replace("to: [{global: true}]}]}}", "to: [{global: true}]}]")
    for block, value in (
        ("|\n        a\n         b\n\n", "a\n b\n"),
        ("|-\n        a\n        b\n", "a\nb"),
        ("|+\n        a\n\n", "a\n\n\n"),
        (">\n        a\n        b\n\n        c\n", "a b\nc\n"),
        (">-\n        a\n        b\n", "a b"),
        ("|2\n          a\n", "  a\n"),
    ):
        changed = text.replace("ARGS", f"args:\n      - {block}")
        assert service_of(read_sdl(changed)).args == (value,), block


@pytest.mark.parametrize("item", ["{a: b}", "[a]", "{}", "[]"])
def test_a_mapping_or_a_list_is_no_text(item: str) -> None:
    assert problems(service=f"env: [{item}],") == "must be text"
    assert "must be text" in first(TEXT.replace("image: nginx", f"image: {item}"))


@pytest.mark.parametrize("null", ["", "~", "null", "Null", "NULL", "!!null ''"])
def test_null_has_five_spellings_and_leaves_the_zero_value(null: str) -> None:
    assert "empty image" in first(TEXT.replace("image: nginx", f"image: {null}"))
    for name in ("env", "args", "command"):
        assert getattr(service_of(read(service=f"{name}: {null},")), name) is None
        assert getattr(service_of(read(service=f"{name}: [],")), name) == ()
    assert expose_of(read(expose=f"as: {null},")).external_port == 0
    assert expose_of(read(to=f"global: true, service: {null}")).service == ""
    assert read(attributes=f"{{a: {null}}}").groups[0].requirements.attributes[0].value == ""  # type: ignore[index]


@pytest.mark.parametrize("text", ["nULL", "none", "nil", "'null'", '""', "N"])
def test_what_only_looks_like_null_is_text(text: str) -> None:
    assert args(text) == (text.strip("'\""),)


@pytest.mark.parametrize(
    ("written", "kind", "tag"),
    [
        ("!!int x", "str", "int"),
        ("!!int ''", "null", "int"),
        ("!!int 1.5", "float", "int"),
        ("!!int 08", "float", "int"),
        ("!!int 99999999999999999999", "float", "int"),
        ("!!int 2001-01-01", "str", "int"),
        ("!!float x", "str", "float"),
        ("!!float 1e999", "str", "float"),
        ("!!bool yes", "str", "bool"),
        ("!!bool ''", "null", "bool"),
        ("!!null x", "str", "null"),
        ("!!null 5", "int", "null"),
        ("!!timestamp x", "str", "timestamp"),
        ("!!timestamp 2001-13-01", "str", "timestamp"),
        ("!<tag:yaml.org,2002:int> x", "str", "int"),
    ],
)
def test_a_tag_that_its_text_does_not_have_ends_the_reading(written: str, kind: str, tag: str) -> None:
    refusal = f"cannot decode !!{kind} `{written.split(' ')[1].strip(chr(39))}` as a !!{tag}"
    assert refusal in first(TEXT.replace("image: nginx", f"image: {written}"))
    assert refusal in first(TEXT.replace("image: nginx,", f"image: nginx, args: [{written}],"))
    assert refusal in first(TEXT.replace("port: 80", f"port: {written}"))
    assert refusal in first(TEXT.replace("global: true", f"global: {written}"))
    assert refusal in first(TEXT.replace("image: nginx,", f"image: nginx, args: {written},"))
    assert refusal in first(TEXT.replace("image: nginx,", f"image: nginx, params: {written},"))
    assert refusal in first(TEXT.replace("image: nginx,", f"image: nginx, {written}: 1,"))


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("!!int 0x1F", "0x1F"),
        ("!!int 1_0", "1_0"),
        ("!!int 18446744073709551615", "18446744073709551615"),
        ("!!float 5", "5"),
        ("!!float .inf", ".inf"),
        ("!!bool 'true'", "true"),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("!!timestamp 2001-1-1T1:02:03.5+01:00", "2001-1-1T1:02:03.5+01:00"),
        ("!!binary aGk=", "hi"),
        ("!!binary ''", ""),
        ("!!map x", "x"),
        ("!mine x", "x"),
        ("!mine ~", "~"),
        ("! 5", "5"),
        ("! '~'", "~"),
    ],
)
def test_a_tag_that_fits_keeps_the_text_and_other_tags_say_nothing(written: str, read_as: str) -> None:
    assert args(written) == (read_as,)


def test_types_of_the_sdls_own_see_no_tag_but_null() -> None:
    assert read_sdl(TEXT.replace("size: 1Gi", "size: !!str 1Gi")).version == UNCHANGED
    assert read_sdl(TEXT.replace("size: 1Gi", "size: !!int 1Gi")).version == UNCHANGED
    assert "cannot decode !!str `1Gi` as a !!null" in first(TEXT.replace("size: 1Gi", "size: !!null 1Gi"))
    assert "invalid syntax" in first(TEXT.replace("size: 1Gi", "size: !!int ''"))


def test_base64_that_is_none_ends_the_reading() -> None:
    assert "!!binary value contains invalid base64 data" in first(TEXT.replace("image: nginx", "image: !!binary x"))


def test_tags_of_text_and_tags_of_ones_own_are_no_number() -> None:
    for written in ("!!str 80", "!mine 80", "!!binary ODA="):
        assert "must be a number" in first(TEXT.replace("port: 80", f"port: {written}"))
    for written in ("!!str yes", "!mine yes", "!!binary eWVz"):
        assert read_sdl(TEXT.replace("global: true", f"global: {written}")).version == UNCHANGED


def test_a_merge_key_is_plain_or_tagged_as_one() -> None:
    def attributes(key: str, value: str) -> str:
        found = read(attributes=f"{{{key}: {value}}}").groups[0].requirements.attributes
        return " ".join(f"{item.key}={item.value}" for item in found or ())

    for key in ("<<", "!!merge <<", "!!merge '<<'", "! <<"):
        assert attributes(key, "{a: b}") == "a=b"
    for key in ("!!str <<", "'<<'", "! '<<'"):
        assert attributes(key, "b") == "<<=b"
    assert attributes("!!binary aGk=", "b") == "hi=b"
    assert attributes("!!null ''", "b") == ""


def test_tags_of_what_is_not_read_do_not_matter() -> None:
    assert read(service="unknown: !!int x, another: {!!int x: !!bool z},").version == UNCHANGED


def test_null_items_of_lists_are_dropped() -> None:
    assert service_of(read(service="args: [a, ~, null, b, ],")).args == ("a", "b")
    assert service_of(read(service="args: [~],")).args == ()
    for written in ("[~, {global: true}]", "[{global: true}, null]", "[{global: true}, ]"):
        assert read_sdl(TEXT.replace("to: [{global: true}]", f"to: {written}")).version == UNCHANGED
    assert read_sdl(TEXT.replace("expose: [", "expose: [~, ")).version == UNCHANGED


def test_the_types_of_http_options_without_an_effect_are_checked() -> None:
    assert read(to="global: true, http_options: {read_timeout: 1}").version == UNCHANGED
    assert problems(to="global: true, http_options: {read_timeout: soon}") == "must be a number"
    assert problems(to="global: true, http_options: []") == "must be a mapping"


def test_an_empty_price_counts_only_where_its_profile_is_used() -> None:
    prices = "pricing: {web: {denom: uact, amount: 1}"
    assert read_sdl(TEXT.replace(prices, f"{prices}, other: null")).version == UNCHANGED
    assert "pricing entry is empty" in first(TEXT.replace("web: {denom: uact, amount: 1}", "web: null"))


@pytest.mark.parametrize("version", [str(2**64), f"2.{2**64}", f"2.1.{2**64}", f"{2**64}.0"])
def test_a_part_of_a_version_has_64_bits(version: str) -> None:
    assert problems(version=version) == "not a version"
    assert read(version=version.replace(str(2**64), str(2**64 - 1)).replace("2.1.", "2.2.")).groups


NUMBERS = {
    "80": 80,
    "0x50": 80,
    "0X50": 80,
    "0o120": 80,
    "0b1010000": 80,
    "0120": 80,
    "08": 8,
    "8_0": 80,
    "+80": 80,
    "80.9": 80,
    "8e1": 80,
    "8.05E+1": 80,
    "80.": 80,
    "!!int 80": 80,
    "!!float 80": 80,
}


@pytest.mark.parametrize("text", NUMBERS)
def test_unsigned_numbers_have_gos_spellings(text: str) -> None:
    changed = TEXT.replace("port: 80", f"port: {text}")
    assert expose_of(read_sdl(changed)).port == NUMBERS[text]


@pytest.mark.parametrize(
    "text",
    ["'80'", '"80"', "true", "-1", "-0.5e1", "4294967296", "0x100000000", "1e10", "http", ".inf", ".nan", "!!str 80"],
)
def test_what_is_no_unsigned_number_of_32_bits_is_refused(text: str) -> None:
    assert "must be a number" in first(TEXT.replace("port: 80", f"port: {text}"))


@pytest.mark.parametrize("text", ["4294967295", "0xFFFFFFFF", "4_294_967_295", "4294967295.9"])
def test_the_largest_number_is_taken_as_it_is_and_not_wrapped(text: str) -> None:
    assert expose_of(read(expose=f"as: {text},")).external_port == 2**32 - 1


OLD_TRUE = ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON")
OLD_FALSE = ("n", "N", "no", "No", "NO", "off", "Off", "OFF")


def test_booleans_are_those_of_yaml_1_1_where_a_boolean_is_wanted() -> None:
    for text in ("true", "True", "TRUE", *OLD_TRUE, *(f"'{old}'" for old in OLD_TRUE)):
        assert expose_of(read(to=f"global: {text}")).global_
    storage = "[{name: d, size: 1Gi, attributes: {persistent: true}}]"
    for text, wanted in [("true", True)] + [
        (old, False) for old in ("false", "False", "FALSE", *OLD_FALSE, "~", "'n'")
    ]:
        params = f"params: {{storage: {{d: {{mount: /d, readOnly: {text}}}}}}},"
        found = service_of(read(storage=storage, service=params)).params
        assert found is not None and found.storage is not None
        assert found.storage[0].read_only is wanted


@pytest.mark.parametrize("text", ['"true"', "'false'", "1", "0", "T", "f", "tRUE", "yEs", "[true]", "{}"])
def test_other_spellings_are_no_booleans(text: str) -> None:
    assert problems(to=f"global: {text}") == "must be a boolean"


def test_unknown_keys_are_ignored_and_case_counts() -> None:
    assert read(service="Image: other, IMAGE: other, colour: {a: [1]},").version == UNCHANGED
    assert read(expose="Port: 81, PROTO: udp,", to="global: true, Global: false").version == UNCHANGED


def test_a_repeated_key_is_an_error_with_the_line_of_the_first() -> None:
    text = TEXT.replace("deployment:", "deployment: {web: {dc: {profile: web, count: 1}}, web: {}}\nx:")
    assert 'deployment.web: mapping key "web" already defined at line 7' in first(text)
    assert "already defined" in first(TEXT + 'endpoints: {}\nversion: "2.0"\n'), "at the top too (Go takes the last)"


def test_keys_are_their_text_whatever_their_type_and_null_keys_are_dropped() -> None:
    text = TEXT.replace("attributes: null", "attributes: {1: a, true: b, ~: c, null: e, '~': f, 0x1: d}")
    attributes = read_sdl(text).groups[0].requirements.attributes
    assert [item.key for item in attributes or ()] == ["0x1", "1", "true", "~"]
    assert [item.value for item in attributes or ()] == ["d", "a", "b", "f"]
    assert read_sdl(TEXT.replace("services: {", "services: {null: {image: other}, ")).version == UNCHANGED
    assert "already defined" in first(TEXT.replace("attributes: null", "attributes: {~: a, ~: b}"))


def test_aliases_work_everywhere_and_anchors_may_be_redefined() -> None:
    text = TEXT.replace("image: nginx,", "image: &i nginx, env: [&v A=1, *v, *i, &v B=2, *v],")
    assert service_of(read_sdl(text)).env == ("A=1", "A=1", "nginx", "B=2", "B=2")
    assert "alias *nobody is not defined" in first(TEXT.replace("nginx", "*nobody"))


@pytest.mark.parametrize(
    ("merge", "image"),
    [
        ("<<: *one", "one"),
        ("<<: [*one, *two]", "one"),
        ("<<: [*two, *one]", "two"),
        ("<<: *both", "one"),
        ("<<: {image: three}", "three"),
        ("image: own, <<: *one", "own"),
        ("<<: *one, image: own", "own"),
    ],
)
def test_merge_keys_give_way_to_written_ones_and_the_first_source_wins(merge: str, image: str) -> None:
    base = "a: &one {image: one}, b: &two {image: two}, c: &both {<<: [*one, *two]}, "
    text = TEXT.replace("services: {web: {image: nginx, ", f"services: {{{base}web: {{{merge}, ")
    assert service_of(read_sdl(text)).image == image


@pytest.mark.parametrize("source", ["text", "[text]", "[[]]", "5"])
def test_a_merge_of_what_is_no_mapping_is_refused(source: str) -> None:
    assert "map merge requires map" in first(TEXT.replace("image: nginx, ", f"image: nginx, <<: {source}, "))


def test_a_quoted_merge_key_is_a_key_like_others() -> None:
    assert read(attributes="{'<<': a}").groups[0].requirements.attributes[0].key == "<<"  # type: ignore[index]


def test_only_the_first_document_counts_and_what_follows_may_be_wrong() -> None:
    for tail in ("---\nother: [\n", "...\n%&\n", "--- \n\t\n"):
        assert read_sdl(TEXT + tail).version == UNCHANGED
    assert read_sdl("%YAML 1.1\n---\n" + TEXT).version == UNCHANGED
    assert "uninitialized" in first("---\n---\n" + TEXT)


def test_comments_and_blank_lines_mean_nothing() -> None:
    assert read_sdl("# first\n\n" + TEXT.replace("\n", "  # here\n\n#\n") + "# last").version == UNCHANGED


def test_tabs_may_separate_but_not_indent() -> None:
    assert read_sdl(TEXT.replace("count: 1", "count:\t1")).version == UNCHANGED
    assert "not YAML" in first("version: '2.0'\nservices:\n\tweb: {}\n")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_a_byte_order_mark_and_other_line_ends_are_fine(end: str, encoding: str) -> None:
    data = TEXT.replace("\n", end).encode(encoding)
    data = b"\xfe\xff" + data if encoding == "utf-16-be" else data
    assert read_sdl(data).version == UNCHANGED


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"version: '2.0'\nservices: \xff\n", ":2:11:"),
        (b"version: '2.0'\nservices: caf\xe9\n", ":2:14:"),
        (b"\xed\xa0\x80", ":1:1:"),
        (b"\xc0\x80", ":1:1:"),
        ("version: 2\nservices: \u00e9\u00e9".encode() + b"\xc3", ":2:13:"),
    ],
)
def test_what_is_not_utf8_is_refused_at_its_place(data: bytes, place: str) -> None:
    message = first(data)
    assert place in message
    assert "not Unicode text" in message


@pytest.mark.parametrize("char", ["\0", "\x01", "\x1b", "\x7f", "\ufffe"])
def test_control_characters_are_no_yaml(char: str) -> None:
    assert "not YAML" in first(TEXT.replace("nginx", f"ng{char}inx"))


def test_escaped_control_characters_are_text() -> None:
    assert service_of(read(service='args: ["\\0\\e\\x7f"],')).args == ("\0\x1b\x7f",)
