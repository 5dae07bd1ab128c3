"""Logs made by chance for the tests of compaction, and what readers see of them.

A Story writes segments as a broker would (several producers, transactions, all codecs, both kinds
of timestamps), lets a cleaning replace them, and writes on. It keeps no model of what a cleaning
should do: compaction_judge.py does.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.log.compaction.chunks import CleaningEngine
from penstock.log.compaction.clean import clean
from penstock.log.compaction.order import (
    CleaningProgress,
    CleaningReport,
    Order,
    Segment,
    SegmentGroup,
)
from penstock.log.directory import (
    CLEANED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    segment_file,
)
from penstock.log.segment import ActiveSegment
from penstock.log.transactions import Aborted, aborted_entries, pack_aborted
from penstock.testing.sim.disk import MemoryDisk, SimDisk
from penstock.wire.batch import (
    ABORT_MARKER,
    COMMIT_MARKER,
    Header,
    Record,
    batch_headers,
    build_batch,
    build_marker,
)

NOW_MS = 1_700_000_000_000
DIRECTORY = "changes-0"
DELETE_RETENTION_MS = 1_000
INDEX_INTERVAL_BYTES = 150
ORDER = Order(
    directory=DIRECTORY,
    segments=(),
    start_offset=0,
    first_dirty_offset=0,
    upper_offset=0,
    now_ms=NOW_MS,
    delete_retention_ms=DELETE_RETENTION_MS,
    segment_bytes_max=6_000,
    index_bytes_max=1 << 20,
    index_interval_bytes=INDEX_INTERVAL_BYTES,
    message_bytes_max=1 << 20,
    last_offsets={},
    last_epochs={},
    aborted_later=(),
    map_bytes_max=1 << 16,
)


@dataclass
class Producer:
    """What a log knows of one, and its open transaction's first offset."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    transactional: bool = False
    first_offset: int = -1
    last_offset: int = -1


@dataclass
class Shape:
    """What a log is made of."""

    keys: int = 12
    batches: int = 60
    records_max: int = 8
    segment_bytes: int = 1_500
    compressed: bool = True
    transactions: bool = True
    keyless: bool = True
    append_time: bool = True


