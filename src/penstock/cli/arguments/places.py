"""Places in a partition as people say them.

    start, end            of the log; also beginning, earliest, latest
    100                   an offset
    -10, +5               so many offsets before the end, after the start
    @2026-01-01T00:00     the first record at or after a time (UTC unless it says otherwise); also
    @1767225600000        in milliseconds, and without the @ if it is a date

Offsets are counted, not records: markers of transactions and what compaction removed have some too.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.arguments.number_limits import DIGITS_MAX, INT64_MAX
from penstock.cli.arguments.partitions import offsets_at
from penstock.cli.arguments.times import parse_time
from penstock.cli.terminal.output import CommandFailed, WrongUsage
from penstock.client.values import At
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

PLACE_HELP = "start, end, an offset, -10 (before the end), +5 (after the start), or @ and a time."
_STARTS = ("start", "beginning", "earliest")
_ENDS = ("end", "latest")


class PlaceKind(Enum):
    START = "start"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    AFTER_START = "after the start"
    TIME = "time"


class LogPlace(NamedTuple):
    """A place in a log; `number` is an offset, a count or milliseconds."""

    kind: PlaceKind
    number: int = 0


def parse_place(text: str, option: str) -> LogPlace:
    if text in _STARTS:
        return LogPlace(PlaceKind.START)
    if text in _ENDS:
        return LogPlace(PlaceKind.END)
    sign, digits = text[:1], text[1:]
    if text.isdecimal():
        return _numbered(PlaceKind.OFFSET, text, option)
    if digits.isdecimal() and sign in _COUNTED:
        return _numbered(_COUNTED[sign], digits, option)
    try:
        return LogPlace(PlaceKind.TIME, parse_time(text.removeprefix("@")))
    except ValueError:
        raise WrongUsage(
            f"{option} {text}: must be start, end, an offset, -10 (before the end), +5 (after the "
            "start), or @ and a time such as @2026-01-31T12:00 or @ and milliseconds"
        ) from None


_COUNTED = {"-": PlaceKind.BEFORE_END, "+": PlaceKind.AFTER_START, "@": PlaceKind.TIME}


def _numbered(kind: PlaceKind, digits: str, option: str) -> LogPlace:
    if len(digits) > DIGITS_MAX or int(digits) > INT64_MAX:
        raise WrongUsage(f"{option} {digits}: too large")
    return LogPlace(kind, int(digits))


def find_place(
    admin: "Admin", partitions: Sequence[TopicPartition], place: LogPlace
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition.

    A time after the last record is the end. Raise CommandFailed for an offset outside the log.
    """
    if place.kind is PlaceKind.TIME:
        found = offsets_at(admin, dict.fromkeys(partitions, place.number))
        beyond = [each for each, offset in found.items() if offset < 0]
        return {**found, **offsets_at(admin, dict.fromkeys(beyond, At.END))}
    starts, ends = bounds(admin, partitions)
    return {each: _inside(place, each, starts[each], ends[each]) for each in partitions}


def bounds(
    admin: "Admin", partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the start and end offsets of the logs."""
    starts = offsets_at(admin, dict.fromkeys(partitions, At.BEGINNING))
    return starts, offsets_at(admin, dict.fromkeys(partitions, At.END))


def _inside(place: LogPlace, partition: TopicPartition, start: int, end: int) -> int:
    match place.kind:
        case PlaceKind.START:
            return start
        case PlaceKind.END:
            return end
        case PlaceKind.BEFORE_END:
            return max(start, end - place.number)
        case PlaceKind.AFTER_START:
            return min(end, start + place.number)
        case _ if start <= place.number <= end:
            return place.number
        case _:
            raise CommandFailed(
                f"partition {partition.partition} of {partition.topic} has offsets {start} to "
                f"{end}, not {place.number}; --partition chooses partitions"
            )
