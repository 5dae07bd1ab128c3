"""A partition's log in memory, with Kafka's rules for sequence numbers, for scripted servers."""

import struct
from collections import deque
from dataclasses import dataclass, field

from penstock.errors import InvalidProducerEpoch, OffsetOutOfRange, OutOfOrderSequenceNumber
from penstock.wire.batch import (
    BASE_SEQUENCE,
    HEADER,
    LAST_OFFSET_DELTA,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    Record,
    build_batch,
    read_records,
)

REMEMBERED_BATCHES = 5


def batch_of(
    *values: bytes, first: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    """A batch with these values; `producer` is id, epoch and the first sequence number."""
    return build_batch(
        [Record(first + place, 1_000, None, value) for place, value in enumerate(values)],
        base_offset=first,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


@dataclass
class _Producer:
    epoch: int
    last_sequence: int
    recent: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )


@dataclass
class ScriptedLog:
    """`readable` stands below the end while records are not stable or not replicated."""

    start: int = 0
    end: int = 0
    readable: int | None = None
    stored: list[tuple[int, int, bytes]] = field(default_factory=list)  # first, next, batch
    aborted: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, _Producer] = field(default_factory=dict)

    @property
    def upper(self) -> int:
        return self.end if self.readable is None else self.readable

    def values(self) -> list[bytes | None]:
        return [record.value for _, _, batch in self.stored for record in read_records(batch)]

    def append(self, batch: bytes) -> int:
        """Its first offset; that of the first time for one that is remembered."""
        header = HEADER.unpack_from(batch)
        producer_id, epoch, first = (
            header[PRODUCER_ID],
            header[PRODUCER_EPOCH],
            header[BASE_SEQUENCE],
        )
        last = first + header[LAST_OFFSET_DELTA]
        if producer_id >= 0:
            known = self.producers.get(producer_id)
            if known is not None and epoch < known.epoch:
                raise InvalidProducerEpoch
            if known is not None and epoch == known.epoch:
                for told_first, told_last, offset in known.recent:
                    if (told_first, told_last) == (first, last):
                        return offset
                if first != known.last_sequence + 1:
                    raise OutOfOrderSequenceNumber
            if known is None or epoch > known.epoch:
                # As a leader that knows nothing of the producer: any sequence number will do.
                known = self.producers[producer_id] = _Producer(epoch, last)
            known.last_sequence = last
            known.recent.append((first, last, self.end))
        return self.put(batch)

    def put(self, batch: bytes, gap: int = 0) -> int:
        """Store it; a gap before it is what compaction leaves."""
        offset = self.end + gap
        count = int(HEADER.unpack_from(batch)[LAST_OFFSET_DELTA]) + 1
        self.stored.append((offset, offset + count, struct.pack(">q", offset) + batch[8:]))
        self.end = offset + count
        return offset

    def read(self, offset: int, size_max: int, *, one_at_least: bool) -> bytes:
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange
        out = b""
        for _first, following, batch in self.stored:
            if following <= offset or following > self.upper:
                continue
            if len(out) + len(batch) > size_max and not (one_at_least and not out):
                break
            out += batch
        return out
