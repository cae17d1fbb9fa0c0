"""`lessor backup` and `lessor restore`: the home of the provider as one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError as UrlError

from provider.backup.restoring import Restored, check_backup, restore_home
from provider.backup.saving import save_home
from provider.cli.home import settings_of_home
from provider.cli.output import Output, OutputOption, failure, print_result, warn
from provider.cli.version import version
from provider.errors import ProviderError
from provider.settings import Settings, load_settings
from provider.settings.spellings import variables_of

__all__ = ["backup", "restore"]

_FILES = (
    "store_key_file",
    "mnemonic_file",
    "armored_key_file",
    "keyring_file",
    "provider_config",
    "policy_file",
    "price_table",
)
"""Settings that name a file which a provider on another machine needs too."""


def backup(
    file: Annotated[Path, typer.Argument(help="The backup to write; one that is there is replaced.", metavar="FILE")],
    *,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write the home of the provider, running or not, to one file.

    The file has the database, the keys, the certificates and the states of all stacks, each with its checksum. It is
    readable for its owner only and holds secrets: keep it as you keep the signing key. What a provider needs and the
    home does not hold is named.

    Example: `lessor backup /srv/backups/lessor.zip`
    """
    try:
        settings = settings_of_home()
        saved = save_home(settings.home, file, database=_database(settings), version=version())
    except ProviderError as error:
        raise failure(error) from None
    elsewhere = list(_elsewhere(settings))
    for text in [*saved.left_out, *elsewhere]:
        warn(f"lessor: not in the backup: {text}")
    document = {
        "file": str(saved.path),
        "bytes": saved.size,
        "files": len(saved.files),
        "home": str(settings.home),
        "not_included": [*saved.left_out, *elsewhere],
    }
    print_result(document, [f"{saved.path}: {len(saved.files)} files, {saved.size} bytes"], output)


def restore(
    file: Annotated[Path, typer.Argument(help="The backup.", metavar="FILE")],
    *,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Move the home that is there aside; else only an empty one is taken."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Read the whole backup and write nothing.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make the home of the provider from a backup.

    The home is AP_HOME, and the provider must be stopped. The home is made whole beside its place and then renamed, so
    that it is there whole or not at all. A damaged backup, or one of a newer Lessor, changes nothing. Never run two
    providers with one account: be sure that the machine of the backup is off.

    Example: `lessor restore /srv/backups/lessor.zip && lessor run`
    """
    try:
        home = load_settings().home
        done = (
            check_backup(file, version=version())
            if check
            else restore_home(file, home, version=version(), replace=replace)
        )
    except ProviderError as error:
        raise failure(error) from None
    print_result(_document(done, home, check=check), _lines(done, home, check=check), output)


def _database(settings: Settings) -> Path | None:
    """The file of the SQLite database; None for a server."""
    try:
        url = make_url(settings.database_url)
    except UrlError:
        return None
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def _elsewhere(settings: Settings) -> Iterator[str]:
    """What a provider needs and this home does not hold."""
    home, database = settings.home.absolute(), _database(settings)
    if database is None:
        yield "the database of LESSOR_STORE_URL; its server has a backup of its own (`pg_dump`)"
    elif not database.absolute().is_relative_to(home):
        yield f"the database {database} (LESSOR_STORE_URL)"
    for name in _FILES:
        path = getattr(settings, name)
        if path and not Path(path).absolute().is_relative_to(home):
            yield f"{path} ({variables_of(Settings.model_fields[name])[0]})"
    if settings.stack_backend:
        yield "the states in LESSOR_STACK_BACKEND"


def _document(done: Restored, home: Path, *, check: bool) -> dict[str, Any]:
    head = done.archive.head
    return {
        "file": str(done.archive.path),
        "made_at": head.made_at,
        "version": head.version,
        "files": len(head.files),
        "bytes": done.archive.size,
        "home": None if check else str(home),
        "aside": None if done.aside is None else str(done.aside),
        "left_out": done.without_stacks,
    }


def _lines(done: Restored, home: Path, *, check: bool) -> Iterator[str]:
    head = done.archive.head
    what = f"{len(head.files)} files of {head.made_at}, lessor {head.version}"
    if check:
        yield f"{done.archive.path} is whole: {what}"
        return
    yield f"AP_HOME={home}: {what}"
    if done.aside is not None:
        yield f"the home before is {done.aside}; delete it when the provider runs"
    if done.without_stacks:
        yield f"the states of stacks hold at {head.home} only and were left out; each is made anew from the cluster"
    yield "start it with `lessor run`; leases go on as the chain and the cluster say"
