"""Writes a Fetch response around file ranges, so that records leave by sendfile.

The general codec joins everything into one buffer; here the records stay in their files. A property
test proves that both write the same bytes.
"""

from collections.abc import Generator, Sequence
from struct import Struct
from typing import NamedTuple

from penstock.wire.codec import run_through
from penstock.wire.primitives import write_uvarint
from penstock.wire.structures import NodeEndpoint
from penstock.world import Buffer, FileRange, Part

FLEXIBLE, TOPIC_IDS, ENDPOINTS = 12, 13, 16
NO_TAGS = b"\0"
PARTITIONS_PER_SLICE = 500
_HEAD = Struct(">ii")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_SESSION = Struct(">ihi")
_PARTITION = Struct(">ihqqq")
_PARTITION_BEFORE_5 = Struct(">ihqq")
_ABORTED = Struct(">qq")


class PartitionAnswer(NamedTuple):
    """One partition of the response. A tuple: one is made per partition and fetch."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    records: Part
    tags: bytes = NO_TAGS


class Tagged(NamedTuple):
    """The rare tagged fields of a partition: the diverging epoch, the current leader."""

    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None

    def encode(self) -> bytes:
        fields = []
        if self.diverging_epoch is not None:
            fields.append((0, Struct(">iqb").pack(*self.diverging_epoch, 0)))
        if self.current_leader is not None:
            fields.append((1, Struct(">iib").pack(*self.current_leader, 0)))
        out = bytearray()
        write_uvarint(out, len(fields))
        for tag, value in fields:
            write_uvarint(out, tag)
            write_uvarint(out, len(value))
            out += value
        return bytes(out)


def fetch_answer(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[PartitionAnswer]]],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> list[Part]:
    """Return the whole frame, size included. A topic is its name, or from v13 its id. `endpoints`
    are those of the leaders in tags of partitions; they travel from v16 on."""
    return run_through(
        fetch_answer_in_slices(
            version, correlation_id, error_code, session_id, topics, endpoints, throttle_ms
        )
    )


def fetch_answer_in_slices(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[PartitionAnswer]]],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> Generator[None, None, list[Part]]:
    """Return the same frame, with pauses between partitions."""
    left = PARTITIONS_PER_SLICE
    flexible = version >= FLEXIBLE
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    if flexible:
        out += NO_TAGS
    if version >= 7:
        out += _SESSION.pack(throttle_ms, error_code, session_id)
    else:
        out += _INT32.pack(throttle_ms)
    parts: list[Part] = []
    _count(out, len(topics), flexible)
    for topic, partitions in topics:
        _topic(out, topic, version)
        _count(out, len(partitions), flexible)
        for answer in partitions:
            out = _partition(parts, out, answer, version)
            left -= 1
            if not left:
                left = PARTITIONS_PER_SLICE
                yield
        if flexible:
            out += NO_TAGS
    if endpoints and version >= ENDPOINTS:
        _endpoints(out, endpoints)
    elif flexible:
        out += NO_TAGS
    if out:  # before v12 nothing follows the records
        parts.append(out)
    size = sum(part.size if isinstance(part, FileRange) else len(part) for part in parts)
    first = parts[0]
    assert isinstance(first, bytearray), "an answer begins with its head"
    _INT32.pack_into(first, 0, size - 4)
    return parts


def _endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Write the tags of the answer: the array of endpoints alone, under tag 0."""
    value = bytearray()
    _count(value, len(endpoints), flexible=True)
    for each in endpoints:
        host = each.host.encode()
        value += _INT32.pack(each.node_id)
        write_uvarint(value, len(host) + 1)
        value += host
        value += _INT32.pack(each.port)
        rack = None if each.rack is None else each.rack.encode()
        write_uvarint(value, 0 if rack is None else len(rack) + 1)
        value += rack or b""
        value += NO_TAGS
    out += b"\1\0"
    write_uvarint(out, len(value))
    out += value


def _count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_uvarint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _topic(out: bytearray, topic: str | bytes, version: int) -> None:
    if isinstance(topic, bytes):
        out += topic
        return
    text = topic.encode()
    if version >= FLEXIBLE:
        write_uvarint(out, len(text) + 1)
    else:
        out += _INT16.pack(len(text))
    out += text


def _partition(
    parts: list[Part], out: bytearray, answer: PartitionAnswer, version: int
) -> bytearray:
    flexible = version >= FLEXIBLE
    if version >= 5:
        out += _PARTITION.pack(*answer[:5])
    else:
        out += _PARTITION_BEFORE_5.pack(*answer[:4])
    _aborted(out, answer.aborted, flexible)
    if version >= 11:
        out += b"\xff\xff\xff\xff"  # no preferred read replica
    records = answer.records
    size = records.size if isinstance(records, FileRange) else len(records)
    _count(out, size, flexible)
    if isinstance(records, FileRange):
        parts.append(out)
        parts.append(records)
        out = bytearray()
    else:
        out += records
    if flexible:
        out += answer.tags
    return out


def _aborted(out: bytearray, aborted: Sequence[tuple[int, int]] | None, flexible: bool) -> None:
    _count(out, -1 if aborted is None else len(aborted), flexible)
    for producer_id, first_offset in aborted or ():
        out += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            out += NO_TAGS


def joined(parts: Sequence[Part]) -> Buffer:
    """Return one buffer with the ranges read: for connections without sendfile, and for tests."""
    return b"".join(
        part.file.read_now(part.position, part.size) if isinstance(part, FileRange) else part
        for part in parts
    )
