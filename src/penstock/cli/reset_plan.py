"""Plans a reset of a group's offsets, and reads and writes plans as CSV. Asks nobody.

The file is Kafka's own: a line `topic,partition,offset` per partition, or the same behind a group.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ToEarliest:
    pass


@dataclass(frozen=True, slots=True)
class ToLatest:
    pass


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """What is committed stays; what is not begins at the end."""


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record at or after it; the end where there is none."""

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


Aim: TypeAlias = ToEarliest | ToLatest | ToCurrent | ToTime | ToOffset | ShiftBy | ToListed


class Known(NamedTuple):
    """One partition before its reset."""

    log_start: int
    log_end: int
    committed: int | None
    at_time: int | None = None  # what ToTime is looking for; None if there is no record that late


class Move(NamedTuple):
    """What becomes of one partition; `wanted` lies outside the log where it is not `offset`."""

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


class CannotPlan(Exception):
    """There is no such reset; the text says why."""


def plan(aim: Aim, known: Mapping[TopicPartition, Known]) -> list[Move]:
    """The moves, in order of partitions; every offset lies inside its log."""
    moves: list[Move] = []
    for partition, place in sorted(known.items()):
        wanted = _wanted(aim, partition, place)
        inside = min(max(wanted, place.log_start), place.log_end)
        moves.append(Move(partition, place.committed, wanted, inside))
    return moves


def _wanted(aim: Aim, partition: TopicPartition, known: Known) -> int:
    match aim:
        case ToEarliest():
            return known.log_start
        case ToLatest():
            return known.log_end
        case ToCurrent():
            return known.log_end if known.committed is None else known.committed
        case ToTime():
            return known.log_end if known.at_time is None else known.at_time
        case ToOffset(offset):
            return offset
        case ToListed(offsets):
            return offsets[partition]
        case ShiftBy(count):
            if known.committed is None:
                raise CannotPlan(
                    f"{partition} has no committed offset to shift; name other partitions with "
                    "--topic, or say --to-earliest or --to-latest"
                )
            return known.committed + count


def to_csv(moves: Iterable[Move]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for move in moves:
        writer.writerow((*move.partition, move.offset))
    return out.getvalue()


def from_csv(text: str, group: str) -> dict[TopicPartition, int]:
    """The offsets for a group; CannotPlan names the line that is wrong."""
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
            raise CannotPlan(f"line {number}: {partition} was in an earlier line already")
        listed[partition] = offset
    if not listed:
        raise CannotPlan(f"no line is for {group}")
    return listed


_COLUMNS_WITH_GROUP = 4
_COLUMNS = 3


def _line(number: int, cells: Sequence[str]) -> tuple[TopicPartition, int]:
    if len(cells) == _COLUMNS and cells[0] and cells[1].isdecimal() and cells[2].isdecimal():
        return TopicPartition(cells[0], int(cells[1])), int(cells[2])
    raise CannotPlan(f"line {number}: must be topic,partition,offset, such as orders,0,1500")
