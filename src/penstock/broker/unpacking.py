"""Looking into batches, which hold whatever somebody sent, without stopping the node.

A worker decompresses, within a ceiling; the records are gone through between turns, a few at a
time. Few batches are unpacked at once: the others wait, and take no memory while they do.
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
# A small batch is looked through at once, as long as a turn does not have many of them.
AT_ONCE_BYTES_MAX = 64 * 1024
AT_ONCE_SNAPPY_BYTES_MAX = 16 * 1024  # it may come in hundreds of blocks, each of some cost
AT_ONCE_RECORDS_MAX = 500
AT_ONCE_RECORDS_PER_TURN = 2_000
AT_ONCE_BYTES_PER_TURN = 256 * 1024  # of batches, and of what came out of them

# Gets some records at a time; anything but None ends the look with that result.
Judge = Callable[[Sequence[Skimmed]], Any]
# What was found, or what went wrong; and how many bytes the records had.
Ended = Callable[[Any, Exception | None, int], None]


class Cut(NamedTuple):
    """A batch was too large to be unpacked as a whole, and its records before this offset are not
    what was looked for."""

    offset: int


def complaint(error: Exception, broken: type[KafkaError]) -> KafkaError:
    """What went wrong while looking, as an error for one partition; `broken` is for garbage."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, Malformed):
        return broken(str(error))
    if isinstance(error, DiskFailed):
        return KafkaStorageError(str(error))
    log.error("looking into a log failed", exc_info=error)
    return UnknownServerError(f"{type(error).__name__}: {error}")


class Unpacking:
    """All looks of a node. Used on the loop only."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unpacked = 0
        self._waiting: deque[Look] = deque()
        self._large: deque[Look] = deque()  # one at a time; the first is under way
        self._steps: deque[Callable[[], None]] = deque()
        self._steps_due = False
        self._records_at_once = 0
        self._bytes_at_once = 0

    def later(self, step: Callable[[], None]) -> None:
        """Call between turns, behind what else waits; it must be short and not raise."""
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

    def look(
        self, source: Callable[[], Buffer], bytes_max: int, judge: Judge, ended: Ended
    ) -> None:
        """Unpack what `source` reads (it may raise Cold) and let `judge` see its records; `ended`
        hears how it went."""
        look = Look(self, source, bytes_max, judge, ended)
        if self.unpacked < UNPACKED_MAX:
            self.unpacked += 1
            self.later(look.step)
        else:
            self._waiting.append(look)

    def look_at_large(self, source: Callable[[], Buffer], judge: Judge, ended: Ended) -> None:
        """The same for a batch that `look` found TooLarge. As much of it is unpacked as ever is; if
        what is looked for is not there, and that was not all, the result is Cut."""
        self._large.append(Look(self, source, OUTPUT_BYTES_MAX, judge, ended, may_cut=True))
        if len(self._large) == 1:
            self.later(self._large[0].step)

    def look_at_once(self, batch: Buffer, header: Header, bytes_max: int, judge: Judge) -> bool:
        """The same for a small batch; False, and nothing done, if it must take its time. Raises
        what is wrong with it."""
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

    def look_ended(self, look: "Look") -> None:
        if self._large and self._large[0] is look:
            self._large.popleft()
            if self._large:
                self.later(self._large[0].step)
        elif self._waiting:
            self.later(self._waiting.popleft().step)
        else:
            self.unpacked -= 1


class Look:
    """One batch that is being looked into."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_cut",
        "_ended",
        "_judge",
        "_may_cut",
        "_records",
        "_source",
        "_unpacking",
    )

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
        self._cut: Cut | None = None
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
                    self._cut = Cut(some[-1][0] + 1)
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
            self._cut = Cut(header[BASE_OFFSET])
            self._records = skim_start(header, data)
        else:
            self._records = skim_records(header, data)
        self._unpacking.later(self.step)

    def _end(self, result: Any, failure: Exception | None) -> None:
        self._records = None
        self._unpacking.look_ended(self)
        self._ended(result, failure, self._bytes)
