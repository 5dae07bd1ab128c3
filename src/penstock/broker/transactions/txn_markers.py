"""Transaction markers: writes the end of a transaction to its partitions.

There is a destination per leader: the partitions of this node, and those of other nodes
(remote_coordinators.py). Markers are sent until each partition has a committed one, or is deleted;
then the coordinator gets the result. The next coordinator sends them again, so a sender stops when
its machine is replaced: a late marker could end the next transaction.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.broker.transactions.remote_coordinators import RemoteMarkers
from penstock.broker.transactions.take_overs import TakeOvers
from penstock.controller.image import NO_LEADER
from penstock.coordinator.partitions import partition_for
from penstock.coordinator.records import EndMarker
from penstock.coordinator.transactions.events import MarkersWritten, ProducerTakenOver, WriteMarkers
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    TransactionCoordinatorFenced,
)
from penstock.log.producers import COORDINATOR_EPOCH, UNKNOWN_STATE
from penstock.machine.runtime import Runtime
from penstock.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from penstock.summed_log import SummedLog
from penstock.world import Timer

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.transactions.broker_view import TransactionsBroker

log = logging.getLogger("penstock.markers")

RETRY_MS_MIN, RETRY_MS_MAX = 50, 5_000

MarkerWritten = Callable[[TopicPartition, KafkaError | None], None]


class LocalMarkers:
    """The partitions of this node."""

    def __init__(self, broker: "TransactionsBroker") -> None:
        self._broker = broker

    def write(
        self, marker: EndMarker, topic_partitions: Iterable[TopicPartition], written: MarkerWritten
    ) -> None:
        """Write the marker to each partition; call `written` for each, committed or failed."""
        self._broker.append_now()  # a marker comes after the batches that it ends
        for topic_partition in topic_partitions:
            if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                self._end_offsets(marker, topic_partition, written)
            else:
                self._end_records(marker, topic_partition, written)

    def coordinator_epoch(self, topic_partition: TopicPartition, producer_id: int) -> int:
        """Return the coordinator epoch of the producer's last marker in a partition."""
        partition = self._broker.find(topic_partition.topic, topic_partition.partition)
        return partition.log.producers.states.get(producer_id, UNKNOWN_STATE)[COORDINATOR_EPOCH]

    def revoke(
        self, producer_id: int, producer_epoch: int, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Vouch no longer for a producer whose transaction has a new owner. Batches accepted before
        belong to the transaction: they are written first."""
        self._broker.append_now()
        found: dict[TopicPartition, KafkaError | None] = {}
        for topic_partition in topic_partitions:
            try:
                partition = self._broker.find(topic_partition.topic, topic_partition.partition)
            except KafkaError as error:
                found[topic_partition] = error
            else:
                partition.verified_producers.revoke(producer_id, producer_epoch)
                found[topic_partition] = _unfinished(partition)
        return found

    def _end_records(
        self, marker: EndMarker, topic_partition: TopicPartition, written: MarkerWritten
    ) -> None:
        try:
            partition = self._broker.find(topic_partition.topic, topic_partition.partition)
            offset = partition.append_marker(marker, self._broker.world.clock.wall_ms())
        except KafkaError as error:
            written(topic_partition, error)
            return
        partition.when_committed(offset + 1, lambda error: written(topic_partition, error))

    def _end_offsets(
        self, marker: EndMarker, topic_partition: TopicPartition, written: MarkerWritten
    ) -> None:
        """Have the group coordinator write the marker, since the offsets count from then on."""
        try:
            self._broker.find(topic_partition.topic, topic_partition.partition)
        except KafkaError as error:
            written(topic_partition, error)
            return
        runtime = self._broker.coordinators.groups.get(topic_partition.partition)
        if runtime is None:
            written(
                topic_partition,
                NotLeaderOrFollower(f"this node does not coordinate {topic_partition}"),
            )
            return

        def done(result: Any) -> None:
            not_ready = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
            if isinstance(result, not_ready):
                written(topic_partition, NotLeaderOrFollower(result.message))
            else:
                written(topic_partition, result if isinstance(result, KafkaError) else None)

        runtime.submit(marker, done)


def _unfinished(partition: "Partition") -> KafkaError | None:
    """Return the error of a partition where a later request has to revoke again. At the end of a
    move accepted batches wait. A former leader may have written batches that this log lacks, and
    may lead with them until it has fetched from this one."""
    if partition.held:
        return KafkaStorageError(f"{partition} is just moving to another log directory")
    if not partition.leader.is_followed:
        return NotEnoughReplicas(f"a replica of {partition} that may lead next has not fetched yet")
    return None


class MarkerWriter:
    """Performs the effects of transaction coordinators."""

    def __init__(self, broker: "TransactionsBroker") -> None:
        self._broker = broker
        self.here = LocalMarkers(broker)
        self.take_overs = TakeOvers(broker, self.here)
        self._sending: dict[TransactionMarkers, None] = {}
        self.lines = SummedLog(log)  # WriteTxnMarkers of any peer may cause any number

    def perform(self, effect: WriteMarkers | ProducerTakenOver, runtime: Runtime[Any]) -> None:
        if isinstance(effect, ProducerTakenOver):
            self.take_overs.begin(effect)
            return
        sending = TransactionMarkers(self, effect, runtime)
        self._sending[sending] = None
        sending.send()

    def stop(self) -> None:
        self.take_overs.stop()
        for sending in list(self._sending):
            sending.stop()

    # -- for Sending

    def finished(self, sending: "TransactionMarkers") -> None:
        self._sending.pop(sending, None)

    def exists(self, topic_partition: TopicPartition) -> bool:
        topic = self._broker.image.topics.get(topic_partition.topic)
        return topic is not None and topic_partition.partition in topic.partitions

    def destinations(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> list[tuple[LocalMarkers | RemoteMarkers, list[TopicPartition]]]:
        """Return the destinations of partitions. Partitions without a leader are left out, and
        tried again later."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in topic_partitions:
            topic = self._broker.image.topics[topic_partition.topic]
            by_leader.setdefault(topic.partitions[topic_partition.partition].leader, []).append(
                topic_partition
            )
        by_leader.pop(NO_LEADER, None)
        return [
            (
                self.here
                if leader == self._broker.node_id
                else RemoteMarkers(self._broker, leader),
                led,
            )
            for leader, led in by_leader.items()
        ]

    def is_sole_coordinator(self, transactional_id: str) -> bool:
        """Return whether no other node has a replica of the id's partition."""
        topic = self._broker.image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return False
        index = partition_for(transactional_id, len(topic.partitions))
        return tuple(topic.partitions[index].replicas) == (self._broker.node_id,)

    def later(self, after_ms: int, call: Callable[[], None]) -> Timer:
        world = self._broker.world
        return world.timers.at(world.clock.mono_ms() + after_ms, call)


class TransactionMarkers:
    """The markers of one transaction, until every partition has settled."""

    def __init__(self, writer: MarkerWriter, effect: WriteMarkers, runtime: Runtime[Any]) -> None:
        self._writer = writer
        self._effect = effect
        self._marker = EndMarker(
            effect.producer_id,
            effect.producer_epoch,
            effect.coordinator_epoch,
            effect.committed,
            effect.transactions_v2,
        )
        self._runtime = runtime
        self._machine = runtime.machine
        self._left: dict[TopicPartition, None] = dict.fromkeys(effect.partitions)
        self._under_way: dict[TopicPartition, None] = {}
        self._complained: dict[TopicPartition, None] = {}
        self._claimed: dict[TopicPartition, int] = {}  # a coordinator epoch that was believed
        self._writing = False
        self._timer: Timer | None = None
        self._retry_ms = RETRY_MS_MIN
        self._stopped = False
        self._has_failed = False

    def send(self) -> None:
        """Send the markers of partitions that are not settled; retry until all are."""
        self._timer = None
        if not self._in_charge():
            return
        try:
            self._send()
        except Exception as problem:
            # Of our own, about this transaction: the others go on, and this one tries again.
            if not self._has_failed:
                words = "the markers of %s: %r"
                self._writer.lines.log(
                    logging.ERROR, words, words, self._name, problem, exc_info=problem
                )
            self._has_failed = True
            self._writing = False
            self._under_way.clear()
            if self._timer is None and not self._stopped:
                self._send_later()

    def _send(self) -> None:
        for topic_partition in [each for each in self._left if not self._writer.exists(each)]:
            del self._left[topic_partition]  # deleted, and its records with it
        due = [each for each in self._left if each not in self._under_way]
        self._writing = True
        for destination, topic_partitions in self._writer.destinations(due):
            self._under_way.update(dict.fromkeys(topic_partitions))
            for epoch, claimed in self._by_epoch(topic_partitions).items():
                marker = self._marker._replace(coordinator_epoch=epoch)
                destination.write(marker, claimed, self._written_to)
        self._writing = False
        self._go_on()

    def _by_epoch(self, topic_partitions: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        by_epoch: dict[int, list[TopicPartition]] = {}
        for topic_partition in topic_partitions:
            epoch = self._claimed.get(topic_partition, self._marker.coordinator_epoch)
            by_epoch.setdefault(epoch, []).append(topic_partition)
        return by_epoch

    def _written_to(self, topic_partition: TopicPartition, error: KafkaError | None) -> None:
        if not self._in_charge():
            return
        self._under_way.pop(topic_partition, None)
        if error is None:
            self._left.pop(topic_partition, None)
        elif isinstance(error, InvalidProducerEpoch):
            # A newer epoch wrote here: the transaction of this epoch has ended already.
            self._log(
                logging.WARNING, "the marker of %s is late: %s", topic_partition, error.message
            )
            self._left.pop(topic_partition, None)
        elif isinstance(error, TransactionCoordinatorFenced):
            self._fenced(topic_partition, error)
        elif topic_partition not in self._complained:
            self._complained[topic_partition] = None
            self._log(logging.WARNING, "no marker for %s yet: %s", topic_partition, error.message)
        if not self._writing:
            self._go_on()

    def _fenced(self, topic_partition: TopicPartition, error: KafkaError) -> None:
        """Handle a newer coordinator epoch in a partition, from another coordinator or from a tool
        that forged it by WriteTxnMarkers. If no other coordinator can exist, write the marker under
        that epoch: the transaction would never end otherwise."""
        if not self._writer.is_sole_coordinator(self._effect.transactional_id):
            self._log(
                logging.WARNING, "%s has another coordinator: %s", topic_partition, error.message
            )
            self.stop()
            return
        try:
            claimed = self._writer.here.coordinator_epoch(topic_partition, self._marker.producer_id)
        except KafkaError:
            return  # deleted meanwhile; the next attempt sees that
        self._claimed[topic_partition] = claimed
        self._log(
            logging.ERROR,
            "the marker of %s is written under coordinator epoch %s: another marker came with "
            "it, though no coordinator has it. Allow WriteTxnMarkers to brokers only.",
            topic_partition,
            str(claimed),
        )

    def _log(self, level: int, words: str, topic_partition: TopicPartition, detail: str) -> None:
        self._writer.lines.log(level, words, "%s: " + words, topic_partition, self._name, detail)

    def _go_on(self) -> None:
        if self._stopped or self._timer is not None:
            return
        if not self._left:
            self._report()
        elif len(self._under_way) < len(self._left):
            self._send_later()

    def _send_later(self) -> None:
        self._timer = self._writer.later(self._retry_ms, self.send)
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)

    def _report(self) -> None:
        effect = self._effect

        def done(result: Any) -> None:
            if isinstance(result, KafkaError) and self._in_charge():
                self._send_later()  # its log refused the record: the disk is full, say
            else:
                self.stop()

        written = MarkersWritten(effect.transactional_id, effect.producer_id, effect.producer_epoch)
        self._runtime.submit(written, done)

    def _in_charge(self) -> bool:
        if not self._stopped and self._runtime.machine is not self._machine:
            self.stop()
        return not self._stopped

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._writer.finished(self)

    @property
    def _name(self) -> str:
        return repr(self._effect.transactional_id)
