"""Scans of untrusted batches that do not stall the node.

A worker decompresses a batch within a limit; its records are scanned between turns, a few at a
time. Only few batches are unpacked at once; waiting ones take no memory.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from penstock.errors import KafkaError, KafkaStorageError, UnknownServerError
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    RECORD_COUNT,
    Header,
    Skimmed,
    skim_records,
    skim_start,
    unpack_batch,
    unpack_start,
)
from penstock.wire.compression import OUTPUT_BYTES_MAX, SNAPPY, TooLarge
from penstock.wire.primitives import Malformed
from penstock.world import Buffer, Cold, DiskFailed, World

log = logging.getLogger("penstock.unpacking")

RECORDS_PER_STEP = 500  # about half a millisecond
STEPS_PER_TURN = 4
UNPACKED_MAX = 4  # batches of the whole node, each within its topic's ceiling
# A small batch is scanned at once, unless the turn has many of them.
AT_ONCE_BYTES_MAX = 64 * 1024
AT_ONCE_SNAPPY_BYTES_MAX = 16 * 1024  # up to hundreds of blocks, each at a cost
AT_ONCE_RECORDS_MAX = 500
AT_ONCE_RECORDS_PER_TURN = 2_000
AT_ONCE_BYTES_PER_TURN = 256 * 1024  # of batches, and of what came out of them

# Gets some records at a time; a result other than None ends the scan.
Judge = Callable[[Sequence[Skimmed]], Any]
# The result or the failure, and the number of unpacked bytes.
Ended = Callable[[Any, Exception | None, int], None]


class PartialScan(NamedTuple):
    """The result of a batch too large to unpack as a whole: no match before this offset."""

    offset: int


def to_kafka_error(error: Exception, broken: type[KafkaError]) -> KafkaError:
    """Return a failed scan as an error for one partition; `broken` is the class for garbage."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, Malformed):
        return broken(str(error))
    if isinstance(error, DiskFailed):
        return KafkaStorageError(str(error))
    log.error("looking into a log failed", exc_info=error)
    return UnknownServerError(f"{type(error).__name__}: {error}")


