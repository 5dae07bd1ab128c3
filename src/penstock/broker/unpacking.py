"""Looking into batches, which hold whatever somebody sent, without stopping the node.

A worker decompresses, within a ceiling; the records are gone through between turns, a few at a
time. Few batches are unpacked at once: the others wait, and take no memory while they do.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from penstock.errors import KafkaError, KafkaStorageError, UnknownServerError
from penstock.wire.batch import (
    ATTRIBUTES,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    RECORD_COUNT,
    Header,
    Skimmed,
    skim_records,
    unpack_batch,
)
from penstock.wire.compression import TooLarge
from penstock.wire.primitives import Malformed
from penstock.world import Buffer, Cold, DiskFailed, World

log = logging.getLogger("penstock.unpacking")

RECORDS_PER_STEP = 500  # about half a millisecond
STEPS_PER_TURN = 4
UNPACKED_MAX = 4  # batches of the whole node, each within its topic's ceiling
# A small batch is looked through at once, as long as a turn does not have many of them.
AT_ONCE_BYTES_MAX = 64 * 1024
AT_ONCE_RECORDS_MAX = 500
AT_ONCE_RECORDS_PER_TURN = 2_000

# Gets some records at a time; anything but None ends the look with that result.
Judge = Callable[[Sequence[Skimmed]], Any]
# What was found, or what went wrong; and how many bytes the records had.
Ended = Callable[[Any, Exception | None, int], None]


def complaint(error: Exception, broken: type[KafkaError]) -> KafkaError:
    """What went wrong while looking, as an error for one partition; `broken` is for garbage."""
    if isinstance(error, AssertionError):
        raise error  # our own state is wrong: stop rather than go on with it
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
        self._steps: deque[Callable[[], None]] = deque()
        self._steps_due = False
        self._records_at_once = 0

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

    def look_at_once(self, batch: Buffer, header: Header, bytes_max: int, judge: Judge) -> bool:
        """The same for a small batch; False, and nothing done, if it must take its time. Raises
        what is wrong with it."""
        count = header[RECORD_COUNT]
        if count > AT_ONCE_RECORDS_MAX or len(batch) > AT_ONCE_BYTES_MAX:
            return False
        if self._records_at_once + count > AT_ONCE_RECORDS_PER_TURN:
            return False
        if not self._records_at_once:
            self.world.timers.after_turn(self._turn_ended)
        self._records_at_once += count
        ceiling = min(bytes_max, 4 * AT_ONCE_BYTES_MAX)
        try:
            data = unpack_batch(batch, ceiling)[1]
        except TooLarge:
            if ceiling == bytes_max:
                raise
            return False
        judge(list(skim_records(header, data)))
        return True

    def _turn_ended(self) -> None:
        self._records_at_once = 0

    def look_ended(self) -> None:
        if self._waiting:
            self.later(self._waiting.popleft().step)
        else:
            self.unpacked -= 1


class Look:
    """One batch that is being looked into."""

    __slots__ = ("_bytes", "_bytes_max", "_ended", "_judge", "_records", "_source", "_unpacking")

    def __init__(
        self,
        unpacking: Unpacking,
        source: Callable[[], Buffer],
        bytes_max: int,
        judge: Judge,
        ended: Ended,
    ) -> None:
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
            workers = self._unpacking.world.workers
            workers.run(unpack_batch, (batch, self._bytes_max), self._unpacked)
        else:
            self._unpacked(unpack_batch(batch, self._bytes_max), None)

    def _unpacked(self, unpacked: Any, failure: BaseException | None) -> None:
        if failure is not None:
            assert isinstance(failure, Exception), "workers hand over exceptions only"
            self._end(None, failure)
            return
        self._bytes = len(unpacked[1])
        self._records = skim_records(*unpacked)
        self._unpacking.later(self.step)

    def _end(self, result: Any, failure: Exception | None) -> None:
        self._records = None
        self._unpacking.look_ended()
        self._ended(result, failure, self._bytes)
