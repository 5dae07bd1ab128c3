"""Take-overs of open transactions (KIP-939): the former owner writes no more, on any node.

A leader lets the producer of an open transaction write while it vouches for it. So the coordinator
has each leader of the transaction's partitions revoke that, and the new owner gets its identity
when all have answered. First a record of this node's own is committed to the metadata and read
back: the image then names every leader that may have asked before the take-over. A later leader
begins without verified producers, and its question comes after the take-over. Neither a lease nor a
question for each batch would do: a leader that is stopped between its check and its append would
write behind the take-over.

A leader that is silent, or a partition without a leader, is waited for. An owner that has waited
for long gets CONCURRENT_TRANSACTIONS, and asks again.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.links.links import LinkPurpose
from penstock.broker.transactions.remote_coordinators import indexes_by_topic
from penstock.controller.image import NO_LEADER
from penstock.coordinator.transactions.events import ProducerTakenOver
from penstock.errors import ConcurrentTransactions, KafkaError, UnsupportedVersion
from penstock.model import TopicPartition
from penstock.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.k10000_revoke_producer import (
    RevokeProducerRequest,
    RevokeProducerResponse,
    RevokeProducerTopic,
)
from penstock.world import Timer

if TYPE_CHECKING:
    from penstock.broker.transactions.broker_view import TransactionsBroker

log = logging.getLogger("penstock.take_overs")

WAIT_MS_MAX = 10_000
RETRY_MS_MIN, RETRY_MS_MAX = 50, 1_000
ANSWER_MS_MAX = 5_000

TakenOver = Callable[[KafkaError | None], None]


class LocalProducers(Protocol):
    """The partitions that this node leads."""

    def revoke(
        self, producer_id: int, producer_epoch: int, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]: ...


class TakeOvers:
    """The take-overs that transaction coordinators of this node have under way."""

    def __init__(self, broker: "TransactionsBroker", here: LocalProducers) -> None:
        self._broker = broker
        self._here = here
        self._running: dict[int, TakeOver] = {}  # by producer id

    def begin(self, effect: ProducerTakenOver) -> None:
        """Revoke the former owner. A take-over that runs ends: its owner has a successor."""
        former = self._running.get(effect.producer_id)
        take_over = TakeOver(self._broker, self._here, effect, self._over)
        self._running[effect.producer_id] = take_over
        if former is not None:
            former.stop()
        take_over.begin()

    def when_over(self, producer_id: int, done: TakenOver) -> None:
        """Call when the transaction of a producer is its new owner's alone, or with an error."""
        take_over = self._running.get(producer_id)
        if take_over is None:
            done(None)
        else:
            take_over.waiting.append(done)

    def stop(self) -> None:
        for each in list(self._running.values()):
            each.stop()
        self._running.clear()

    def _over(self, take_over: "TakeOver") -> None:
        producer_id = take_over.effect.producer_id
        if self._running.get(producer_id) is take_over:
            del self._running[producer_id]


