"""Dead letters as values, choices among these, and marks of replays: pure.

A replay writes a mark into the dead-letter topic, in the transaction that writes the records again:
a record without key and value whose header names the offsets of its own partition.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.client.records import Headers, Record
from penstock.retry.partition_state import Write
from penstock.retry.retry_headers import NoTrail, Trail, own_headers, read_trail

MARK = "penstock-dead-replayed"
# Names the dead letter that a replayed record was made of; stays with the record's own headers.
REPLAYED = "penstock-replayed-from"

Raw = Record[bytes, bytes]
# Offsets from the first to the last, both included.
Range = tuple[int, int]


class NoChoice(ValueError):
    """The text does not name partitions and offsets."""


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """Return offsets as ascending ranges."""
    ranges: list[Range] = []
    for offset in sorted(offsets):
        if ranges and offset <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(offset, ranges[-1][1]))
        else:
            ranges.append((offset, offset))
    return ranges


def ranges_text(ranges: Iterable[Range]) -> str:
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def parse_ranges(text: str) -> list[Range]:
    """Parse `3`, `5-9`, or several with commas between; raise NoChoice for other texts."""
    ranges = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise NoChoice(f"{part!r} is no range of offsets; say 5-9 or 3,7")
        ranges.append((int(low), int(high) if dash else int(low)))
        if ranges[-1][0] > ranges[-1][1]:
            raise NoChoice(f"{part!r} ends before it begins")
    return ranges


class OffsetRanges:
    """A set of offsets, kept as ranges."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges: list[Range] = []
        for each in ranges:
            self.add(each)

    def add(self, added: Range) -> None:
        low, high = added
        kept = []
        for each in self._ranges:
            if each[1] < low - 1 or each[0] > high + 1:
                kept.append(each)
            else:
                low, high = min(low, each[0]), max(high, each[1])
        self._ranges = sorted([*kept, (low, high)])

    def __contains__(self, offset: object) -> bool:
        assert isinstance(offset, int)
        at = bisect_right(self._ranges, (offset, float("inf"))) - 1
        return at >= 0 and self._ranges[at][0] <= offset <= self._ranges[at][1]

    @property
    def ranges(self) -> list[Range]:
        return list(self._ranges)


def mark_of(topic: str, partition: int, offsets: Iterable[int]) -> Write:
    said = ranges_text(ranges_of(offsets)).encode()
    return Write(topic, None, None, ((MARK, said),), partition)


def read_mark(record: Raw) -> list[Range] | None:
    """Return the replayed ranges of a mark; None if the record is no mark."""
    said = record.header(MARK)
    if said is None or record.key is not None or record.value is not None:
        return None
    try:
        return parse_ranges(said.decode())
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Letter:
    """One record of a dead-letter topic; `trail` is None if a retry did not write the record."""

    record: Raw
    trail: Trail | None
    replayed: bool = False

    @classmethod
    def of(cls, record: Raw, *, replayed: bool = False) -> "Letter":
        try:
            return cls(record, read_trail(record.headers), replayed)
        except NoTrail:
            return cls(record, None, replayed)

    @property
    def is_dead(self) -> bool:
        """Return whether the record was given up: a record that waits on a step has a due time."""
        return self.trail is not None and self.trail.due_ms is None

    @property
    def own_headers(self) -> Headers:
        return own_headers(self.record.headers)

    def again(self, topic: str, now_ms: int) -> Write:
        """Return the record for a retry topic of its group: due now, with all attempts left."""
        assert self.trail is not None, "only what has a trail can be tried again"
        trail = replace(self.trail, attempts=0, due_ms=now_ms, cause="")
        record = self.record
        headers = trail.headers(self._told())
        return Write(topic, record.key, record.value, headers, record.partition)

    def to_source(self) -> Write:
        """Return the record for its source, where every group reads it again."""
        assert self.trail is not None, "only what has a trail has a source"
        record = self.record
        return Write(self.trail.topic, record.key, record.value, self._told(), self.trail.partition)

    def _told(self) -> Headers:
        record = self.record
        kept = [each for each in self.own_headers if each[0] != REPLAYED]
        said = f"{record.topic}-{record.partition}@{record.offset}".encode()
        return (*kept, (REPLAYED, said))


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of letters: all conditions have to hold; without conditions, all letters."""

    offsets: Mapping[int, OffsetRanges] | None = None
    keys: frozenset[bytes] = field(default_factory=frozenset)
    cause: str | None = None  # a part of its text; case does not matter
    replayed: bool | None = False

    def holds(self, letter: Letter) -> bool:
        record = letter.record
        if self.replayed is not None and letter.replayed is not self.replayed:
            return False
        if self.offsets is not None and record.offset not in self.offsets.get(
            record.partition, OffsetRanges()
        ):
            return False
        if self.keys and record.key not in self.keys:
            return False
        if self.cause is None:
            return True
        cause = letter.trail.cause if letter.trail is not None else ""
        return self.cause.lower() in cause.lower()


def parse_partition_offsets(said: Iterable[str]) -> dict[int, OffsetRanges]:
    """Parse `PARTITION` or `PARTITION:OFFSETS`, e.g. `0:5-9,12`."""
    found: dict[int, OffsetRanges] = {}
    for each in said:
        number, colon, ranges = each.partition(":")
        if not number.isdecimal():
            raise NoChoice(
                f"{each!r} does not begin with a partition; say 0:5-9, or 0 for all of it"
            )
        offsets = found.setdefault(int(number), OffsetRanges())
        for part in parse_ranges(ranges) if colon else [(0, 2**63 - 1)]:
            offsets.add(part)
    return found
