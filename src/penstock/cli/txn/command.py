"""`penstock txn list|describe|find-hanging|abort|recover`"""

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.number_limits import INT64_MAX
from penstock.cli.arguments.partitions import partitions_text
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import DURATION_HELP, duration_of, duration_text, wall_ms
from penstock.cli.connection.access import access_of, connect
from penstock.cli.terminal.output import (
    Format,
    Json,
    Row,
    exit_if_failed,
    format_of,
    print_rows,
    print_value,
)
from penstock.cli.txn.find_hanging import abort, find_hanging
from penstock.cli.txn.recover import recover
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.errors import InvalidRegularExpression, KafkaError, TransactionalIdNotFound

if TYPE_CHECKING:
    from penstock.client.admin.coordinator_values import TransactionDescription

app = typer.Typer(
    help="List and describe transactions, find those that hang, abort them.", no_args_is_help=True
)
app.command("find-hanging")(find_hanging)
app.command()(abort)
app.command()(recover)

NO_TIMEOUT_MS = 2**31 - 1  # the value for a two-phase commit without a timeout
DESCRIBED_COLUMNS = (
    "transactional_id",
    "state",
    "producer_id",
    "producer_epoch",
    "coordinator",
    "timeout",
    "open_for",
    "partitions",
)


class TransactionStateOption(StrEnum):
    """States in Kafka's spelling."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


OPEN = (
    TransactionStateOption.ONGOING,
    TransactionStateOption.PREPARE_COMMIT,
    TransactionStateOption.PREPARE_ABORT,
    TransactionStateOption.PREPARE_EPOCH_FENCE,
)


@app.command("list")
@on_cluster
def list_transactions(
    context: typer.Context,
    *,
    states: Annotated[
        list[TransactionStateOption],
        typer.Option("--state", case_sensitive=False, help="Only these; may be repeated."),
    ] = [],  # noqa: B006 - typer only reads the default
    producer_ids: Annotated[
        list[int],
        typer.Option(
            "--producer-id",
            min=0,
            max=INT64_MAX,
            help="Only these; may be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    longer_than: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help=f"Only transactions that are open for longer. {DURATION_HELP}",
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Only transactional ids that match it as a whole."),
    ] = None,
) -> None:
    """List transactional ids and the state that each is in."""
    open_ms = None
    if longer_than is not None:
        open_ms = duration_of("--longer-than", longer_than)
        states = _open_of(states)
    wanted = TransactionFilter(tuple(states), tuple(producer_ids), open_ms, pattern)
    with connect(access_of(context)) as admin:
        try:
            found = admin.transactions.list_all(wanted)
        except InvalidRegularExpression:
            raise InvalidRegularExpression(_wrong_pattern(pattern or "")) from None
    rows: list[Row] = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    columns = ("transactional_id", "state", "producer_id", "coordinator")
    print_rows(format_of(context), columns, rows)


def _open_of(states: list[TransactionStateOption]) -> list[TransactionStateOption]:
    """Return the open states: for servers, an id without a transaction is open since 1970."""
    closed = [each for each in states if each not in OPEN]
    if closed:
        raise typer.BadParameter(
            f"what is {closed[0]} is not open; --longer-than goes with {', '.join(OPEN)}",
            param_hint="--state",
        )
    return states or [*OPEN]


def _wrong_pattern(pattern: str) -> str:
    """Return a message with the reason of Python's parser: the server's answer has none."""
    said = f"--pattern {pattern!r} is no regular expression (RE2), the server says"
    try:
        re.compile(pattern)
    except re.error as error:
        return f"{said}: {error}"
    return said


@app.command()
@on_cluster
def describe(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="ID")],
) -> None:
    """Describe transactional ids: their state, their producer, the partitions that are open."""
    with connect(access_of(context)) as admin:
        found = admin.transactions.describe(names)
    described = [each for each in found.values() if not isinstance(each, KafkaError)]
    now_ms = wall_ms()
    if format_of(context) is not Format.TABLE:
        print_value(format_of(context), [_described_row(each, now_ms) for each in described])
    elif described:
        rows = [_described_cells(each, now_ms) for each in described]
        print_rows(Format.TABLE, DESCRIBED_COLUMNS, rows)
    failed = {
        name: _explained(name, each) for name, each in found.items() if isinstance(each, KafkaError)
    }
    exit_if_failed(failed, some_done=bool(described))


def _explained(name: str, error: KafkaError) -> KafkaError:
    """Return the error with a next step."""
    if not isinstance(error, TransactionalIdNotFound):
        return error
    return TransactionalIdNotFound(
        f"there is no transactional id {name}; `penstock txn list` shows which there are"
    )


def _described_row(each: "TransactionDescription", now_ms: int) -> Row:
    partitions: list[Json] = [
        {"topic": part.topic, "partition": part.partition} for part in each.partitions
    ]
    return {
        "transactional_id": each.transactional_id,
        "state": each.state,
        "coordinator": each.coordinator,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "timeout_ms": None if each.timeout_ms == NO_TIMEOUT_MS else each.timeout_ms,
        "start_ms": each.start_ms,
        "open_ms": _open_ms(each, now_ms),
        "partitions": partitions,
    }


def _described_cells(each: "TransactionDescription", now_ms: int) -> Row:
    open_ms = _open_ms(each, now_ms)
    limited = each.timeout_ms != NO_TIMEOUT_MS
    return {
        **_described_row(each, now_ms),
        "timeout": duration_text(each.timeout_ms) if limited else "none",
        "open_for": None if open_ms is None else duration_text(open_ms),
        "partitions": partitions_text(each.partitions),
    }


def _open_ms(each: "TransactionDescription", now_ms: int) -> int | None:
    """Return how long a transaction is open; servers also report the start of ended ones."""
    if each.start_ms is None or each.state not in OPEN:
        return None
    return max(0, now_ms - each.start_ms)
