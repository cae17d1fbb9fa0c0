"""Which Pulumi command lines only look, which change something, and which no lease has a program for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.cli.pulumi_verbs import Effect, verb_of
from stacks.common.results import Operation

CLIENT = "--client=127.0.0.1:1"
READS = [
    *("", "stack", "stack export --show-secrets", "stack output", "stack ls", "stack --show-urns", "config get a"),
    *("version", "--version", "whoami", "destroy --help", "up -h", "refresh --preview-only", "destroy --preview-only"),
    *("refresh --preview-only --diff", "stack rm --help"),
]
CHANGES = [
    *("destroy", "down", "dn -s other", "refresh", "cancel", "import --file x", "stack rm", "stack rm --force"),
    *("state delete urn:pulumi:x", "state", "state unknown", "stack import", "stack init other", "config set a b"),
    *("stack change-secrets-provider passphrase", "frobnicate", "-C /elsewhere stack", "--verbose 9 destroy", "env rm"),
    *("stack export2", "destroy --preview-only=false", "stack -s x rm", "plugin rm", "login", "logout", "package"),
    *("refresh --preview-only --preview-only=false", "refresh --preview-only false", "refresh -m --preview-only"),
    *("destroy --message --help", "destroy --help --help=false", "refresh --preview-only=true --preview-only=0"),
]
PROGRAMS = ["up", "update --yes", "preview", "pre", "watch", "new python", "refresh --run-program"]


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        *((line, Effect.READS) for line in READS),
        *((line, Effect.CHANGES) for line in CHANGES if line != "stack -s x rm"),
        *((line, Effect.NEEDS_PROGRAM) for line in PROGRAMS),
    ],
)
def test_what_a_command_line_does(line, effect):
    assert verb_of(line.split()).effect is effect


@pytest.mark.parametrize("line", ["stack -s x rm", "stack --stack x rm", "stack -s=x rm", "config -s x set a b"])
def test_flags_between_a_group_and_its_verb_do_not_hide_the_verb(line):
    assert verb_of(line.split()).effect is Effect.CHANGES


def test_no_language_host_is_looked_for_and_yes_goes_on_to_verbs_that_ask():
    assert verb_of(["refresh"]).arguments == ("refresh", CLIENT)
    assert verb_of(["down", "-y"], yes=True).arguments == ("down", "-y", CLIENT)
    assert verb_of(["destroy"], yes=True).arguments == ("destroy", CLIENT, "--yes")
    assert verb_of(["stack", "rm"], yes=True).arguments == ("stack", "rm", "--yes")
    assert verb_of(["stack"], yes=True).arguments == ("stack",)
    assert verb_of(["destroy", "--help"], yes=True).arguments == ("destroy", "--help")


def test_it_is_written_down_without_values():
    verb = verb_of(["config", "set", "--secret", "token", "hunter2"])

    assert (verb.name, verb.operation) == ("config set", Operation.STATE)
    assert verb_of(["--token", "hunter2"]).name == "with flags in front"
    assert verb_of(["hunter2"]).name == "another verb"
    assert verb_of(["config", "hunter2"]).name == "config, another verb"
    assert verb_of(["state", "delete", "urn"]).operation is verb_of(["cancel"]).operation is Operation.STATE
    assert verb_of(["refresh", "--yes"]).operation is Operation.REFRESH
    assert verb_of(["down"]).operation is Operation.DESTROY and verb_of(["down"]).name == "destroy"


@given(st.lists(st.one_of(st.text(), st.sampled_from(["stack", "rm", "state", "up", "-y", "--help", "ls"]))))
def test_any_words_go_on_as_they_are_and_none_that_is_unknown_only_reads(words):
    verb = verb_of(words)

    assert verb.arguments[: len(words)] == tuple(words)
    if words and not {"--help", "-h"} & set(words) and words != ["--version"] and words[0] not in ("stack", "up"):
        assert verb.effect is Effect.CHANGES or words[0] in READS
