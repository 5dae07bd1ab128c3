"""Markers: how the end of a transaction reaches the partitions that it wrote to.

A destination per leader; this node's own partitions are the only ones so far. A transaction's
markers are sent until each partition has its one, committed, or is gone; then its coordinator
hears of it. Whoever coordinates next sends them again, so a sender stops as soon as the machine
that asked is not the one in charge: late, its marker could end the next transaction.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.controller.image import NO_LEADER
from penstock.coordinator.events import WriteMarker
from penstock.coordinator.partitions import partition_for
from penstock.coordinator.transactions.events import MarkersWritten, TakeOver, WriteMarkers
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    TransactionCoordinatorFenced,
)
from penstock.log.producers import COORDINATOR_EPOCH, UNKNOWN_STATE
from penstock.machine.runtime import Runtime
from penstock.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from penstock.summed_log import SummedLog
from penstock.wire.batch import ABORT_MARKER, COMMIT_MARKER
from penstock.world import Timer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.markers")

RETRY_MS_MIN, RETRY_MS_MAX = 50, 5_000

Told = Callable[[TopicPartition, KafkaError | None], None]


class Marker(NamedTuple):
    """The end of one producer's transaction, whatever partition it is written to."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transactions_v2: bool


class Destination(Protocol):
    """One leader, and the partitions that it leads."""

    def write(self, marker: Marker, places: Iterable[TopicPartition], told: Told) -> None:
        """Write the marker to each; `told` hears of each when it is committed, or refused."""
        ...


class Here:
    """This node."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def write(self, marker: Marker, places: Iterable[TopicPartition], told: Told) -> None:
        self._broker.append_now()  # what a marker ends comes before it
        for place in places:
            if place.topic == CONSUMER_OFFSETS_TOPIC:
                self._end_offsets(marker, place, told)
            else:
                self._end_records(marker, place, told)

    def coordinator_epoch(self, place: TopicPartition, producer_id: int) -> int:
        """The epoch of the coordinator whose marker was the producer's last here."""
        partition = self._broker.find(place.topic, place.partition)
        return partition.log.producers.states.get(producer_id, UNKNOWN_STATE)[COORDINATOR_EPOCH]

    def take_over(self, effect: TakeOver) -> None:
        """A leader that has not been told (it begins to lead) asks by itself. What it has let in
        before belongs to what is taken over, and is written before anybody hears of this: answers
        leave when the turn's batches are in."""
        for place in effect.partitions:
            with suppress(KafkaError):  # not led here
                partition = self._broker.find(place.topic, place.partition)
                partition.admission.taken_over(effect.producer_id, effect.producer_epoch)

    def _end_records(self, marker: Marker, place: TopicPartition, told: Told) -> None:
        try:
            partition = self._broker.find(place.topic, place.partition)
            offset = partition.append_marker(
                COMMIT_MARKER if marker.committed else ABORT_MARKER,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.transactions_v2,
                self._broker.world.clock.wall_ms(),
            )
        except KafkaError as error:
            told(place, error)
            return
        partition.when_committed(offset + 1, lambda error: told(place, error))

    def _end_offsets(self, marker: Marker, place: TopicPartition, told: Told) -> None:
        """The group coordinator writes it, since the offsets count from then on."""
        try:
            self._broker.find(place.topic, place.partition)
        except KafkaError as error:
            told(place, error)
            return
        runtime = self._broker.coordinators.groups.get(place.partition)
        if runtime is None:
            told(place, NotLeaderOrFollower(f"this node does not coordinate {place}"))
            return

        def done(result: Any) -> None:
            not_ready = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
            if isinstance(result, not_ready):
                told(place, NotLeaderOrFollower(result.message))
            else:
                told(place, result if isinstance(result, KafkaError) else None)

        runtime.submit(WriteMarker(*marker), done)


