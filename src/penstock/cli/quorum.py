"""`penstock quorum describe`: the metadata quorum."""

from typing import TYPE_CHECKING

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import duration_text, wall_ms
from penstock.cli.connection.access import access_of, connect
from penstock.cli.terminal.output import (
    CommandFailed,
    ExitCode,
    Format,
    Row,
    format_of,
    print_rows,
    print_value,
)
from penstock.model import id_to_text

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.cluster_values import QuorumDescription, QuorumReplica

app = typer.Typer(help="The metadata quorum.", no_args_is_help=True)

ANSWER_SECONDS_MAX = 5.0
COLUMNS = ("node", "role", "log_end", "lag", "last_fetch", "caught_up")


@app.command()
@on_cluster
def describe(context: typer.Context) -> None:
    """Describe the quorum: who leads it, how far it is, who votes and who follows."""
    with connect(access_of(context)) as admin:
        found = _describe(admin)
    now_ms = wall_ms()
    replicas = replica_rows(found, now_ms)
    form = format_of(context)
    if form is not Format.TABLE:
        listeners: Row = {
            str(node): [f"{each.name}://{each.host}:{each.port}" for each in answered]
            for node, answered in found.nodes.items()
        }
        print_value(
            form,
            {
                "leader": found.leader_id,
                "leader_epoch": found.leader_epoch,
                "high_watermark": found.high_watermark,
                "replicas": [*replicas],
                "listeners": listeners,
            },
        )
        return
    print(
        f"node {found.leader_id} leads in epoch {found.leader_epoch}, "
        f"committed up to offset {found.high_watermark}"
    )
    print_rows(Format.TABLE, COLUMNS, [_cells(row) for row in replicas])


def _describe(admin: "Admin") -> "QuorumDescription":
    from penstock.client.failures.kinds import TimedOut
    from penstock.client.transport.connection import CannotReach

    try:
        with admin.within(ANSWER_SECONDS_MAX):
            return admin.quorum.describe()
    except (CannotReach, TimedOut):
        cluster = admin.describe_cluster()  # raises CannotReach if no node answers at all
        raise CommandFailed(
            f"cluster {cluster.cluster_id} has no active controller: most of its controllers must "
            "run and reach each other. Their logs tell which one each of them waits for",
            ExitCode.CANNOT_REACH,
        ) from None


def replica_rows(quorum: "QuorumDescription", now_ms: int) -> list[Row]:
    """Return a row for each voter and observer, with the lag behind the leader."""
    everyone = (*quorum.voters, *quorum.observers)
    ends = [each.log_end_offset for each in everyone if each.node_id == quorum.leader_id]
    end = ends[0] if ends else max((each.log_end_offset for each in everyone), default=0)
    voters = {each.node_id for each in quorum.voters}

    def row(each: "QuorumReplica") -> Row:
        leads = each.node_id == quorum.leader_id
        known = each.log_end_offset >= 0
        return {
            "node": each.node_id,
            "role": "leader" if leads else "voter" if each.node_id in voters else "observer",
            "directory_id": None if each.directory_id is None else id_to_text(each.directory_id),
            "log_end": each.log_end_offset if known else None,
            "lag": end - each.log_end_offset if known else None,
            "since_fetch_ms": _since(each.last_fetch_ms, now_ms),
            "since_caught_up_ms": _since(each.last_caught_up_ms, now_ms),
        }

    return [row(each) for each in everyone]


def _since(then_ms: int | None, now_ms: int) -> int | None:
    return None if then_ms is None else max(0, now_ms - then_ms)


def _cells(row: Row) -> Row:
    words: Row = {}
    for column, key in ("last_fetch", "since_fetch_ms"), ("caught_up", "since_caught_up_ms"):
        since = row[key]
        words[column] = f"{duration_text(since)} ago" if isinstance(since, int) else None
    return {**row, **words}
