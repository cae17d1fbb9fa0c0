"""Documents that are meant to hurt, and the heaviest that is still allowed."""

from __future__ import annotations

__all__ = ["HOSTILE", "heaviest_valid"]

HEAD = 'version: "2.0"\n'


def many_services(count: int) -> str:
    body = "    image: nginx\n    expose:\n      - port: 80\n        to:\n          - global: true\n"
    return f"{HEAD}services:\n" + "".join(f"  s{number}:\n{body}" for number in range(count))


def laughs_inside_the_grammar() -> str:
    to = ", ".join(["{global: true}"] * 500)
    exposes = "      - *o\n" * 500
    services = "".join(f"  b{number}: *s\n" for number in range(500))
    first = f"  a: &s\n    image: x\n    expose:\n      - &o\n        port: 80\n        to: [{to}]\n"
    return f"{HEAD}services:\n{first}{exposes}{services}"


def _document(*, services: str, compute: str, deployment: str) -> str:
    """A 2.1 document of one placement, `dc`, whose prices are those of every profile called p and a number."""
    pricing = "pricing: &c {p: &q {denom: uact, amount: 1}" + "".join(f", p{number}: *q" for number in range(400)) + "}"
    return (
        f'version: "2.1"\nservices: {{{services}}}\nprofiles:\n  compute: {{{compute}}}\n'
        f"  placement: {{dc: {{{pricing}}}}}\ndeployment: {{{deployment}}}\n"
    )


_RESOURCES = "resources: {cpu: {units: 1}, memory: {size: 1Gi}, storage: STORAGE}"
_PLAIN = _RESOURCES.replace("STORAGE", "{size: 1Gi}")


def volumes_by_services() -> str:
    """3,000 services that share 3,000 volumes: nine million in the manifest."""
    volumes = ", ".join(f"{{name: v{number}, size: 1Gi}}" for number in range(3000))
    names = [f"s{number}" for number in range(3000)]
    return _document(
        services="s: &s {image: x, expose: [{port: 80, to: [{global: true}]}]}, "
        + ", ".join(f"{n}: *s" for n in names),
        compute=f"p: {{{_RESOURCES.replace('STORAGE', f'[{volumes}]')}}}",
        deployment="s: &d {dc: {profile: p, count: 1}}, " + ", ".join(f"{name}: *d" for name in names),
    )


def hosts_by_offers() -> str:
    """5,000 hostnames on an expose that is offered 5,000 times."""
    hosts, offers = ", ".join(f"h{number}.example" for number in range(5000)), ", ".join(["{service: a}"] * 5000)
    return _document(
        services=f"s: {{image: x, expose: [{{port: 80, accept: [{hosts}], to: [{offers}]}}]}}",
        compute=f"p: {{{_PLAIN}}}",
        deployment="s: {dc: {profile: p, count: 1}}",
    )


def one_text_many_times() -> str:
    """Half a megabyte of environment in a thousand services."""
    names = [f"s{number}" for number in range(1000)]
    return _document(
        services=f"s: &s {{image: x, env: ['A={'a' * 500_000}']}}, " + ", ".join(f"{name}: *s" for name in names),
        compute=f"p: {{{_PLAIN}}}",
        deployment="s: &d {dc: {profile: p, count: 1}}, " + ", ".join(f"{name}: *d" for name in names),
    )


def repeated_keys() -> str:
    """Ten thousand names, then the last of them ten thousand times."""
    names = [f"k{number}" for number in range(10_000)]
    return f"{HEAD}services: {{{', '.join(f'{name}: 1' for name in names)}, {'k9999: 1, ' * 10_000}}}\n"


def merged_mappings() -> str:
    """A mapping of a thousand names merged a thousand times."""
    names = ", ".join(f"k{number}: 1" for number in range(1000))
    return f"{HEAD}services:\n  a: &a {{{names}}}\n  b:\n    <<: [{'*a, ' * 1000}]\n"


def nested_merges() -> str:
    """Each mapping merges the one before it ten times."""
    text = f"{HEAD}services:\n  m0: &m0 {{k: 1}}\n"
    return text + "".join(f"  m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}\n" for n in range(1, 40))