class MarkerWriter:
    """Performs what transaction coordinators send."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.here = Here(broker)
        self._sending: dict[Sending, None] = {}
        self.lines = SummedLog(log)  # WriteTxnMarkers of any peer may cause any number

    def perform(self, effect: WriteMarkers | TakeOver, runtime: Runtime[Any]) -> None:
        if isinstance(effect, TakeOver):
            self.here.take_over(effect)
            return
        sending = Sending(self, effect, runtime)
        self._sending[sending] = None
        sending.send()

    def stop(self) -> None:
        for sending in list(self._sending):
            sending.stop()

    # -- for Sending

    def finished(self, sending: "Sending") -> None:
        self._sending.pop(sending, None)

    def exists(self, place: TopicPartition) -> bool:
        topic = self._broker.image.topics.get(place.topic)
        return topic is not None and place.partition in topic.partitions

    def destinations(
        self, places: Iterable[TopicPartition]
    ) -> list[tuple[Destination, list[TopicPartition]]]:
        """Who leads what. Partitions that nobody leads, or a node that we cannot reach, are left
        out; they are looked at again later."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in places:
            topic = self._broker.image.topics[place.topic]
            by_leader.setdefault(topic.partitions[place.partition].leader, []).append(place)
        by_leader.pop(NO_LEADER, None)
        led_here = by_leader.get(self._broker.node_id)
        return [] if led_here is None else [(self.here, led_here)]

    def is_sole_coordinator(self, transactional_id: str) -> bool:
        """Whether no other node can coordinate the id, because none has its partition."""
        topic = self._broker.image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return False
        index = partition_for(transactional_id, len(topic.partitions))
        return tuple(topic.partitions[index].replicas) == (self._broker.node_id,)

    def later(self, after_ms: int, call: Callable[[], None]) -> Timer:
        world = self._broker.world
        return world.timers.at(world.clock.mono_ms() + after_ms, call)


class Sending:
    """The markers of one transaction, until every partition has settled."""

    def __init__(self, writer: MarkerWriter, effect: WriteMarkers, runtime: Runtime[Any]) -> None:
        self._writer = writer
        self._effect = effect
        self._marker = Marker(
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
        """Send to everybody who has not settled; again and again until nobody is left."""
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
        for place in [each for each in self._left if not self._writer.exists(each)]:
            del self._left[place]  # deleted, and its records with it
        due = [each for each in self._left if each not in self._under_way]
        self._writing = True
        for destination, places in self._writer.destinations(due):
            self._under_way.update(dict.fromkeys(places))
            for epoch, claimed in self._by_epoch(places).items():
                marker = self._marker._replace(coordinator_epoch=epoch)
                destination.write(marker, claimed, self._told)
        self._writing = False
        self._go_on()

    def _by_epoch(self, places: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        by_epoch: dict[int, list[TopicPartition]] = {}
        for place in places:
            epoch = self._claimed.get(place, self._marker.coordinator_epoch)
            by_epoch.setdefault(epoch, []).append(place)
        return by_epoch

    def _told(self, place: TopicPartition, error: KafkaError | None) -> None:
        if not self._in_charge():
            return
        self._under_way.pop(place, None)
        if error is None:
            self._left.pop(place, None)
        elif isinstance(error, InvalidProducerEpoch):
            # A newer epoch has been here: whatever this one wrote is ended already.
            self._log(logging.WARNING, "the marker of %s is late: %s", place, error.message)
            self._left.pop(place, None)
        elif isinstance(error, TransactionCoordinatorFenced):
            self._fenced(place, error)
        elif place not in self._complained:
            self._complained[place] = None
            self._log(logging.WARNING, "no marker for %s yet: %s", place, error.message)
        if not self._writing:
            self._go_on()

    def _fenced(self, place: TopicPartition, error: KafkaError) -> None:
        """Another coordinator has written here, or a tool that claimed to be a later one than
        there is (WriteTxnMarkers believes everybody). Where there can be no other, the marker is
        written under the epoch that was claimed: else the transaction would never end."""
        if not self._writer.is_sole_coordinator(self._effect.transactional_id):
            self._log(logging.WARNING, "%s has another coordinator: %s", place, error.message)
            self.stop()
            return
        try:
            claimed = self._writer.here.coordinator_epoch(place, self._marker.producer_id)
        except KafkaError:
            return  # it has gone meanwhile, as the next turn will see
        self._claimed[place] = claimed
        self._log(
            logging.ERROR,
            "the marker of %s is written under coordinator epoch %s: another marker came with "
            "it, though no coordinator has it. Allow WriteTxnMarkers to brokers only.",
            place,
            str(claimed),
        )

    def _log(self, level: int, words: str, place: TopicPartition, detail: str) -> None:
        self._writer.lines.log(level, words, "%s: " + words, place, self._name, detail)

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
