"""Frames of `penstock top`: two snapshots of a cluster give a frame, a frame gives lines.

Pure. Rates are differences of end offsets between two snapshots, so the first frame has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from penstock.cli.connection.partition_health import partition_health
from penstock.cli.terminal.output import Json, Row, Style, counted, styled, table_lines
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.values import Broker, TopicDescription

BROKER_COLUMNS = (
    "broker",
    "address",
    "rack",
    "fenced",
    "controller",
    "leads",
    "replicas",
    "out_of_sync",
    "records_per_s",
    "under_replicated",
    "under_min_isr",
)
TOPIC_COLUMNS = ("topic", "partitions", "records_per_s", "share", "offsets", "unhealthy")
GROUP_COLUMNS = ("group", "state", "members", "lag", "lag_per_s")
# Headings, empty lines and the first line.
FIXED_LINES = 9
TABLE_ROWS_MIN = 3


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group with its committed offsets."""

    group_id: str
    state: str
    members: int | None
    committed: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment."""

    at_s: float
    cluster_id: str
    controller_id: int
    brokers: Sequence["Broker"]
    topics: Sequence["TopicDescription"]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    groups: Sequence[GroupSnapshot]
    groups_left_out: int = 0
    min_insync: Mapping[str, int] = field(default_factory=dict)  # of topics that lag


@dataclass(frozen=True, slots=True)
class TopFrame:
    """The rows of one frame, the busiest first."""

    cluster_id: str
    records_per_s: float | None
    brokers: list[Row]
    topics: list[Row]
    groups: list[Row]
    groups_left_out: int
    without_leader: int = 0  # partitions

    def as_json(self) -> Row:
        return asdict(self)


def frame_of(now: ClusterSnapshot, before: ClusterSnapshot | None) -> TopFrame:
    rates = partition_rates(now, before)
    total = None if rates is None else round(sum(rates.values()), 1)
    return TopFrame(
        now.cluster_id,
        total,
        _broker_rows(now, rates),
        _topic_rows(now, rates, total),
        _group_rows(now, before),
        now.groups_left_out,
        sum(each.leader < 0 for topic in now.topics for each in topic.partitions),
    )


def partition_rates(
    now: ClusterSnapshot, before: ClusterSnapshot | None
) -> dict[TopicPartition, float] | None:
    """Return new offsets per second; a topic that was created again has none yet."""
    if before is None or now.at_s <= before.at_s:
        return None
    seconds = now.at_s - before.at_s
    return {
        each: max(0, end - before.ends[each]) / seconds
        for each, end in now.ends.items()
        if each in before.ends
    }


def _broker_rows(now: ClusterSnapshot, rates: Mapping[TopicPartition, float] | None) -> list[Row]:
    rows: list[Row] = []
    health = partition_health(now.topics, now.min_insync)
    for broker in now.brokers:
        led = [
            TopicPartition(topic.name, each.partition)
            for topic in now.topics
            for each in topic.partitions
            if each.leader == broker.node_id
        ]
        held = [
            each
            for topic in now.topics
            for each in topic.partitions
            if broker.node_id in each.replicas
        ]
        rows.append(
            {
                "broker": broker.node_id,
                "address": f"{broker.host}:{broker.port}",
                "rack": broker.rack,
                "fenced": broker.fenced,
                "controller": broker.node_id == now.controller_id,
                "leads": len(led),
                "replicas": len(held),
                "out_of_sync": sum(broker.node_id not in each.in_sync for each in held),
                "records_per_s": _summed(rates, led),
                "under_replicated": _common(led, health.under_replicated),
                "under_min_isr": _common(led, health.under_min_isr),
            }
        )
    return rows


def _common(led: Sequence[TopicPartition], listed: Sequence[TopicPartition]) -> int:
    return len(frozenset(listed).intersection(led)) if listed else 0


def _topic_rows(
    now: ClusterSnapshot, rates: Mapping[TopicPartition, float] | None, total: float | None
) -> list[Row]:
    rows: list[Row] = []
    for topic in now.topics:
        places = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        rate = _summed(rates, places)
        known = [each for each in places if each in now.ends]
        unhealthy = sum(
            each.leader < 0 or len(each.in_sync) < len(each.replicas) for each in topic.partitions
        )
        rows.append(
            {
                "topic": topic.name,
                "partitions": len(places),
                "records_per_s": rate,
                "share": f"{100 * rate / total:.0f}%" if rate is not None and total else None,
                "offsets": sum(now.ends[each] - now.starts.get(each, 0) for each in known),
                "unhealthy": unhealthy,
            }
        )
    return sorted(rows, key=lambda row: (-_amount(row["records_per_s"]), -_amount(row["offsets"])))


def _group_rows(now: ClusterSnapshot, before: ClusterSnapshot | None) -> list[Row]:
    earlier = {} if before is None else {each.group_id: each for each in before.groups}
    rows: list[Row] = []
    for group in now.groups:
        lag = lag_of(group, now)
        change = None
        if before is not None and now.at_s > before.at_s and group.group_id in earlier:
            was = lag_of(earlier[group.group_id], before)
            if lag is not None and was is not None:
                change = round((lag - was) / (now.at_s - before.at_s), 1)
        rows.append(
            {
                "group": group.group_id,
                "state": group.state or None,
                "members": group.members,
                "lag": lag,
                "lag_per_s": change,
            }
        )
    return sorted(rows, key=lambda row: -_amount(row["lag"]))


def lag_of(group: GroupSnapshot, look: ClusterSnapshot) -> int | None:
    """Return the lag of existing partitions; None without committed offsets for these."""
    lags = [
        max(0, look.ends[each] - max(offset, look.starts.get(each, 0)))
        for each, offset in group.committed.items()
        if each in look.ends
    ]
    return sum(lags) if lags else None


def _summed(
    rates: Mapping[TopicPartition, float] | None, places: Sequence[TopicPartition]
) -> float | None:
    return None if rates is None else round(sum(rates.get(each, 0.0) for each in places), 1)


def _amount(value: Json) -> float:
    return value if isinstance(value, int | float) else -1.0


# -- lines


def lines_of(
    frame: TopFrame, *, rows: int, width: int | None = None, colours: bool = False
) -> list[str]:
    """Return the frame as lines, with limits for rows per table and characters per line."""
    rate = "-" if frame.records_per_s is None else f"{frame.records_per_s:,.1f}"
    said = [
        f"cluster {frame.cluster_id}: {counted(len(frame.brokers), 'broker')}, "
        f"{counted(len(frame.topics), 'topic')}, {counted(len(frame.groups), 'group')}, "
        f"{rate} records/s"
    ]
    if frame.without_leader:
        said[0] += f", {counted(frame.without_leader, 'partition')} without a leader"
    for columns, table in (
        (BROKER_COLUMNS, frame.brokers),
        (TOPIC_COLUMNS, frame.topics),
        (GROUP_COLUMNS, frame.groups),
    ):
        shown = [
            {name: _worded(name, value) for name, value in row.items()} for row in table[:rows]
        ]
        heading, *cells = table_lines(columns, shown)
        said += ["", styled(_cut(heading, width), Style.BOLD, wanted=colours)]
        said += [_cut(cell, width) for cell in cells]
        if len(table) > rows:
            said.append(f"... and {len(table) - rows:,} more")
    if frame.groups_left_out:
        said.append(f"... and {frame.groups_left_out:,} groups that were not asked about")
    return [_cut(said[0], width), *said[1:]]


def rows_that_fit(height: int) -> int:
    """Return the rows that each of the three tables may have on so many lines."""
    return max(TABLE_ROWS_MIN, (height - FIXED_LINES) // 3)


def _worded(name: str, value: Json) -> Json:
    if name == "broker" or isinstance(value, bool) or not isinstance(value, int | float):
        return value  # a broker id is no amount
    return f"{value:,}"


def _cut(text: str, width: int | None) -> str:
    return text if width is None else text[:width]
