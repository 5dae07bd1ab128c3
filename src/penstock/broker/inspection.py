"""Batches whose records are looked at before they are stored, where that takes longer than a turn.

The connection they came on is held meanwhile, so that its batches stay in their order.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.partition import Partition, absence
from penstock.broker.record_faults import RecordFaults
from penstock.broker.unpacking import complaint
from penstock.errors import InvalidRecord, KafkaError
from penstock.wire.batch import Header
from penstock.wire.primitives import Malformed
from penstock.world import Buffer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.connection import Connection
    from penstock.wire.messages.k00_produce import PartitionProduceResponse


class Arrived(NamedTuple):
    """A batch that its header lets in, and the place of its answer."""

    partition: Partition
    batch: Buffer
    header: Header
    entry: "PartitionProduceResponse"


def inspect_at_once(broker: "Broker", arrived: Arrived) -> bool:
    """Look at the records of a small batch; False if it must wait for its inspection."""
    partition, batch, header, _entry = arrived
    faults = RecordFaults(partition, header, broker.wall_ms)
    try:
        looked = broker.unpacking.look_at_once(
            batch, header, partition.settings.unpacked_bytes_max, faults.look
        )
    except Malformed as error:
        raise InvalidRecord(str(error)) from None
    if looked:
        faults.check()
    return looked


class Inspection:
    """The large batches of one request; those that pass are stored together."""

    __slots__ = ("_approved", "_broker", "_bytes", "_connection", "_left", "_refuse", "_store")

    def __init__(
        self,
        broker: "Broker",
        connection: "Connection",
        refuse: "Callable[[PartitionProduceResponse, KafkaError], None]",
        store: Callable[[list[Arrived]], None],
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._refuse = refuse
        self._store = store
        self._approved: list[Arrived] = []
        self._left = 0
        self._bytes = 0

    def begin(self, batches: list[Arrived]) -> None:
        self._connection.hold()
        self._left = len(batches)
        self._bytes = sum(len(arrived.batch) for arrived in batches)
        self._broker.backlog.enter(self._connection, self._bytes)
        for arrived in batches:
            # The receive buffer is used again when the turn ends.
            self._look(arrived._replace(batch=memoryview(bytearray(arrived.batch))))

    def _look(self, arrived: Arrived) -> None:
        partition = arrived.partition
        faults = RecordFaults(partition, arrived.header, self._broker.wall_ms)
        self._broker.unpacking.look(
            lambda: arrived.batch,
            partition.settings.unpacked_bytes_max,
            faults.look,
            lambda _result, failure, _bytes: self._looked(arrived, faults, failure),
        )

    def _looked(self, arrived: Arrived, faults: RecordFaults, failure: Exception | None) -> None:
        error: KafkaError | None = None
        if failure is not None:
            error = complaint(failure, InvalidRecord)
        else:
            error = faults.refusal() or absence(arrived.partition)
        if error is None:
            self._approved.append(arrived)
        else:
            self._refuse(arrived.entry, error)
        self._left -= 1
        if not self._left:
            self._broker.touch()
            self._store(self._approved)
            self._broker.backlog.leave(self._bytes)
            self._connection.release()
