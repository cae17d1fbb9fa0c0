"""What an operation's events say, in a text that an operator reads."""

from __future__ import annotations

from pulumi.automation import EngineEvent

from stacks.worker.events import Recorder

URN = (
    "urn:pulumi:3k2r0ebjhh9r1m2n7v2a4rbpj7sa00h3vdcs4qjp0j1h2::lessor::lessor:lease:Lease$lessor:lease:LeasedIp$"
    "kubernetes:metallb.io/v1beta1:IPAddressPool::ip-abc"
)
WEBHOOK = 'failed calling webhook "ipaddresspoolvalidationwebhook.metallb.io": connection refused'


def an_error(message: str, urn: str = "") -> EngineEvent:
    diagnostic = {"urn": urn, "message": message, "severity": "error", "color": "never"}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, "diagnosticEvent": diagnostic})


def test_an_error_names_its_object_and_not_pulumis_whole_name_of_it() -> None:
    recorder = Recorder()
    recorder.on_event(an_error(f'resource "{URN}" was not successfully created: {WEBHOOK}\n', URN))
    recorder.on_event(an_error(f"{URN}: resource monitor has terminated"))
    assert recorder.error() == (
        f'IPAddressPool ip-abc: resource "ip-abc" was not successfully created: {WEBHOOK}\n'
        "ip-abc: resource monitor has terminated"
    )
