"""Assertions for tests of Kafka programs: a group has caught up, these records are committed.

The assertions need only an address, so they work against any Kafka; a cluster of this package may
stand for its address. Each repeats its check until its time is up, tolerates an unreachable cluster
meanwhile, and ends with an AssertionError about the difference.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import methodcaller
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.bulk.scan import ReadRange, scan
from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import GroupDescription
from penstock.client.raw.outcomes import PartitionFailure
from penstock.client.raw.range_reader import FetchedBatches, OffsetRange, Patience, RangeReader
from penstock.client.records import Record, TimestampType
from penstock.client.transport.connection import CannotReach, NotAuthenticated
from penstock.client.values import At, FoundOffset
from penstock.errors import KafkaError, UnknownTopicOrPartition
from penstock.model import TopicPartition
from penstock.testing.differences import difference
from penstock.wire.batch import APPEND_TIME, ATTRIBUTES, LENGTH, LENGTH_OVERHEAD, read_records

WAIT_SECONDS_DEFAULT = 30.0
RECORDS_SECONDS_DEFAULT = 10.0
REQUEST_SECONDS_MIN, REQUEST_SECONDS_MAX = 1.0, 10.0
LOOK_AGAIN_SECONDS_MIN = 0.01
LOOK_AGAIN_SECONDS_MAX = 0.2
PROBE_BYTES = 64 * 1024
LEFT_SHOWN_MAX = 20
PATIENCE = Patience(timeout_ms=round(REQUEST_SECONDS_MAX * 1000))
# pytest shows the line of the test and hides these functions; errors keep their frames.
__tracebackhide__ = methodcaller("errisinstance", AssertionError)


class HasBootstrap(Protocol):
    @property
    def bootstrap(self) -> str: ...


Where: TypeAlias = str | HasBootstrap
Reader: TypeAlias = Callable[[bytes], Any]


class Unsettled(Exception):
    """The check does not hold yet; the text tells the difference."""


# -- a group has caught up


class Lag(NamedTuple):
    """The uncommitted records of a partition for a group; None: the group has no commit."""

    partition: TopicPartition
    committed: int | None
    end: int

    def __str__(self) -> str:
        if self.committed is None:
            return f"{self.partition}: nothing committed, the end is {self.end}"
        left = self.end - self.committed
        return f"{self.partition}: committed {self.committed}, {left} before the end {self.end}"


def wait_until_caught_up(
    where: Where,
    group: str,
    topic: str | Sequence[str] | None = None,
    *,
    timeout_s: float = WAIT_SECONDS_DEFAULT,
) -> None:
    """Wait until a group has committed everything that these topics held at the call.

    Without a topic: those that the group reads. Transaction markers and aborted records are not
    readable: a commit just before them counts.
    """
    named = [topic] if isinstance(topic, str) else topic
    ends: dict[TopicPartition, int] = {}

    def look(admin: Admin) -> None:
        topics = named if named is not None else _topics_of(admin, group)
        if not topics:
            raise Unsettled("it reads no topic, and has committed nothing")
        partitions = [each for name in topics for each in _partitions(admin, name)]
        fresh = [each for each in partitions if each not in ends]
        ends.update(_offsets(admin, fresh, At.END))
        left = _left(admin, group, partitions, ends)
        if left:
            raise Unsettled(_lag_text(left))

    def describe_lag(admin: Admin) -> str:
        return f"group {group} ({_state(admin, group)}) has not caught up"

    _settle(where, look, timeout_s, describe_lag)


def _topics_of(admin: Admin, group: str) -> list[str]:
    places = list(admin.groups.offsets(group))
    found = admin.groups.describe([group])[group]
    if isinstance(found, GroupDescription):
        places += [each for member in found.members for each in member.assigned]
    return list(dict.fromkeys(each.topic for each in sorted(places)))


def _state(admin: Admin, group: str) -> str:
    found = admin.groups.describe([group])[group]
    if not isinstance(found, GroupDescription):
        return "not known to the cluster"
    members = ", ".join(each.client_id or each.member_id for each in found.members)
    return f"{found.state}, members: {members or 'none'}"


def _left(
    admin: Admin,
    group: str,
    partitions: Sequence[TopicPartition],
    ends: dict[TopicPartition, int],
) -> list[Lag]:
    committed = admin.groups.offsets(group)
    begins = _offsets(admin, partitions, At.BEGINNING)
    left = []
    for each in partitions:
        known = committed.get(each)
        start = max(begins[each], -1 if known is None else known.offset)
        if start < ends[each] and _holds_records(admin, OffsetRange(each, start, ends[each])):
            left.append(Lag(each, None if known is None else known.offset, ends[each]))
    return left


def _holds_records(admin: Admin, asked: OffsetRange) -> bool:
    reader = RangeReader(
        admin.nodes, [asked], committed_only=True, chunk_bytes=PROBE_BYTES, patience=PATIENCE
    )
    return any(True for chunk in reader.chunks() for _ in _records(chunk))


def _lag_text(left: Sequence[Lag]) -> str:
    shown = [str(each) for each in left[:LEFT_SHOWN_MAX]]
    if len(left) > LEFT_SHOWN_MAX:
        shown.append(f"... and {len(left) - LEFT_SHOWN_MAX} more partitions")
    return "".join(f"\n  {each}" for each in shown)


# -- records


def read_committed(
    where: Where,
    topic: str,
    *,
    key: Reader | None = None,
    value: Reader | None = None,
    timeout_s: float = WAIT_SECONDS_DEFAULT,
) -> list[Record[Any, Any]]:
    """Return all committed records of a topic, in order within each partition.

    Records of open and aborted transactions are left out. `key` and `value` convert bytes for the
    comparison, e.g. value=json.loads.
    """
    found: list[Record[Any, Any]] = []

    def look(admin: Admin) -> None:
        reading = _Reading(topic, key, value)
        reading.go_on(admin)
        found[:] = reading.records()

    _settle(where, look, timeout_s, lambda _: f"topic {topic} could not be read")
    return found


def assert_records(
    where: Where,
    topic: str,
    expected: Iterable[object],
    *,
    in_order: bool = True,
    key: Reader | None = None,
    value: Reader | None = None,
    timeout_s: float = RECORDS_SECONDS_DEFAULT,
) -> list[Record[Any, Any]]:
    """Check that a topic holds these records and no others, and return them.

    Missing records may arrive until the timeout. Expected are values, or pairs of key and value;
    text stands for its UTF-8 where bytes are read. Records of one partition must come in the order
    of `expected`, unless `in_order` is False; Kafka promises no order between partitions.
    """
    if isinstance(expected, str | bytes):
        raise TypeError(
            f"expected is a list of values, or of pairs of key and value, not one value: "
            f"assert_records(cluster, {topic!r}, [{expected!r}])"
        )
    if not isinstance(expected, Iterable):
        raise TypeError(
            f"expected is a list of values, or of pairs of key and value, not {expected!r}; "
            f"one value is given as [{expected!r}]"
        )
    wanted = list(expected)
    reading = _Reading(topic, key, value)
    found: list[Record[Any, Any]] = []

    def look(admin: Admin) -> None:
        reading.go_on(admin)
        found[:] = reading.records()
        differs = difference(found, wanted, in_order=in_order)
        if differs is None:
            return
        if differs.may_still_come:
            raise Unsettled(str(differs))
        raise AssertionError(f"topic {topic} is not as expected: {differs}")

    _settle(where, look, timeout_s, lambda _: f"topic {topic} is not as expected")
    return found


class _Reading:
    """The records of a topic read so far; later steps read the new ones."""

    def __init__(self, topic: str, key: Reader | None, value: Reader | None) -> None:
        self._topic = topic
        self._key = key
        self._value = value
        self._positions: dict[TopicPartition, int] = {}
        self._found: dict[TopicPartition, list[Record[Any, Any]]] = {}

    def go_on(self, admin: Admin) -> None:
        partitions = _partitions(admin, self._topic)
        fresh = [each for each in partitions if each not in self._positions]
        self._positions.update(_offsets(admin, fresh, At.BEGINNING))
        ends = _offsets(admin, partitions, At.END)
        ranges = [
            OffsetRange(each, self._positions[each], ends[each])
            for each in partitions
            if self._positions[each] < ends[each]
        ]
        came: dict[TopicPartition, list[Record[Any, Any]]] = {}
        reader = RangeReader(admin.nodes, ranges, committed_only=True, patience=PATIENCE)
        for chunk in reader.chunks():
            came.setdefault(chunk.partition, []).extend(_records(chunk, self._key, self._value))
        for each in ranges:  # all or nothing, so that a failed step can be repeated
            self._positions[each.partition] = each.end
            self._found.setdefault(each.partition, []).extend(came.get(each.partition, ()))

    def records(self) -> list[Record[Any, Any]]:
        return [record for each in sorted(self._found) for record in self._found[each]]


def _records(
    chunk: FetchedBatches, key: Reader | None = None, value: Reader | None = None
) -> Iterator[Record[Any, Any]]:
    """Yield the committed records of a chunk."""
    wanted = ReadRange(str(chunk.partition), chunk.start, chunk.end, check_crc=True)
    for position, header in scan(chunk.records, wanted, chunk.aborted).batches:
        stamped = header[ATTRIBUTES] & APPEND_TIME
        kind = TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME
        end = position + LENGTH_OVERHEAD + header[LENGTH]
        for each in read_records(chunk.records[position:end]):
            if chunk.start <= each.offset < chunk.end:
                yield Record(
                    chunk.partition.topic,
                    chunk.partition.partition,
                    each.offset,
                    each.key if key is None or each.key is None else key(each.key),
                    each.value if value is None or each.value is None else value(each.value),
                    tuple(each.headers),
                    each.timestamp,
                    kind,
                )


# -- requests


def _partitions(admin: Admin, topic: str) -> list[TopicPartition]:
    found = admin.describe_topics([topic])[topic]
    if isinstance(found, UnknownTopicOrPartition):
        raise Unsettled(f"topic {topic} does not exist")
    if isinstance(found, KafkaError):
        raise found
    return [TopicPartition(topic, each.partition) for each in found.partitions]


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], place: At
) -> dict[TopicPartition, int]:
    """Return the first offsets of partitions, or the last stable ones."""
    if not partitions:
        return {}
    found = admin.offsets(dict.fromkeys(partitions, int(place)), committed_only=True)
    offsets = {}
    for each, offset in found.items():
        if not isinstance(offset, FoundOffset):
            raise offset
        offsets[each] = offset.offset
    return offsets


def _settle(
    where: Where,
    look: Callable[[Admin], None],
    timeout_s: float,
    describe: Callable[[Admin], str],
) -> None:
    """Repeat `look` until it passes; raise AssertionError with the last reason."""
    bootstrap = where if isinstance(where, str) else where.bootstrap
    until = time.monotonic() + timeout_s
    pause_s = LOOK_AGAIN_SECONDS_MIN
    request_s = min(REQUEST_SECONDS_MAX, max(REQUEST_SECONDS_MIN, timeout_s))
    with Admin(bootstrap=bootstrap, client_id="penstock-testing", timeout_s=request_s) as admin:
        while True:
            try:
                look(admin)
                return
            except NotAuthenticated:
                raise
            except (Unsettled, CannotReach, KafkaError, PartitionFailure) as problem:
                reason = _reason(problem)
                final = isinstance(problem, KafkaError) and not problem.retriable
            if final or time.monotonic() + pause_s > until:
                break
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_AGAIN_SECONDS_MAX)
        sentence = _sentence(admin, describe)
    gap = "" if reason.startswith("\n") else " "
    raise AssertionError(f"{sentence} within {timeout_s:g} s:{gap}{reason}")


def _reason(problem: Exception) -> str:
    if isinstance(problem, KafkaError):
        return f"{problem.kafka_name()}, {problem.message}"
    return str(problem)


def _sentence(admin: Admin, describe: Callable[[Admin], str]) -> str:
    try:
        return describe(admin)
    except (CannotReach, KafkaError):
        return "the cluster does not answer"
