"""Recompresses batches for topics with a compression.type of their own, off the loop.

A batch in another codec than the topic's goes to a worker. Later batches of the partition wait
behind it in a lane, so that the order of arrival stays. Other partitions, and other requests of the
same connection, go on. As in Kafka, a batch in the topic's codec is stored as it is, at any level,
and max.message.bytes applies before and after. Records of coordinators are not recompressed.
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from penstock.broker.partitions.partition import Partition, unavailable_error
from penstock.broker.produce.record_validation import ArrivedBatch
from penstock.broker.produce.unpacking import to_kafka_error
from penstock.broker.request import ClientConnection
from penstock.errors import InvalidRecord, KafkaError, MessageTooLarge
from penstock.wire.batch import ATTRIBUTES, CODEC_MASK, HEADER, recompress_batch

if TYPE_CHECKING:
    from penstock.broker.produce.broker_view import ProduceBroker
    from penstock.wire.messages.k00_produce import PartitionProduceResponse
    from penstock.world import Buffer

RUNS_MAX = 4  # at a time; batches that wait longer may share a run
# Small batches share a run on a worker.
BYTES_PER_RUN_MAX = 256 * 1024
BATCHES_PER_RUN_MAX = 64

# batch, codec, level, ceiling
Job = tuple["Buffer", int, int | None, int]


class PendingProduce(Protocol):
    """A Produce request that is answered when its last partition has settled."""

    @property
    def connection(self) -> ClientConnection: ...

    def stage(self, transactional_id: str | None, batches: list[ArrivedBatch]) -> None:
        """Hand batches that passed every check to their partitions."""
        ...

    def reject(self, entry: "PartitionProduceResponse", error: KafkaError) -> None:
        """Answer one partition with an error."""
        ...


class WaitingBatch:
    """A batch in the lane of its partition, until it is stored or rejected."""

    __slots__ = ("arrived", "done", "error", "general", "job", "size", "transactional_id")

    def __init__(
        self,
        general: "PendingProduce",
        transactional_id: str | None,
        arrived: ArrivedBatch,
        job: Job | None,
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

    def __init__(self, broker: "ProduceBroker") -> None:
        self._broker = broker
        self._lanes: dict[Partition, deque[WaitingBatch]] = {}
        self._queue: deque[WaitingBatch] = deque()
        self._runs = 0
        self.waiting = 0
        self.recompressed = 0  # batches so far
        self.bytes_in = self.bytes_out = 0

    def takes(self, partition: Partition, arrived: ArrivedBatch) -> bool:
        """Return whether this batch must be recompressed, or wait behind one that is."""
        codec = partition.settings.codec
        return bool(partition.recompressing) or (
            codec is not None and codec != arrived.header[ATTRIBUTES] & CODEC_MASK
        )

    def take(
        self, general: "PendingProduce", transactional_id: str | None, arrived: ArrivedBatch
    ) -> None:
        partition = arrived.partition
        settings = partition.settings
        # The receive buffer is used again when the turn ends.
        arrived = arrived._replace(batch=memoryview(bytearray(arrived.batch)))
        job: Job | None = None
        if settings.codec not in (None, arrived.header[ATTRIBUTES] & CODEC_MASK):
            assert settings.codec is not None, "a codec is one"
            job = (arrived.batch, settings.codec, settings.level, settings.unpacked_bytes_max)
        waiting = WaitingBatch(general, transactional_id, arrived, job)
        self._lanes.setdefault(partition, deque()).append(waiting)
        partition.recompressing += 1
        self.waiting += 1
        self._broker.backpressure.enter(general.connection, waiting.size)
        if job is not None:
            self._queue.append(waiting)
            self._run()

    def _run(self) -> None:
        while self._queue and self._runs < RUNS_MAX:
            some: list[WaitingBatch] = []
            size = 0
            while self._queue and len(some) < BATCHES_PER_RUN_MAX and size < BYTES_PER_RUN_MAX:
                some.append(self._queue.popleft())
                size += some[-1].size
            self._runs += 1
            jobs = [each.job for each in some]
            self._broker.world.workers.compute(_recompress, (jobs,), partial(self._ran, some))

    def _ran(self, some: list[WaitingBatch], results: Any, failure: BaseException | None) -> None:
        assert failure is None, f"each batch has its own result, but: {failure!r}"
        self._runs -= 1
        self._broker.touch()
        for waiting, result in zip(some, results, strict=True):
            waiting.done = True
            waiting.job = None
            if isinstance(result, Exception):
                waiting.error = to_kafka_error(result, InvalidRecord)
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
        """Stage the batches at the front of a lane that are ready."""
        lane = self._lanes[partition]
        while lane and lane[0].done:
            waiting = lane.popleft()
            partition.recompressing -= 1
            self.waiting -= 1
            general, arrived = waiting.general, waiting.arrived
            error = waiting.error or unavailable_error(partition) or _too_large(arrived)
            if error is None:
                general.stage(waiting.transactional_id, [arrived])
            else:
                general.reject(arrived.entry, error)
            self._broker.backpressure.leave(waiting.size)
        if not lane:
            del self._lanes[partition]
            partition.recompression_ended()


def _recompress(jobs: list[Job]) -> list["bytes | Exception"]:
    """Recompress batches on a worker; each has its own result or error."""
    results: list[bytes | Exception] = []
    for job in jobs:
        try:
            results.append(recompress_batch(*job))
        except Exception as error:
            results.append(error)
    return results


def _too_large(arrived: ArrivedBatch) -> KafkaError | None:
    """Return an error for a batch that became too large by recompression."""
    size, limit = len(arrived.batch), arrived.partition.settings.message_bytes_max
    if size <= limit:
        return None
    return MessageTooLarge(
        f"a batch for {arrived.partition} has {size} bytes in the topic's compression.type,"
        f" max.message.bytes={limit}"
    )
