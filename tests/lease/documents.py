"""A small SDL with holes: what a test changes stands in the test, the rest here."""

from __future__ import annotations

import pytest

from lease.errors import SdlInvalid
from lease.manifest import Expose, Service
from lease.resources import EndpointKind
from lease.sdl import Sdl, read_sdl

NVIDIA = "vendor/nvidia/model/"
BASE = """version: "{version}"
{top}
services: {{web: {{image: nginx, {service} expose: [{{port: 80, {expose} to: [{{{to}}}]}}]}}}}
profiles:
  compute: {{web: {{resources: {{cpu: {{units: {cpu}}}, memory: {{size: {memory}}}, storage: {storage}, gpu: {gpu}}}}}}}
  placement: {{dc: {{attributes: {attributes}, pricing: {{web: {{denom: uact, amount: {amount}}}}}}}}}
deployment: {{web: {{dc: {{profile: web, count: 1}}}}}}
"""
DEFAULTS = {
    "version": "2.0",
    "top": "",
    "service": "",
    "expose": "",
    "to": "global: true",
    "cpu": "1",
    "memory": "128Mi",
    "storage": "{size: 1Gi}",
    "gpu": "null",
    "attributes": "null",
    "amount": "1",
}


def read(**changes: str) -> Sdl:
    return read_sdl(BASE.format(**{**DEFAULTS, **changes}))


def service_of(sdl: Sdl) -> Service:
    services = sdl.manifest[0].services
    assert services is not None
    return services[0]


def expose_of(sdl: Sdl) -> Expose:
    exposes = service_of(sdl).expose
    assert exposes is not None
    return exposes[0]


def problems(**changes: str) -> str:
    with pytest.raises(SdlInvalid) as caught:
        read(**changes)
    return caught.value.findings[0].message


def gpu_keys(nvidia: str, units: str = "1") -> list[str]:
    gpu = f"{{units: {units}, attributes: {{vendor: {nvidia}}}}}"
    return [item.key for item in service_of(read(gpu=gpu)).resources.gpu_attributes]


def gpu_problem(vendor: str) -> str:
    return problems(gpu=f"{{units: 1, attributes: {{vendor: {vendor}}}}}")


def refused(text: str, document: str) -> None:
    with pytest.raises(SdlInvalid, match=text):
        read_sdl(document)


def services(sdl: Sdl) -> tuple[Service, ...]:
    return sdl.manifest[0].services or ()


SIMPLE = """version: "{version}"
services:
  web:
    image: nginx
    expose:
      - port: 80
        accept: [ahostname.com]
        to: [{{global: true}}]
      - port: 12345
        to: [{{global: true}}]
        proto: udp
profiles:
  compute:
    web: {{resources: {{cpu: {{units: 100m}}, memory: {{size: 128Mi}}, storage: {{size: 1Gi}}}}}}
  placement:
    westcoast: {{attributes: {{zone: z, region: us-west}}, pricing: {{web: {{denom: uact, amount: 50}}}}}}
deployment: {{web: {{westcoast: {{profile: web, count: 2}}}}}}
"""
MIX = """version: "{version}"
services:
  svca:
    image: a
    expose: [{{port: 80, accept: [a.com], to: [{{global: true}}]}}, {{port: 81, to: [{{global: true}}]}}]
  svcb:
    image: b
    expose: [{{port: 80, accept: [b.com], to: [{{global: true}}]}}, {{port: 81, to: [{{global: true}}]}}]
profiles:
  compute:
    gpu: {{resources: {{cpu: {{units: 1}}, memory: {{size: 1Gi}}, storage: {{size: 1Gi}},
      gpu: {{units: 1, attributes: {{vendor: {{nvidia: [{{model: a100}}]}}}}}}}}}}
    plain: {{resources: {{cpu: {{units: 1}}, memory: {{size: 1Gi}}, storage: {{size: 1Gi}}}}}}
  placement:
    dc: {{pricing: {{gpu: {{denom: uact, amount: 50}}, plain: {{denom: uact, amount: 5}}}}}}
deployment: {{svca: {{dc: {{profile: gpu, count: 1}}}}, svcb: {{dc: {{profile: {second}, count: 1}}}}}}
"""


SHARED_IP = """version: "{version}"
endpoints: {{meow: {{kind: ip}}{more}}}
services:
  a: {{image: a, expose: [{{port: 12345, proto: udp, to: [{{global: true, ip: meow}}]}}]}}
  b: {{image: b, expose: [{{port: 81, as: 81, to: [{{global: true, ip: {other}}}]}}]}}
profiles:
  compute: {{p: {{resources: {{cpu: {{units: 1}}, memory: {{size: 1Gi}}, storage: {{size: 1Gi}}}}}}}}
  placement:
    dc: {{pricing: {{p: {{denom: uact, amount: 5}}}}}}
    ec: {{pricing: {{p: {{denom: uact, amount: 5}}}}}}
deployment: {{a: {{dc: {{profile: p, count: 1}}}}, b: {{{placement}: {{profile: p, count: 1}}}}}}
"""


def leased(sdl: Sdl) -> list[list[list[int]]]:
    """Sequence numbers of the leased IPs of every unit of every group."""
    return [
        [
            [item.sequence_number for item in unit.resources.endpoints or () if item.kind is EndpointKind.LEASED_IP]
            for unit in group.units
        ]
        for group in sdl.groups
    ]
