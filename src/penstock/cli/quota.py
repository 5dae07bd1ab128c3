"""`penstock quota list|set|remove`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.terminal.output import (
    CommandFailed,
    Row,
    WrongUsage,
    format_of,
    key_values,
    print_rows,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.admin.access_values import QuotaEntity

app = typer.Typer(
    help="Limits of clients: bytes, time, partitions and connections per second.",
    no_args_is_help=True,
)

COLUMNS = ("user", "client", "address", "quota", "value")
PARTS = {"user": "user", "client-id": "client", "ip": "address"}
KEYS = {
    "producer_byte_rate": "bytes per second that clients may produce to a broker",
    "consumer_byte_rate": "bytes per second that clients may fetch from a broker",
    "request_percentage": "percent of a broker's time",
    "controller_mutation_rate": "partitions per second that clients may create or delete",
    "connection_creation_rate": "connections per second that an address may open to a broker",
}
DEFAULT_SHOWN = "(every other)"

UserOption = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="The quota of a user.")
]
ClientOption = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="The quota of a client id.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", metavar="IP", help="The quota of an IP address.")
]
EveryUserOption = Annotated[
    bool, typer.Option("--every-user", help="The quota of each user without one of their own.")
]
EveryClientOption = Annotated[
    bool, typer.Option("--every-client", help="The quota of each client id without its own.")
]
EveryAddressOption = Annotated[
    bool, typer.Option("--every-address", help="The quota of each address without its own.")
]


def _entity(
    user: str | None,
    every_user: bool,
    client: str | None,
    every_client: bool,
    address: str | None,
    every_address: bool,
) -> "QuotaEntity":
    from penstock.client.admin.access_values import QuotaEntity

    parts: dict[str, str | None] = {}
    for kind, option, name, every in (
        ("user", "user", user, every_user),
        ("client-id", "client", client, every_client),
        ("ip", "address", address, every_address),
    ):
        if name is not None and every:
            raise WrongUsage(f"--{option} and --every-{option}: choose one")
        if name is not None or every:
            parts[kind] = name
    if not parts:
        raise WrongUsage("for whom? Add --user, --client or --address, or --every-user and so on")
    return QuotaEntity.of(parts)


def _text(entity: "QuotaEntity") -> str:
    return ", ".join(
        f"{PARTS[kind]} {name}" if name is not None else f"every other {PARTS[kind]}"
        for kind, name in entity.parts
    )


@app.command("list")
@on_cluster
def list_quotas(context: typer.Context) -> None:
    """List all quotas."""
    with connect(access_of(context)) as admin:
        found = admin.quotas.describe()
    rows: list[Row] = []
    for entity, quotas in found.items():
        names = dict(entity.parts)
        who: Row = {
            column: (names[kind] or DEFAULT_SHOWN) if kind in names else None
            for kind, column in PARTS.items()
        }
        rows += [{**who, "quota": key, "value": value} for key, value in quotas.items()]
    rows.sort(key=lambda row: [str(row[column] or "") for column in COLUMNS])
    print_rows(format_of(context), COLUMNS, rows)


@app.command("set")
@on_cluster
def set_quota(
    context: typer.Context,
    quotas: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE", help=f"One of {', '.join(KEYS)}.")
    ],
    *,
    user: UserOption = None,
    every_user: EveryUserOption = False,
    client: ClientOption = None,
    every_client: EveryClientOption = False,
    address: AddressOption = None,
    every_address: EveryAddressOption = False,
) -> None:
    """Set quotas. The most specific one counts; each broker counts for itself."""
    entity = _entity(user, every_user, client, every_client, address, every_address)
    changes: dict[str, float | None] = {}
    for key, text in key_values(quotas, "set").items():
        _check_key(key)
        try:
            changes[key] = float(text)
        except ValueError:
            raise WrongUsage(f"{key}={text}: the value must be a number") from None
    _alter(context, entity, changes, "set")


@app.command()
@on_cluster
def remove(
    context: typer.Context,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="All quotas without any.")
    ] = None,
    *,
    user: UserOption = None,
    every_user: EveryUserOption = False,
    client: ClientOption = None,
    every_client: EveryClientOption = False,
    address: AddressOption = None,
    every_address: EveryAddressOption = False,
) -> None:
    """Remove quotas."""
    entity = _entity(user, every_user, client, every_client, address, every_address)
    for key in keys or ():
        _check_key(key)
    with connect(access_of(context)) as admin:
        known = admin.quotas.describe().get(entity, {})
    wanted = keys or list(known)
    missing = [key for key in wanted if key not in known]
    if missing or not wanted:
        raise CommandFailed(f"{_text(entity)} has no quota {', '.join(missing)}".rstrip())
    _alter(context, entity, dict.fromkeys(wanted), "removed")


def _check_key(key: str) -> None:
    if key not in KEYS:
        meanings = "".join(f"\n  {name}: {meaning}" for name, meaning in KEYS.items())
        raise WrongUsage(f"there is no quota {key}; there are{meanings}")


def _alter(
    context: typer.Context, entity: "QuotaEntity", changes: "Mapping[str, float | None]", verb: str
) -> None:
    with connect(access_of(context)) as admin:
        answers = admin.quotas.alter({entity: changes})
    failed = {_text(each): error for each, error in answers.items() if error is not None}
    done = [] if failed else [f"{key} of {_text(entity)}" for key in changes]
    report(format_of(context), done, failed, verb)
