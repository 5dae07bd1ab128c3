"""`penstock txn find-hanging` and `penstock txn abort`: transactions without a coordinator."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.known_names import nearest
from penstock.cli.arguments.number_limits import INT16_MAX, INT32_MAX, INT64_MAX
from penstock.cli.arguments.partitions import partitions_of, partitions_text
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import (
    DURATION_HELP,
    duration_of,
    duration_text,
    time_text,
    wall_ms,
)
from penstock.cli.connection.access import Access, access_of, connect
from penstock.cli.connection.results import split_results, value_of
from penstock.cli.terminal.output import (
    CommandFailed,
    DryRunOption,
    ExitCode,
    Format,
    Row,
    WrongUsage,
    YesOrExecuteOption,
    confirm,
    counted,
    error_text,
    format_of,
    note,
    print_rows,
    report,
)
from penstock.cli.txn.open_transactions import (
    PartitionTransaction,
    ask_coordinators,
    hanging_transactions,
    idle_longer_than,
    open_transactions,
)
from penstock.client.admin.coordinator_values import AbortMarker, TransactionFilter
from penstock.errors import (
    InvalidProducerEpoch,
    KafkaError,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnsupportedVersion,
)
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.coordinator_values import TransactionDescription

MAX_TIMEOUT_DEFAULT = "15m"  # the default of transaction.max.timeout.ms
# Before the first transaction of a producer ends, its coordinator's epoch is unknown (-1). No
# coordinator has a lower epoch than this.
COORDINATOR_EPOCH_MIN = 0
COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "start_offset",
    "last_write",
    "idle",
)


@on_cluster
def find_hanging(
    context: typer.Context,
    *,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker",
            metavar="ID",
            help="As the replicas on this broker know it, not the leaders.",
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Default: all topics.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Of --topic. Default: all.")
    ] = None,
    max_timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help=f"Transactions that were written to since are not looked at. {DURATION_HELP}",
        ),
    ] = MAX_TIMEOUT_DEFAULT,
) -> None:
    """Find transactions that nobody will end: their coordinator does not know of them."""
    limit_ms = duration_of("--max-timeout", max_timeout)
    if partition is not None and topic is None:
        raise WrongUsage("--partition needs --topic")
    with connect(access_of(context)) as admin:
        searched = _searched(admin, broker, topic, partition)
        answered, failed = split_results(admin.transactions.producers(searched, broker=broker))
        now_ms = wall_ms()
        candidates = idle_longer_than(open_transactions(answered), limit_ms, now_ms)
        known = ask_coordinators(admin, (each.producer.producer_id for each in candidates))
        stuck = hanging_transactions(candidates, known)
    chosen = format_of(context)
    row = _hanging_row if chosen is not Format.TABLE else _hanging_cells
    print_rows(chosen, COLUMNS, [row(each, now_ms) for each in stuck])
    for each, error in failed.items():
        note(f"error: {each}: {error_text(error)}")
    looked = f"{counted(len(answered), 'partition')} looked at"
    if stuck:
        note(f"{looked}; `penstock txn abort` with topic, partition and start offset ends one")
    else:
        note(f"{looked}; no transaction hangs")
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if answered else ExitCode.REJECTED)


def _searched(
    admin: "Admin", broker: int | None, topic: str | None, partition: int | None
) -> list[TopicPartition]:
    """Return the partitions to search; with a broker, those with a replica on it."""
    if topic is not None:
        named = partitions_of(admin, topic, [] if partition is None else [partition])
        if broker is None or partition is not None:
            return named
    return [
        TopicPartition(each.name, part.partition)
        for each in admin.list_topics()
        if topic is None or each.name == topic
        for part in each.partitions
        if broker is None or broker in part.replicas
    ]


def _hanging_row(each: PartitionTransaction, now_ms: int) -> Row:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.producer_epoch,
        "coordinator_epoch": each.producer.coordinator_epoch,
        "start_offset": each.start_offset,
        "last_timestamp": each.producer.last_timestamp,
        "idle_ms": now_ms - each.producer.last_timestamp,
    }


def _hanging_cells(each: PartitionTransaction, now_ms: int) -> Row:
    return {
        **_hanging_row(each, now_ms),
        "last_write": time_text(each.producer.last_timestamp),
        "idle": duration_text(now_ms - each.producer.last_timestamp),
    }


@on_cluster
def abort(
    context: typer.Context,
    transactional_id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A transactional id: what it has open, everywhere."),
    ] = None,
    *,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="Where a hanging one is open."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, max=INT32_MAX, help="Of the topic.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            min=0, max=INT64_MAX, help="Where the transaction begins, as find-hanging shows it."
        ),
    ] = None,
    producer_id: Annotated[
        int | None,
        typer.Option(min=0, max=INT64_MAX, help="With the two epochs, instead of --start-offset."),
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(min=0, max=INT16_MAX, help="Of the producer.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option(min=-1, max=INT32_MAX, help="Of its coordinator.")
    ] = None,
    yes: YesOrExecuteOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Abort what an id has open; or a hanging one in one partition, past its coordinator."""
    if transactional_id is not None and topic is None and partition is None:
        access, form = access_of(context), format_of(context)
        abort_open(access, transactional_id, form, yes=yes, dry_run=dry_run)
        return
    if transactional_id is not None or topic is None or partition is None:
        raise WrongUsage("say which transaction: ID, or --topic and --partition of a hanging one")
    where = TopicPartition(topic, partition)
    said = _parse_marker(where, start_offset, producer_id, producer_epoch, coordinator_epoch)
    access = access_of(context)
    with connect(access) as admin:
        partitions_of(admin, topic, [partition])
        marker = said if isinstance(said, AbortMarker) else _marker(admin, where, said)
        _warn_if_owned(admin, marker)
        if not dry_run:
            whose = f"producer {marker.producer_id}"
            confirm(f"Abort what {whose} has open in {where} at {access.where}?", yes=yes)
        error = None if dry_run else admin.transactions.abort(marker)
    chosen = format_of(context)
    if not dry_run:
        failed = {} if error is None else {str(where): _abort_rejection(marker, error)}
        report(chosen, [] if failed else [str(where)], failed, "aborted")
        return
    row: Row = {
        "topic": topic,
        "partition": partition,
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "coordinator_epoch": marker.coordinator_epoch,
        "start_offset": start_offset,
    }
    print_rows(chosen, tuple(row), [row])
    note("nothing was written; --yes aborts this transaction in this partition")


