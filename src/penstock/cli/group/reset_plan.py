"""Plans a reset of a group's offsets, and reads and writes plans as CSV: pure.

The file is Kafka's own: a line `topic,partition,offset` per partition, or the same behind a group.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from penstock.client.values import At
from penstock.model import TopicPartition


class ResetTo(Enum):
    """A place that each partition has."""

    EARLIEST = "the start of the log"
    LATEST = "the end of the log"
    CURRENT = "the committed offset, or the end without one"


@dataclass(frozen=True, slots=True)
class ToTime:
    """Go to the first record at or after a time, or to the end."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    count: int


@dataclass(frozen=True, slots=True)
class ToListed:
    offsets: Mapping[TopicPartition, int]


Aim: TypeAlias = ResetTo | ToTime | ToOffset | ShiftBy | ToListed


class PlannedOffsets(NamedTuple):
    """One partition before its reset."""

    log_start: int
    log_end: int
    committed: int | None
    at_time: int | None = None  # the offset for ToTime; None if no record is that late


def known_offsets(
    aim: Aim,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
    ask: Callable[[int], Mapping[TopicPartition, int]],
) -> dict[TopicPartition, PlannedOffsets]:
    """Return each partition before its reset; `ask` returns offsets at a place or a time."""
    starts, ends = ask(At.BEGINNING), ask(At.END)
    times = ask(aim.timestamp_ms) if isinstance(aim, ToTime) else {}
    return {
        each: PlannedOffsets(
            starts[each],
            ends[each],
            committed.get(each),
            times[each] if times.get(each, -1) >= 0 else None,
        )
        for each in partitions
    }


class OffsetMove(NamedTuple):
    """The new offset of one partition; `wanted` differs from it if it lies outside the log."""

    partition: TopicPartition
    committed: int | None
    wanted: int
    offset: int

    @property
    def note(self) -> str | None:
        if self.wanted == self.offset:
            return None
        place = "before the log's start" if self.wanted < self.offset else "after the log's end"
        return f"{self.wanted} is {place}, {self.offset} is taken"


class ResetRejected(Exception):
    """The reset is not possible; the text has the reason."""


def plan_moves(aim: Aim, known: Mapping[TopicPartition, PlannedOffsets]) -> list[OffsetMove]:
    """Return the moves in the order of partitions; every offset lies inside its log."""
    moves: list[OffsetMove] = []
    for partition, place in sorted(known.items()):
        wanted = _wanted(aim, partition, place)
        inside = min(max(wanted, place.log_start), place.log_end)
        moves.append(OffsetMove(partition, place.committed, wanted, inside))
    return moves


def _wanted(aim: Aim, partition: TopicPartition, known: PlannedOffsets) -> int:
    match aim:
        case ResetTo.EARLIEST:
            return known.log_start
        case ResetTo.LATEST:
            return known.log_end
        case ResetTo.CURRENT:
            return known.log_end if known.committed is None else known.committed
        case ToTime():
            return known.log_end if known.at_time is None else known.at_time
        case ToOffset(offset):
            return offset
        case ToListed(offsets):
            return offsets[partition]
        case ShiftBy(count):
            if known.committed is None:
                raise ResetRejected(
                    f"{partition} has no committed offset to shift; name other partitions with "
                    "--topic, or say --to-earliest or --to-latest"
                )
            return known.committed + count


def to_csv(moves: Iterable[OffsetMove]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for move in moves:
        writer.writerow((*move.partition, move.offset))
    return out.getvalue()


def from_csv(text: str, group: str) -> dict[TopicPartition, int]:
    """Return the offsets for a group; raise ResetRejected with the number of a wrong line."""
    listed: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == _COLUMNS_WITH_GROUP:
            if cells.pop(0) != group:
                continue
        partition, offset = _line(number, cells)
        if partition in listed:
            raise ResetRejected(f"line {number}: {partition} was in an earlier line already")
        listed[partition] = offset
    if not listed:
        raise ResetRejected(f"no line is for {group}")
    return listed


_COLUMNS_WITH_GROUP = 4
_COLUMNS = 3


def _line(number: int, cells: Sequence[str]) -> tuple[TopicPartition, int]:
    if len(cells) == _COLUMNS and cells[0] and cells[1].isdecimal() and cells[2].isdecimal():
        return TopicPartition(cells[0], int(cells[1])), int(cells[2])
    raise ResetRejected(f"line {number}: must be topic,partition,offset, such as orders,0,1500")
