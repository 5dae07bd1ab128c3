"""`penstock user add|list|password|remove`: users who log in by SCRAM."""

import getpass
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import Access, access_of, connect
from penstock.cli.connection.results import value_of
from penstock.cli.terminal.output import (
    CommandFailed,
    Row,
    WrongUsage,
    YesOption,
    confirm,
    format_of,
    note,
    print_rows,
    reason_of,
)
from penstock.client.admin.access_values import (
    AclFilter,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from penstock.errors import ResourceNotFound, SecurityDisabled

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

app = typer.Typer(
    help="Users who log in by SCRAM: add, list, give another password, remove.",
    no_args_is_help=True,
)

MECHANISMS = {each.text: each for each in ScramMechanism if each is not ScramMechanism.UNKNOWN}
MECHANISM_DEFAULT = ScramMechanism.SHA_512.text
PASSWORD_BYTES = 24
OWNER_ONLY = 0o600
JAVA_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROTOCOL_KEY = "security.protocol"
PROTOCOL_DEFAULT = "SASL_SSL"

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user, as in User:NAME.")]


@app.command()
@on_cluster
def add(
    context: typer.Context,
    name: UserName,
    *,
    mechanism: Annotated[
        str, typer.Option("--mechanism", metavar="NAME", help=f"One of {', '.join(MECHANISMS)}.")
    ] = MECHANISM_DEFAULT,
    generate: Annotated[
        bool, typer.Option("--generate", help="Make the password, and write it to client files.")
    ] = False,
    files: Annotated[
        Path,
        typer.Option("--files", metavar="DIR", help="Where --generate writes the client files."),
    ] = Path(),
) -> None:
    """Add a user. The password comes from --generate, from stdin, or from a prompt."""
    if mechanism.upper() not in MECHANISMS:
        raise WrongUsage(f"--mechanism {mechanism}: it is one of {', '.join(MECHANISMS)}")
    chosen = MECHANISMS[mechanism.upper()]
    access = access_of(context)
    with connect(access) as admin:
        if _credentials(admin, name):
            raise CommandFailed(
                f"the user {name} exists; `penstock user password {name}` changes the password"
            )
        if not generate:
            _store(admin, name, chosen, _read_password())
            note(f"added {name}, who logs in by {chosen.text}")
            return
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        paths = _write_client_files(files, name, _client_settings(access, name, chosen, password))
        try:
            _store(admin, name, chosen, password)
        except BaseException:
            for path in paths:
                path.unlink(missing_ok=True)
            raise
    note(f"added {name}, who logs in by {chosen.text}; the password is in")
    for path in paths:
        print(path)


@app.command("list")
@on_cluster
def list_users(context: typer.Context) -> None:
    """List users with their mechanisms."""
    with connect(access_of(context)) as admin:
        found = admin.scram.describe()
    rows: list[Row] = [
        {
            "name": name,
            "mechanisms": ", ".join(each.mechanism.text for each in value_of(credentials)),
            "iterations": max(each.iterations for each in value_of(credentials)),
        }
        for name, credentials in sorted(found.items())
    ]
    print_rows(format_of(context), ("name", "mechanisms", "iterations"), rows)


@app.command()
@on_cluster
def password(context: typer.Context, name: UserName) -> None:
    """Give a user another password, from stdin or a prompt. Open connections stay."""
    with connect(access_of(context)) as admin:
        known = _known(admin, name)
        chosen = _read_password()
        for each in known:
            _store(admin, name, each.mechanism, chosen, each.iterations)
    note(f"{name} has another password; connections with the former one stay open")


@app.command()
@on_cluster
def remove(context: typer.Context, name: UserName, *, yes: YesOption = False) -> None:
    """Remove a user and close the user's connections. Access rules remain, and are shown."""
    access = access_of(context)
    with connect(access) as admin:
        known = _known(admin, name)
        confirm(f"Remove the user {name} at {access.where}?", yes=yes)
        for each in known:  # one request each: a user is changed once per request
            changed = admin.scram.alter([ScramDeletion(name, each.mechanism)])
            value_of(changed[name])
        note(f"removed {name}")
        try:
            rules = admin.acls.describe(AclFilter(principal=f"User:{name}"))
        except SecurityDisabled:
            return
    if rules:
        note(f"these access rules of User:{name} remain:")
        rows: list[Row] = [
            {
                "permission": each.permission.name,
                "operation": each.operation.name,
                "resource": f"{each.resource_type.name} {each.resource_name}",
                "pattern": each.pattern_type.name,
                "host": each.host,
            }
            for each in rules
        ]
        columns = ("permission", "operation", "resource", "pattern", "host")
        print_rows(format_of(context), columns, rows)


def _credentials(admin: "Admin", name: str) -> list[ScramCredential]:
    """Return the credentials of a user, none of an unknown one."""
    found = admin.scram.describe([name])[name]
    return [] if isinstance(found, ResourceNotFound) else value_of(found)


def _known(admin: "Admin", name: str) -> list[ScramCredential]:
    found = _credentials(admin, name)
    if not found:
        raise CommandFailed(f"there is no user {name}; `penstock user list` names all")
    return found


def _store(
    admin: "Admin",
    name: str,
    mechanism: ScramMechanism,
    chosen: str,
    iterations: int | None = None,
) -> None:
    change = (
        ScramUpsertion(name, mechanism, chosen)
        if iterations is None
        else ScramUpsertion(name, mechanism, chosen, iterations)
    )
    value_of(admin.scram.alter([change])[name])


def _read_password() -> str:
    """Return the password: typed twice, or the first line of stdin."""
    if sys.stdin.isatty():
        chosen = getpass.getpass("Password: ")
        if chosen != getpass.getpass("Again: "):
            raise CommandFailed("the two passwords differ; nothing was changed")
    else:
        chosen = sys.stdin.readline().rstrip("\r\n")
    if not chosen:
        raise WrongUsage("a password is needed: type it, give it on stdin, or say --generate")
    return chosen


def _client_settings(
    access: Access, name: str, mechanism: ScramMechanism, chosen: str
) -> dict[str, dict[str, str]]:
    """Return the settings of Java's clients and of librdkafka's, by file name."""
    protocol = access.settings.get(PROTOCOL_KEY, "").strip().upper()
    if not protocol.startswith("SASL_"):
        protocol = PROTOCOL_DEFAULT
        note(
            f"the files have {PROTOCOL_KEY}={protocol} and bootstrap.servers={access.bootstrap}; "
            "change both to those of a listener with SASL"
        )
    shared = {
        "bootstrap.servers": access.bootstrap,
        PROTOCOL_KEY: protocol,
        "sasl.mechanism": mechanism.text,
    }
    module = f'{JAVA_MODULE} required username="{_quoted(name)}" password="{chosen}";'
    return {
        f"{name}.properties": {**shared, "sasl.jaas.config": module},
        f"{name}.librdkafka.properties": {
            **shared,
            "sasl.username": name,
            "sasl.password": chosen,
        },
    }


def _quoted(text: str) -> str:
    # A properties file takes one backslash of two, the JAAS text another one.
    return text.replace("\\", "\\\\\\\\").replace('"', '\\\\"')


def _write_client_files(
    directory: Path, name: str, settings: Mapping[str, Mapping[str, str]]
) -> list[Path]:
    """Write new files that only their owner can read; return their paths."""
    if "/" in name or name in ("", ".", ".."):
        raise WrongUsage(f"{name!r} cannot name a file; add the user without --generate")
    paths: list[Path] = []
    try:
        for file_name, values in settings.items():
            path = directory / file_name
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            paths.append(path)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.writelines(f"{key}={value}\n" for key, value in values.items())
    except OSError as problem:
        for path in paths:
            path.unlink(missing_ok=True)
        raise CommandFailed(f"{directory / file_name}: {reason_of(problem)}") from None
    return paths