def _parse_marker(
    where: TopicPartition,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> AbortMarker | int:
    """Return the marker if all its parts are given, else the start offset."""
    match start_offset, producer_id, producer_epoch, coordinator_epoch:
        case int(offset), None, None, None:
            return offset
        case None, int(number), int(epoch), int(coordinator):
            return AbortMarker(where, number, epoch, max(coordinator, COORDINATOR_EPOCH_MIN))
        case _:
            raise WrongUsage(
                "say which transaction: --start-offset, or --producer-id, --producer-epoch and "
                "--coordinator-epoch together"
            )


def _marker(admin: "Admin", where: TopicPartition, start_offset: int) -> AbortMarker:
    found = value_of(admin.transactions.producers([where])[where])
    opened = open_transactions({where: found})
    for each in opened:
        if each.start_offset == start_offset:
            state = each.producer
            epoch = max(state.coordinator_epoch, COORDINATOR_EPOCH_MIN)
            return AbortMarker(where, state.producer_id, state.producer_epoch, epoch)
    begins = ", ".join(str(each.start_offset) for each in opened)
    there = f"open ones begin at {begins}" if opened else "none is open there"
    raise CommandFailed(f"no transaction in {where} begins at offset {start_offset}; {there}")


def _warn_if_owned(admin: "Admin", marker: AbortMarker) -> None:
    try:
        known = ask_coordinators(admin, [marker.producer_id])
    except UnsupportedVersion as problem:
        note(f"warning: whether this transaction hangs is not known: {problem.message}")
        return
    owner = known.owner(marker.partition, marker.producer_id)
    if owner is not None:
        note(
            f"warning: this transaction does not hang: {owner.transactional_id} has it open "
            f"({owner.state}) and may still commit it elsewhere"
        )


def _abort_rejection(marker: AbortMarker, error: KafkaError) -> KafkaError:
    """Return the error with a next step."""
    again = "`penstock txn find-hanging` shows what is open now"
    match error:
        case InvalidProducerEpoch():
            return InvalidProducerEpoch(
                f"producer {marker.producer_id} has a newer epoch than {marker.producer_epoch} "
                f"here by now; {again}"
            )
        case TransactionCoordinatorFenced():
            return TransactionCoordinatorFenced(
                f"a coordinator newer than {marker.coordinator_epoch} has written here by now; "
                f"{again}"
            )
        case _:
            return error


ONGOING = "Ongoing"
DECIDED = ("PrepareCommit", "PrepareAbort")


def abort_open(
    access: Access, transactional_id: str, form: Format, *, yes: bool, dry_run: bool
) -> None:
    """Abort the open transaction of an id and fence its producer; print the result."""
    with connect(access) as admin:
        found = _open_transaction(admin, transactional_id)
        if dry_run:
            row: Row = {
                "transactional_id": transactional_id,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "partitions": partitions_text(found.partitions),
            }
            print_rows(form, tuple(row), [row])
            note("nothing was changed; --yes aborts this transaction and fences its producer")
            return
        confirm(
            f"Abort the transaction of {transactional_id} at {access.where}, and fence its "
            "producer?",
            yes=yes,
        )
        fenced = admin.transactions.fence([transactional_id])[transactional_id]
    failed = {transactional_id: fenced} if isinstance(fenced, KafkaError) else {}
    report(form, [] if failed else [transactional_id], failed, "aborted")


def _open_transaction(admin: "Admin", transactional_id: str) -> "TransactionDescription":
    found = admin.transactions.describe([transactional_id])[transactional_id]
    if isinstance(found, TransactionalIdNotFound):
        listed = admin.transactions.list_all(TransactionFilter())
        near = nearest(transactional_id, (each.transactional_id for each in listed))
        hint = f"did you mean {near}?" if near else "`penstock txn list` shows which there are"
        raise CommandFailed(f"there is no transactional id {transactional_id}; {hint}")
    if isinstance(found, KafkaError):
        raise found
    if found.state in DECIDED:
        raise CommandFailed(
            f"{transactional_id} is in {found.state}: its end is decided, and its markers are "
            "being written"
        )
    if found.state != ONGOING:
        raise CommandFailed(f"{transactional_id} has no open transaction: it is {found.state}")
    return found