@dataclass
class Story:
    """One log. The last segment is the active one."""

    dice: random.Random
    shape: Shape = field(default_factory=Shape)
    disk: SimDisk = field(default_factory=MemoryDisk)
    now_ms: int = NOW_MS
    end_offset: int = 0
    start_offset: int = 0
    first_dirty_offset: int = 0

    def __post_init__(self) -> None:
        self.disk.make_directory(DIRECTORY)
        self.bases: list[int] = []
        self.aborted: list[Aborted] = []
        self.producers = [Producer(-1), Producer(5), Producer(6)]
        if self.shape.transactions:
            self.producers += [Producer(each, transactional=True) for each in (7, 8, 9)]
        self._roll()

    # ---- writing

    def write_on(self) -> None:
        for _ in range(self.shape.batches):
            self.now_ms += self.dice.choice((0, 1, 7, 300))
            producer = self.dice.choice(self.producers)
            if producer.first_offset >= 0 and self.dice.random() < 0.4:
                self.end_transaction(producer, self.dice.choice((ABORT_MARKER, COMMIT_MARKER)))
            else:
                self.write_batch(producer)
            if self.dice.random() < 0.05:
                self.end_offset += self.dice.randrange(20)  # a gap, as an earlier cleaning leaves

    def write_batch(self, producer: Producer) -> None:
        dice, base = self.dice, self.end_offset
        count = dice.randint(1, self.shape.records_max)
        records = [self._record(base + place) for place in range(count)]
        append_time = self.now_ms if self.shape.append_time and dice.random() < 0.2 else None
        idempotent = producer.producer_id >= 0
        self.put(
            build_batch(
                records,
                base_offset=base,
                compression=dice.choice((0, 0, 0, 1, 2, 3, 4)) if self.shape.compressed else 0,
                leader_epoch=3,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch if idempotent else -1,
                base_sequence=producer.sequence if idempotent else -1,
                transactional=producer.transactional,
                append_time_ms=append_time,
            )
        )
        producer.sequence += count
        producer.last_offset = self.end_offset - 1
        if producer.transactional and producer.first_offset < 0:
            producer.first_offset = base

    def _record(self, offset: int) -> Record:
        dice = self.dice
        key: bytes | None = b"key-%d" % dice.randrange(self.shape.keys)
        if self.shape.keyless and dice.random() < 0.03:
            key = None
        elif dice.random() < 0.02:
            key = b""
        value: bytes | None = dice.randbytes(dice.choice((0, 1, 20, 70)))
        if dice.random() < 0.25:
            value = None
        headers = [
            (dice.choice(("a", "", "größe")), dice.choice((None, b"", b"content")))
            for _ in range(dice.choice((0, 0, 0, 1, 3)))
        ]
        timestamp = self.now_ms + dice.choice((0, 0, 1, -5, 400, -100_000))
        return Record(offset, timestamp, key, value, headers)

    def end_transaction(self, producer: Producer, marker: int) -> None:
        offset = self.end_offset
        first, producer.first_offset = producer.first_offset, -1
        if marker == ABORT_MARKER:
            self.aborted.append(Aborted(producer.producer_id, first, offset, self.stable_offset))
        self.put(
            build_marker(
                marker,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                coordinator_epoch=2,
                timestamp=self.now_ms,
                base_offset=offset,
                leader_epoch=3,
            ),
            self.aborted[-1] if marker == ABORT_MARKER else None,
        )

    def put(self, batch: bytes, aborted: Aborted | None = None) -> None:
        """A batch at the end of the log; it begins a segment where the last one is full."""
        ((_, header),) = batch_headers(batch)
        if self.size_of(self.bases[-1]) + len(batch) > self.shape.segment_bytes:
            self._roll()
        self.disk.open(self.path(self.bases[-1], LOG)).append((batch,))
        if aborted is not None:
            self.disk.open(self.path(self.bases[-1], TXN_INDEX), create=True).append(
                (pack_aborted(aborted),)
            )
        self.end_offset = header[0] + header[6] + 1

    def _roll(self) -> None:
        if self.bases:
            offsets, times = noted_indexes(self.bases[-1], self.bytes_of(self.bases[-1]))
            self.disk.put(self.path(self.bases[-1], INDEX), offsets)
            self.disk.put(self.path(self.bases[-1], TIME_INDEX), times)
        self.bases.append(self.end_offset)
        self.disk.open(self.path(self.end_offset, LOG), create=True)

    # ---- what is there

    @staticmethod
    def path(base_offset: int, suffix: str) -> str:
        return segment_file(DIRECTORY, base_offset, suffix)

    def bytes_of(self, base_offset: int) -> bytes:
        file = self.disk.open(self.path(base_offset, LOG))
        return file.read_now(0, file.size)

    def size_of(self, base_offset: int) -> int:
        return self.disk.size(self.path(base_offset, LOG))

    @property
    def stable_offset(self) -> int:
        return min(
            [
                self.end_offset,
                *(each.first_offset for each in self.producers if each.first_offset >= 0),
            ]
        )

    def batches(self) -> Iterator[tuple[Header, bytes]]:
        for base in self.bases:
            data = self.bytes_of(base)
            for position, header in batch_headers(data):
                yield header, data[position : position + 12 + header[1]]

    def aborted_indexed(self) -> list[Aborted]:
        """What the transaction indexes say."""
        found: list[Aborted] = []
        for base in self.bases:
            if self.disk.exists(self.path(base, TXN_INDEX)):
                file = self.disk.open(self.path(base, TXN_INDEX))
                found += aborted_entries(file.read_now(0, file.size))
        return found

    # ---- cleaning

    def order(self, **changes: object) -> Order:
        """What a broker would ask for now."""
        ends = [*self.bases[1:], self.end_offset]
        segments = [
            Segment(base, end, self.size_of(base), 0, self.disk.exists(self.path(base, TXN_INDEX)))
            for base, end in zip(self.bases, ends, strict=True)
        ]
        stable = self.stable_offset
        closed = tuple(each for each in segments[:-1] if each.end_offset <= stable)
        upper = closed[-1].end_offset if closed else self.start_offset
        active = [each for each in self.producers if each.producer_id >= 0]
        order = replace(
            ORDER,
            segments=closed,
            start_offset=self.start_offset,
            first_dirty_offset=self.first_dirty_offset,
            upper_offset=upper,
            now_ms=self.now_ms,
            last_offsets={
                each.producer_id: each.last_offset for each in active if each.last_offset >= 0
            },
            aborted_later=tuple(
                each
                for each in self.aborted
                if each.first_offset < upper and each.last_offset >= upper
            ),
        )
        return replace(order, **changes)  # type: ignore[arg-type]

    def clean(self, engine: CleaningEngine, **changes: object) -> tuple[Order, CleaningReport]:
        """Clean, and let what comes out take the place of what was."""
        order = self.order(**changes)
        groups, report = run(self.disk, order, engine)
        for group in groups:
            self.swap(group)
        self.first_dirty_offset = report.cleaned_to
        return order, report

    def swap(self, group: SegmentGroup) -> None:
        for base in group.old:
            for suffix in SEGMENT_SUFFIXES:
                self.disk.remove_now(self.path(base, suffix))
            self.bases.remove(base)
        for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
            path = self.path(group.base_offset, suffix)
            if self.disk.exists(path + CLEANED):
                self.disk.rename_now(path + CLEANED, path)
        self.bases.append(group.base_offset)
        self.bases.sort()


def story_of(seed: int) -> Story:
    dice = random.Random(seed)
    shape = Shape(
        keys=dice.choice((2, 10, 200)),
        batches=dice.choice((10, 40)),
        records_max=dice.choice((1, 5, 20)),
        segment_bytes=dice.choice((900, 1_500, 4_000)),
        transactions=dice.random() < 0.7,
    )
    return Story(dice, shape)


def run(
    disk: SimDisk, order: Order, engine: CleaningEngine
) -> tuple[list[SegmentGroup], CleaningReport]:
    said: list[SegmentGroup | CleaningProgress] = []
    report = clean(disk, order, said.append, lambda: False, engine=engine)
    return [each for each in said if isinstance(each, SegmentGroup)], report


def noted_indexes(
    base_offset: int, data: bytes, interval_bytes: int = INDEX_INTERVAL_BYTES
) -> tuple[bytes, bytes]:
    """The indexes that appending these batches one by one makes."""
    disk = MemoryDisk()
    segment = ActiveSegment(base_offset, disk.open("a.log", create=True), NOW_MS)
    for _, header in batch_headers(data):
        segment.note(header[0] + header[6], 12 + header[1], header[8], interval_bytes)
    segment.finish()
    return segment.index.to_bytes(), bytes(segment.times.data)