class Unpacking:
    """All scans of a node. Used on the loop only."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unpacked = 0
        self._waiting: deque[RecordScan] = deque()
        self._large: deque[RecordScan] = deque()  # one at a time; the first is under way
        self._steps: deque[Callable[[], None]] = deque()
        self._steps_due = False
        self._records_at_once = 0
        self._bytes_at_once = 0

    def later(self, step: Callable[[], None]) -> None:
        """Queue a step, which runs between turns. A step is short and does not raise."""
        self._steps.append(step)
        if not self._steps_due:
            self._steps_due = True
            self.world.timers.soon(self._some)

    def _some(self) -> None:
        self._steps_due = False
        for _ in range(min(STEPS_PER_TURN, len(self._steps))):
            self._steps.popleft()()
        if self._steps and not self._steps_due:
            self._steps_due = True
            self.world.timers.soon(self._some)

    def scan(
        self, source: Callable[[], Buffer], bytes_max: int, judge: Judge, ended: Ended
    ) -> None:
        """Unpack a batch that `source` reads, which may raise Cold, and pass its records to
        `judge`. Call `ended` with the result."""
        scan = RecordScan(self, source, bytes_max, judge, ended)
        if self.unpacked < UNPACKED_MAX:
            self.unpacked += 1
            self.later(scan.step)
        else:
            self._waiting.append(scan)

    def scan_large(self, source: Callable[[], Buffer], judge: Judge, ended: Ended) -> None:
        """Scan a batch that `scan` found TooLarge, up to the largest limit. Without a match in this
        part of the batch, the result is PartialScan."""
        self._large.append(RecordScan(self, source, OUTPUT_BYTES_MAX, judge, ended, may_cut=True))
        if len(self._large) == 1:
            self.later(self._large[0].step)

    def scan_at_once(self, batch: Buffer, header: Header, bytes_max: int, judge: Judge) -> bool:
        """Scan a small batch at once. Return False, with nothing done, if the batch must wait.
        Raise for a bad batch."""
        count = header[RECORD_COUNT]
        in_blocks = header[ATTRIBUTES] & CODEC_MASK == SNAPPY
        size_max = AT_ONCE_SNAPPY_BYTES_MAX if in_blocks else AT_ONCE_BYTES_MAX
        if count > AT_ONCE_RECORDS_MAX or len(batch) > size_max:
            return False
        if self._records_at_once + count > AT_ONCE_RECORDS_PER_TURN:
            return False
        if self._bytes_at_once > AT_ONCE_BYTES_PER_TURN:
            return False
        if not self._bytes_at_once:
            self.world.timers.after_turn(self._turn_ended)
        self._records_at_once += count
        self._bytes_at_once += len(batch)
        ceiling = min(bytes_max, 4 * AT_ONCE_BYTES_MAX)
        try:
            data = unpack_batch(batch, ceiling)[1]
        except TooLarge:
            self._bytes_at_once += ceiling
            if ceiling == bytes_max:
                raise
            return False
        self._bytes_at_once += len(data)
        judge(list(skim_records(header, data)))
        return True

    def _turn_ended(self) -> None:
        self._records_at_once = 0
        self._bytes_at_once = 0

    def scan_ended(self, scan: "RecordScan") -> None:
        if self._large and self._large[0] is scan:
            self._large.popleft()
            if self._large:
                self.later(self._large[0].step)
        elif self._waiting:
            self.later(self._waiting.popleft().step)
        else:
            self.unpacked -= 1


class RecordScan:
    """One batch that is being scanned."""

    def __init__(
        self,
        unpacking: Unpacking,
        source: Callable[[], Buffer],
        bytes_max: int,
        judge: Judge,
        ended: Ended,
        *,
        may_cut: bool = False,
    ) -> None:
        self._may_cut = may_cut
        self._cut: PartialScan | None = None
        self._unpacking = unpacking
        self._source = source
        self._bytes_max = bytes_max
        self._judge = judge
        self._ended = ended
        self._bytes = 0
        self._records: Iterator[Skimmed] | None = None

    def step(self) -> None:
        result: Any = None
        failure: Exception | None = None
        try:
            if self._records is None:
                self._unpack(self._source())
                return
            some = list(islice(self._records, RECORDS_PER_STEP))
            if some:
                result = self._judge(some)
                if self._cut is not None:
                    self._cut = PartialScan(some[-1][0] + 1)
            else:
                result = self._cut
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, self._warmed)
            return
        except Exception as error:
            failure = error
        else:
            if some and result is None:
                self._unpacking.later(self.step)
                return
        self._end(result, failure)

    def _warmed(self, failure: DiskFailed | None) -> None:
        if failure is None:
            self._unpacking.later(self.step)
        else:
            self._end(None, failure)

    def _unpack(self, batch: Buffer) -> None:
        if len(batch) >= HEADER_BYTES and HEADER.unpack_from(batch)[ATTRIBUTES] & CODEC_MASK:
            unpack = unpack_start if self._may_cut else unpack_batch
            workers = self._unpacking.world.workers
            workers.compute(unpack, (batch, self._bytes_max), self._unpacked)
        else:
            self._unpacked(unpack_batch(batch, self._bytes_max), None)

    def _unpacked(self, unpacked: Any, failure: BaseException | None) -> None:
        if failure is not None:
            assert isinstance(failure, Exception), "workers hand over exceptions only"
            self._end(None, failure)
            return
        header, data, *whole = unpacked
        self._bytes = len(data)
        if False in whole:
            self._cut = PartialScan(header[BASE_OFFSET])
            self._records = skim_start(header, data)
        else:
            self._records = skim_records(header, data)
        self._unpacking.later(self.step)

    def _end(self, result: Any, failure: Exception | None) -> None:
        self._records = None
        self._unpacking.scan_ended(self)
        self._ended(result, failure, self._bytes)