HOSTILE: dict[str, str | bytes] = {
    "deep lists": "[" * 200_000,
    "deep mappings": "{a: " * 100_000,
    "deep compact lists": "- " * 200_000,
    "deep keys": "? " * 100_000,
    "deep indentation": "".join(" " * depth + "a:\n" for depth in range(1300)),
    "ten thousand services": many_services(10_000),
    "a megabyte of services": many_services(11_000)[: 1024 * 1024],
    "billion laughs": f"{HEAD}a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 200)),
    "laughs inside the grammar": laughs_inside_the_grammar(),
    "too large": "a" * (1024 * 1024 + 1),
    "one long scalar": f"{HEAD}services: " + "a" * 1_000_000,
    "a long flat list": f"{HEAD}include: [" + "a," * 300_000 + "]",
    "many anchors": HEAD + "".join(f"x{number}: &a{number} 1\n" for number in range(45_000)),
    "many merges": f"{HEAD}services:\n  a: &a {{image: x}}\n  b:\n    <<: [" + "*a," * 200_000 + "]\n",
    "volumes times services": volumes_by_services(),
    "hosts times offers": hosts_by_offers(),
    "one text in a thousand services": one_text_many_times(),
    "repeated keys": repeated_keys(),
    "merged mappings": merged_mappings(),
    "nested merges": nested_merges(),
    "a huge number": f"{HEAD}services: {{a: {{image: x, expose: [{{port: {'9' * 900_000}}}]}}}}\n",
    "a huge size": f"{HEAD}profiles: {{compute: {{p: {{resources: {{memory: {{size: {'9' * 900_000}}}}}}}}}}}\n",
    "a huge price": f"{HEAD}profiles: {{placement: {{p: {{pricing: {{a: {{amount: {'9' * 900_000}}}}}}}}}}}\n",
    "a huge duration": f"{HEAD}reclamation: {{min_window: {'1h' * 400_000}}}\n",
    "a huge version": f"version: '{'1.' * 400_000}'\n",
    "a huge host": f"{HEAD}services: {{a: {{image: x, expose: [{{accept: ['{'a:' * 400_000}']}}]}}}}\n",
    "a huge key": f"{HEAD}? {'k' * 900_000}\n: 1\n",
    "a long folded scalar": f"{HEAD}services: >\n" + "  a\n" * 250_000,
    "two anchors in each other": f"{HEAD}services: &a {{x: &b {{<<: *a}}, y: *b}}\n",
    "a merge of itself": f"{HEAD}services: &a\n  <<: *a\n",
    "a service that is its own parent": f"{HEAD}services: &a\n  x: *a\ndeployment: {{x: {{dc: {{profile: p}}}}}}\n",
    "an alias of nothing": f"{HEAD}services: *nobody\n",
    "a list as key": f"{HEAD}services:\n  ? [a]\n  : b\n",
    "a control character": f"{HEAD}services: \0\n",
    "half a byte order mark": b"\xff\xfea",
    "not unicode": b"version: \xe9\n",
    "a lone surrogate": "version: '\ud800'\n",
    "an unfinished string": f'{HEAD}services: "abc',
    "truncated flow": f"{HEAD}services: {{web: {{image: nginx",
    "colons": HEAD + ": " * 100_000,
    "tags": "!!map " * 10_000,
    "nothing": b"",
    "dashes": "---\n---\n",
    "a number": "5",
}


def heaviest_valid() -> str:
    """As many services with profiles of their own as a manifest has room for, written in a few kilobytes."""
    names = [f"s{number}" for number in range(400)]
    return _document(
        services="s: &s {image: x, expose: &e [{port: 80, to: [{global: true}, {service: s}]}]}, "
        + ", ".join(f"{name}: *s" for name in names),
        compute=f"p: &p {{{_PLAIN}}}, " + ", ".join(f"p{number}: *p" for number in range(400)),
        deployment="s: {dc: {profile: p, count: 1}}, "
        + ", ".join(f"{name}: {{dc: {{profile: p{number}, count: 1}}}}" for number, name in enumerate(names)),
    )
