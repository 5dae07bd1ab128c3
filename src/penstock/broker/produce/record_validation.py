"""Validation of records before they are stored, where that takes longer than a turn.

The connection is held meanwhile, so that its batches stay in order.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.partitions.partition import Partition, unavailable_error
from penstock.broker.produce.record_errors import RecordFaults
from penstock.broker.produce.unpacking import to_kafka_error
from penstock.broker.request import ClientConnection
from penstock.errors import InvalidRecord, KafkaError
from penstock.wire.batch import Header
from penstock.wire.primitives import Malformed
from penstock.world import Buffer

if TYPE_CHECKING:
    from penstock.broker.produce.broker_view import ProduceBroker
    from penstock.wire.messages.k00_produce import PartitionProduceResponse


class ArrivedBatch(NamedTuple):
    """A batch with a valid header, and its entry in the answer."""

    partition: Partition
    batch: Buffer
    header: Header
    entry: "PartitionProduceResponse"


def validate_at_once(broker: "ProduceBroker", arrived: ArrivedBatch) -> bool:
    """Validate the records of a small batch. Return False if the batch must wait."""
    partition, batch, header, _entry = arrived
    faults = RecordFaults(partition, header, broker.wall_ms)
    try:
        looked = broker.unpacking.scan_at_once(
            batch, header, partition.settings.unpacked_bytes_max, faults.look
        )
    except Malformed as error:
        raise InvalidRecord(str(error)) from None
    if looked:
        faults.check()
    return looked


class RecordValidation:
    """The large batches of one request; valid ones are stored together."""

    __slots__ = ("_approved", "_broker", "_bytes", "_connection", "_left", "_reject", "_store")

    def __init__(
        self,
        broker: "ProduceBroker",
        connection: ClientConnection,
        reject: "Callable[[PartitionProduceResponse, KafkaError], None]",
        store: Callable[[list[ArrivedBatch]], None],
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._reject = reject
        self._store = store
        self._approved: list[ArrivedBatch] = []
        self._left = 0
        self._bytes = 0

    def begin(self, batches: list[ArrivedBatch]) -> None:
        self._connection.hold()
        self._left = len(batches)
        self._bytes = sum(len(arrived.batch) for arrived in batches)
        self._broker.backpressure.enter(self._connection, self._bytes)
        for arrived in batches:
            # The receive buffer is used again when the turn ends.
            self._look(arrived._replace(batch=memoryview(bytearray(arrived.batch))))

    def _look(self, arrived: ArrivedBatch) -> None:
        partition = arrived.partition
        faults = RecordFaults(partition, arrived.header, self._broker.wall_ms)
        self._broker.unpacking.scan(
            lambda: arrived.batch,
            partition.settings.unpacked_bytes_max,
            faults.look,
            lambda _result, failure, _bytes: self._looked(arrived, faults, failure),
        )

    def _looked(
        self, arrived: ArrivedBatch, faults: RecordFaults, failure: Exception | None
    ) -> None:
        error: KafkaError | None = None
        if failure is not None:
            error = to_kafka_error(failure, InvalidRecord)
        else:
            error = faults.rejection() or unavailable_error(arrived.partition)
        if error is None:
            self._approved.append(arrived)
        else:
            self._reject(arrived.entry, error)
        self._left -= 1
        if not self._left:
            self._broker.touch()
            self._store(self._approved)
            self._broker.backpressure.leave(self._bytes)
            self._connection.release()
