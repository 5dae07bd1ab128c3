"""Topics with a compression.type of their own: their batches are compressed anew, off the loop.

A batch in another codec than its topic's goes to a worker. What comes to its partition after it,
from whomever, waits behind it in the partition's lane, so that order and sequences are those of
arrival; other partitions, and other requests of the same connection, go on. Like Kafka, a batch
that is in the topic's codec already is stored as it is, whatever its level, and max.message.bytes
holds before and after. What coordinators write of their own is not touched.
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.inspection import Arrived
from penstock.broker.partition import Partition, absence
from penstock.broker.unpacking import complaint
from penstock.errors import InvalidRecord, KafkaError, MessageTooLarge
from penstock.wire.batch import ATTRIBUTES, CODEC_MASK, HEADER, recompress_batch

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.handlers.k00_produce import General
    from penstock.world import Buffer

RUNS_MAX = 4  # at a time: what waits longer may still share a way with others
# Small batches share the way to a worker and back.
BYTES_PER_RUN_MAX = 256 * 1024
BATCHES_PER_RUN_MAX = 64

# batch, codec, level, ceiling
Job = tuple["Buffer", int, int | None, int]


class Waiting:
    """A batch in the lane of its partition, until it is stored or refused."""

    __slots__ = ("arrived", "done", "error", "general", "job", "size", "transactional_id")

    def __init__(
        self, general: "General", transactional_id: str | None, arrived: Arrived, job: Job | None
    ) -> None:
        self.general = general
        self.transactional_id = transactional_id
        self.arrived = arrived
        self.size = len(arrived.batch)
        self.job = job
        self.done = job is None
        self.error: KafkaError | None = None


class Recompression:
    """The lanes of all partitions, and the work they wait for."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._queue: deque[Waiting] = deque()
        self._runs = 0
        self.waiting = 0
        self.recompressed = 0  # batches so far
        self.bytes_in = self.bytes_out = 0

    def takes(self, partition: Partition, arrived: Arrived) -> bool:
        """Whether this batch must be recompressed, or wait for one that is."""
        codec = partition.settings.codec
        return bool(partition.lane) or (
            codec is not None and codec != arrived.header[ATTRIBUTES] & CODEC_MASK
        )

    def take(self, general: "General", transactional_id: str | None, arrived: Arrived) -> None:
        partition = arrived.partition
        settings = partition.settings
        # The receive buffer is used again when the turn ends.
        arrived = arrived._replace(batch=memoryview(bytearray(arrived.batch)))
        job: Job | None = None
        if settings.codec not in (None, arrived.header[ATTRIBUTES] & CODEC_MASK):
            assert settings.codec is not None, "a codec is one"
            job = (arrived.batch, settings.codec, settings.level, settings.unpacked_bytes_max)
        waiting = Waiting(general, transactional_id, arrived, job)
        partition.lane.append(waiting)
        self.waiting += 1
        self._broker.backlog.enter(general.connection, waiting.size)
        if job is not None:
            self._queue.append(waiting)
            self._run()

    def _run(self) -> None:
        while self._queue and self._runs < RUNS_MAX:
            some: list[Waiting] = []
            size = 0
            while self._queue and len(some) < BATCHES_PER_RUN_MAX and size < BYTES_PER_RUN_MAX:
                some.append(self._queue.popleft())
                size += some[-1].size
            self._runs += 1
            jobs = [each.job for each in some]
            self._broker.world.workers.compute(_recompress, (jobs,), partial(self._ran, some))

    def _ran(self, some: list[Waiting], results: Any, failure: BaseException | None) -> None:
        assert failure is None, f"each batch has its own result, but: {failure!r}"
        self._runs -= 1
        self._broker.touch()
        for waiting, result in zip(some, results, strict=True):
            waiting.done = True
            waiting.job = None
            if isinstance(result, Exception):
                waiting.error = complaint(result, InvalidRecord)
            else:
                self.recompressed += 1
                self.bytes_in += waiting.size
                self.bytes_out += len(result)
                waiting.arrived = waiting.arrived._replace(
                    batch=memoryview(result), header=HEADER.unpack_from(result)
                )
        for partition in dict.fromkeys(each.arrived.partition for each in some):
            self._advance(partition)
        self._run()

    def _advance(self, partition: Partition) -> None:
        """Let out of a lane what is ready at its front."""
        lane = partition.lane
        while lane and lane[0].done:
            waiting = lane.popleft()
            self.waiting -= 1
            general, arrived = waiting.general, waiting.arrived
            error = waiting.error or absence(partition) or _too_large(arrived)
            if error is None:
                general.stage(self._broker, waiting.transactional_id, [arrived])
            else:
                general.refuse(arrived.entry, error)
            self._broker.backlog.leave(waiting.size)
        if not lane:
            partition.lane_is_empty()


def _recompress(jobs: list[Job]) -> list["bytes | Exception"]:
    """On a worker. One that is broken says nothing about the others."""
    results: list[bytes | Exception] = []
    for job in jobs:
        try:
            results.append(recompress_batch(*job))
        except Exception as error:
            results.append(error)
    return results


def _too_large(arrived: Arrived) -> KafkaError | None:
    """Recompressing may have made it larger."""
    size, limit = len(arrived.batch), arrived.partition.settings.message_bytes_max
    if size <= limit:
        return None
    return MessageTooLarge(
        f"a batch for {arrived.partition} has {size} bytes in the topic's compression.type,"
        f" max.message.bytes={limit}"
    )