class TakeOver:
    """One take-over, until every leader has answered."""

    def __init__(
        self,
        broker: "TransactionsBroker",
        here: LocalProducers,
        effect: ProducerTakenOver,
        over: Callable[["TakeOver"], None],
    ) -> None:
        self.effect = effect
        self.waiting: list[TakenOver] = []
        self._broker = broker
        self._here = here
        self._over = over
        self._left: dict[TopicPartition, None] = dict.fromkeys(effect.partitions)
        self._asked: dict[TopicPartition, int] = {}  # at a leader that has not answered
        self._until_ms = broker.world.clock.mono_ms() + WAIT_MS_MAX
        self._ids_from = -1  # the image is new enough when it has given out the ids before
        self._timer: Timer | None = None
        self._retry_ms = RETRY_MS_MIN
        self._stopped = False

    def begin(self) -> None:
        if len(self._broker.image.brokers) > 1:
            self._confirm_leaders()
        else:
            self._ask_leaders()

    def stop(self) -> None:
        """End without success."""
        self._end(ConcurrentTransactions("the take-over of the transaction goes on"))

    def _end(self, error: KafkaError | None) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._over(self)
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)

    def _again(self, call: Callable[[], None]) -> None:
        """Call after a pause, unless the owner has waited for long."""
        now_ms = self._broker.world.clock.mono_ms()
        if self._stopped or self._timer is not None:
            return
        if now_ms >= self._until_ms:
            left = ", ".join(f"{topic}-{index}" for topic, index in list(self._left)[:10])
            log.warning(
                "the take-over from producer %d waits for the leaders of %s",
                self.effect.producer_id,
                left,
            )
            self.stop()
            return

        def fire() -> None:
            self._timer = None
            call()

        self._timer = self._broker.world.timers.at(now_ms + self._retry_ms, fire)
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)

    # -- the leaders of now

    def _confirm_leaders(self) -> None:
        """Commit a record after the take-over's own, by an allocation of ids that stay unused."""
        broker = self._broker
        registered = broker.image.brokers.get(broker.node_id)
        epoch = registered.epoch if registered else -1
        request = AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=epoch)
        broker.metadata.submit(request, 0, self._allocated)

    def _allocated(self, result: AllocateProducerIdsResponse | KafkaError) -> None:
        if self._stopped:
            return
        if isinstance(result, KafkaError) or result.error_code:
            self._again(self._confirm_leaders)
            return
        self._ids_from = result.producer_id_start + result.producer_id_len
        self._ask_leaders()

    # -- what they are asked

    def _ask_leaders(self) -> None:
        image = self._broker.image
        if image.producer_ids.next_producer_id < self._ids_from:
            self._again(self._ask_leaders)
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in list(self._left):
            topic = image.topics.get(topic_partition.topic)
            if topic is None or topic_partition.partition not in topic.partitions:
                del self._left[topic_partition]  # deleted, and its records with it
            else:
                leader = topic.partitions[topic_partition.partition].leader
                if self._asked.get(topic_partition) != leader:
                    by_leader.setdefault(leader, []).append(topic_partition)
        by_leader.pop(NO_LEADER, None)
        self._revoke_here(by_leader.pop(self._broker.node_id, []))
        for leader, led in by_leader.items():
            self._revoke_there(leader, led)
        self._go_on()

    def _revoke_here(self, led: list[TopicPartition]) -> None:
        producer = self.effect.producer_id, self.effect.producer_epoch
        for topic_partition, error in self._here.revoke(*producer, led).items():
            if error is None:
                self._left.pop(topic_partition, None)

    def _revoke_there(self, leader: int, led: list[TopicPartition]) -> None:
        self._asked.update(dict.fromkeys(led, leader))
        request = RevokeProducerRequest(
            producer_id=self.effect.producer_id,
            producer_epoch=self.effect.producer_epoch,
            topics=[
                RevokeProducerTopic(name=name, partition_indexes=indexes)
                for name, indexes in indexes_by_topic(led).items()
            ],
        )
        self._broker.links.send(
            leader,
            request,
            RevokeProducerResponse,
            LinkPurpose.TRANSACTION,
            ANSWER_MS_MAX,
            partial(self._answered, leader, led),
        )

    def _answered(
        self, leader: int, led: list[TopicPartition], result: RevokeProducerResponse | Exception
    ) -> None:
        if self._stopped:
            return
        for topic_partition in led:
            if self._asked.get(topic_partition) == leader:
                del self._asked[topic_partition]
        if isinstance(result, UnsupportedVersion):
            log.warning(
                "broker %d does not know RevokeProducer: a former owner of a transaction can still "
                "write there until the transaction ends",
                leader,
            )
            settled = led
        elif isinstance(result, Exception):
            settled = []
        else:
            settled = [
                TopicPartition(topic.name, each.partition_index)
                for topic in result.topics
                for each in topic.partitions
                if each.error_code == 0
            ]
        for topic_partition in settled:
            self._left.pop(topic_partition, None)
        self._go_on()

    def _go_on(self) -> None:
        if not self._left:
            self._end(None)
        else:
            self._again(self._ask_leaders)
