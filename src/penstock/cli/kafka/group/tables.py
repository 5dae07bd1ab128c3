"""The tables of kafka-consumer-groups --describe: Kafka's columns, Kafka's widths."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.client.admin.coordinator_values import GroupDescription, GroupMember
from penstock.model import TopicPartition

WIDTH_MIN = 15
INSTANCE_WIDTH_MIN = 17
COORDINATOR_WIDTH_MIN = 25
MISSING = "-"


class OffsetRow(NamedTuple):
    group: str
    partition: TopicPartition
    leader_epoch: int | None
    committed: int | None
    log_end: int | None
    lag: int | None
    member_id: str
    host: str
    client_id: str


class Column(NamedTuple):
    head: str
    width_min: int
    cells: Sequence[str]


def print_error(text: str) -> None:
    """Print an error to stdout, as Kafka's tool does."""
    print(f"\nError: {text}")


def offsets_table(rows: Sequence[OffsetRow], *, verbose: bool) -> Iterator[str]:
    if not rows:
        return
    columns = [
        Column("GROUP", WIDTH_MIN, [row.group for row in rows]),
        Column("TOPIC", WIDTH_MIN, [row.partition.topic for row in rows]),
        Column("PARTITION", 10, [str(row.partition.partition) for row in rows]),
        Column("LEADER-EPOCH", WIDTH_MIN, [_shown(row.leader_epoch) for row in rows]),
        Column("CURRENT-OFFSET", WIDTH_MIN, [_shown(row.committed) for row in rows]),
        Column("LOG-END-OFFSET", WIDTH_MIN, [_shown(row.log_end) for row in rows]),
        Column("LAG", WIDTH_MIN, [_shown(row.lag) for row in rows]),
        Column("CONSUMER-ID", WIDTH_MIN, [row.member_id for row in rows]),
        Column("HOST", WIDTH_MIN, [row.host for row in rows]),
        Column("CLIENT-ID", 0, [row.client_id for row in rows]),
    ]
    if not verbose:
        del columns[3]
    yield ""
    yield from (line.rstrip() for line in _lines(columns))


def members_table(group: GroupDescription, *, verbose: bool) -> Iterator[str]:
    members = group.members
    columns = [
        Column("GROUP", WIDTH_MIN, [group.group_id for _ in members]),
        Column("CONSUMER-ID", WIDTH_MIN, [each.member_id for each in members]),
        Column(
            "GROUP-INSTANCE-ID", INSTANCE_WIDTH_MIN, [each.instance_id or "" for each in members]
        ),
        Column("HOST", WIDTH_MIN, [f"/{each.host}" for each in members]),
        Column("CLIENT-ID", WIDTH_MIN, [each.client_id for each in members]),
        Column("#PARTITIONS", WIDTH_MIN, [str(len(each.assigned)) for each in members]),
    ]
    if not any(each.instance_id for each in members):
        del columns[2]
    if verbose:
        columns += _epochs(group, members)
    yield ""
    for line in _lines(columns):
        yield line[:-1] if verbose else line


def _epochs(group: GroupDescription, members: Sequence[GroupMember]) -> list[Column]:
    target_epoch = _shown(group.target_epoch)
    columns = [
        Column("CURRENT-EPOCH", WIDTH_MIN, [_shown(each.epoch) for each in members]),
        Column("CURRENT-ASSIGNMENT", 20, [_assignment(each.assigned) for each in members]),
        Column("TARGET-EPOCH", WIDTH_MIN, [target_epoch for _ in members]),
        Column("TARGET-ASSIGNMENT", 20, [_assignment(each.target) for each in members]),
    ]
    if any(each.upgraded is False for each in members):
        said = [str(each.upgraded).lower() for each in members]
        columns.append(Column("UPGRADED", 0, said))
    return columns


def states_table(group: GroupDescription, coordinator: str, *, verbose: bool) -> Iterator[str]:
    columns = [
        Column("GROUP", WIDTH_MIN, [group.group_id]),
        Column("COORDINATOR (ID)", COORDINATOR_WIDTH_MIN, [coordinator]),
        Column("ASSIGNMENT-STRATEGY", 20, [group.assignor or MISSING]),
        Column("STATE", 20, [group.state]),
    ]
    if verbose:
        columns += [
            Column("GROUP-EPOCH", WIDTH_MIN, [_shown(group.epoch)]),
            Column("TARGET-ASSIGNMENT-EPOCH", 25, [_shown(group.target_epoch)]),
        ]
    columns.append(Column("#MEMBERS", 0, [str(len(group.members))]))
    yield ""
    yield from (line.rstrip() for line in _lines(columns))


def _lines(columns: Sequence[Column]) -> Iterator[str]:
    """Yield the heads and the rows, with all cells padded."""
    widths = [max([each.width_min, *map(len, each.cells)]) for each in columns]
    rows = [[each.head for each in columns], *zip(*(each.cells for each in columns), strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}} " for cell, width in zip(row, widths, strict=True))
        yield "".join(cells)


def _assignment(partitions: Sequence[TopicPartition] | None) -> str:
    """Return `orders:0,1;other:2`."""
    if not partitions:
        return MISSING
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, some))}" for topic, some in topics.items())


def _shown(value: int | None) -> str:
    return MISSING if value is None else str(value)
