"""AlterPartition: the leader of a partition asks for another in-sync set.

The checks stand in Kafka's order. Each one has an error by which the leader knows its next step:
wait for the image, go back to the committed set, or find the active controller.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.delta import merge
from penstock.controller.elections import LEADER_UNCHANGED, Electorate, change_partition
from penstock.controller.image import (
    RECOVERED,
    RECOVERING,
    BrokerImage,
    Image,
    PartitionImage,
    Topic,
)
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.records.metadata import PartitionChangeRecord

REPLICA_EPOCHS_SINCE = 3  # of AlterPartition: the broker epoch of each replica (KIP-903)
ANY_EPOCH = -1  # the leader does not know the epoch of a replica, or it is the leader itself


class AlterPartitionRequests:
    """Decides about in-sync sets; holds the changes of one request until they are replayed."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._image = image
        self._electorate = Electorate(image, settings)
        self._records: list[PartitionChangeRecord] = []
        # A partition that the request names again is judged after its first change.
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}

    def alter(self, request: k56.AlterPartitionRequest, version: int) -> Outcome:
        check_broker_epoch(self._image, request.broker_id, request.broker_epoch)
        reply = k56.AlterPartitionResponse()
        for asked_topic in request.topics:
            topic = self._image.topic(asked_topic.topic_id)
            answers = []
            for asked in asked_topic.partitions:
                try:
                    if topic is None:
                        raise UnknownTopicId
                    answers.append(self._alter_one(request.broker_id, topic, asked, version))
                except KafkaError as error:
                    answers.append(_rejected(asked, error))
            reply.topics.append(
                k56.ResponseTopicData(topic_id=asked_topic.topic_id, partitions=answers)
            )
        return Outcome(self._records, reply)

    def _alter_one(
        self, broker_id: int, topic: Topic, asked: k56.RequestPartitionData, version: int
    ) -> k56.ResponsePartitionData:
        key = (topic.topic_id, asked.partition_index)
        partition = self._changed.get(key) or topic.partitions.get(asked.partition_index)
        if partition is None:
            raise UnknownTopicOrPartition
        isr = asked_in_sync_set(asked, version)
        check_epochs_known(partition, asked)
        check_leader_epoch(partition, asked)
        check_leader(partition, broker_id)
        check_partition_epoch(partition, asked)
        check_in_sync_set(partition, isr)
        check_recovery_state(partition, asked.leader_recovery_state, isr)
        try:
            check_eligible(self._image, isr)
        except IneligibleReplica:
            self._end_earlier_attempts(topic, partition)
            raise
        record = change_partition(
            self._electorate,
            topic,
            partition,
            replace(
                partition,
                isr=tuple(each.broker_id for each in isr),
                recovery_state=asked.leader_recovery_state,
            ),
        )
        if record is not None:
            self._records.append(record)
            partition = self._changed[key] = merge(partition, record)
            if record.leader not in (broker_id, LEADER_UNCHANGED):
                raise NewLeaderElected  # the set has completed a reassignment without this leader
        return _accepted(partition)

    def _end_earlier_attempts(self, topic: Topic, partition: PartitionImage) -> None:
        """Write a change of nothing but the partition epoch.

        The leader goes back to its committed set now. An earlier attempt of the same request may
        arrive when the replica is eligible again. The replica would join without the records that
        the leader commits meanwhile.
        """
        record = PartitionChangeRecord(partition_id=partition.partition_id, topic_id=topic.topic_id)
        self._records.append(record)
        self._changed[topic.topic_id, partition.partition_id] = merge(partition, record)


def asked_in_sync_set(asked: k56.RequestPartitionData, version: int) -> Sequence[k56.BrokerState]:
    """Return the replicas of the set, each with the broker epoch that the leader knows."""
    if version >= REPLICA_EPOCHS_SINCE:
        return asked.new_isr_with_epochs
    return [k56.BrokerState(broker_id=each, broker_epoch=ANY_EPOCH) for each in asked.new_isr]


def check_epochs_known(partition: PartitionImage, asked: k56.RequestPartitionData) -> None:
    """Raise NotController for a leader that knows later epochs: another controller gave them."""
    if asked.leader_epoch > partition.leader_epoch:
        raise NotController
    if asked.partition_epoch > partition.partition_epoch:
        raise NotController


def check_leader_epoch(partition: PartitionImage, asked: k56.RequestPartitionData) -> None:
    if asked.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch


def check_leader(partition: PartitionImage, broker_id: int) -> None:
    if broker_id != partition.leader:
        raise InvalidRequest(f"Broker {broker_id} does not lead the partition.")


def check_partition_epoch(partition: PartitionImage, asked: k56.RequestPartitionData) -> None:
    """Raise InvalidUpdateVersion for a leader that has not seen the newest change."""
    if asked.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion


def check_in_sync_set(partition: PartitionImage, isr: Sequence[k56.BrokerState]) -> None:
    """Raise InvalidRequest unless the set has the leader and replicas of the partition, each
    once."""
    if len(isr) > len(partition.replicas):
        raise InvalidRequest("The in-sync set is larger than the set of replicas.")
    named = {each.broker_id for each in isr}
    if len(named) < len(isr) or not named.issubset(partition.replicas):
        raise InvalidRequest("The in-sync set is not a part of the replicas.")
    if partition.leader not in named:
        raise InvalidRequest("The in-sync set lacks the leader.")


def check_recovery_state(
    partition: PartitionImage, state: int, isr: Sequence[k56.BrokerState]
) -> None:
    """Raise InvalidRequest for a leader that recovers from an unclean election with others in sync,
    or that begins to recover by itself."""
    if state not in (RECOVERED, RECOVERING):
        raise InvalidRequest(f"Unknown leader recovery state {state}.")
    if state != RECOVERING:
        return
    if len(isr) > 1:
        raise InvalidRequest("While its leader recovers, a partition has no other replica in sync.")
    if partition.recovery_state == RECOVERED:
        raise InvalidRequest("A leader that has recovered does not begin to recover again.")


def check_eligible(image: Image, isr: Sequence[k56.BrokerState]) -> None:
    """Raise IneligibleReplica for a set with a broker that must not join one."""
    for each in isr:
        reason = ineligibility(image.brokers.get(each.broker_id), each.broker_epoch)
        if reason is not None:
            raise IneligibleReplica(f"Broker {each.broker_id} is {reason}.")


def ineligibility(broker: BrokerImage | None, broker_epoch: int) -> str | None:
    """Return why a broker must not be in sync, None if it may be.

    An older epoch is that of an earlier start: its log may have lost its end since (KIP-903).
    """
    if broker is None:
        return "not registered"
    if broker.in_controlled_shutdown:
        return "shutting down"
    if broker.fenced:
        return "fenced"
    if broker_epoch not in (ANY_EPOCH, broker.epoch):
        return f"registered with epoch {broker.epoch}, not {broker_epoch}"
    return None


def _accepted(partition: PartitionImage) -> k56.ResponsePartitionData:
    return k56.ResponsePartitionData(
        partition_index=partition.partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _rejected(asked: k56.RequestPartitionData, error: KafkaError) -> k56.ResponsePartitionData:
    return k56.ResponsePartitionData(partition_index=asked.partition_index, error_code=error.code)
