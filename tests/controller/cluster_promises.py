"""What a controller promises about partitions, checked after each of its decisions.

A model knows which replicas hold all committed records.
"""

from collections import Counter

from controller_bench import Bench

from penstock import errors
from penstock.controller.elections import LEADER_UNCHANGED
from penstock.controller.image import (
    LOST_DIRECTORY,
    NO_LEADER,
    RECOVERING,
    Image,
    PartitionImage,
)
from penstock.controller.records import decode_record
from penstock.wire.messages.k56_alter_partition import AlterPartitionRequest, BrokerState
from penstock.wire.records.metadata import PartitionChangeRecord

MIN_ISR = 2


def min_isr(partition: PartitionImage) -> int:
    return min(MIN_ISR, len(partition.replicas))


def is_lost(partition: PartitionImage, broker_id: int) -> bool:
    held = broker_id in partition.replicas
    return held and partition.directory_of(broker_id) == LOST_DIRECTORY


def expected_rejection(
    image: Image, request: AlterPartitionRequest
) -> type[errors.KafkaError] | None:
    """Return the error of a request about one partition, None if it has to be accepted."""
    broker = image.brokers[request.broker_id]
    [asked] = request.topics[0].partitions
    topic = image.topic(request.topics[0].topic_id)
    assert topic is not None
    partition = topic.partitions[asked.partition_index]
    named = [each.broker_id for each in asked.new_isr_with_epochs]
    is_set = len(set(named)) == len(named) and set(named) <= set(partition.replicas)
    judgements: list[tuple[bool, type[errors.KafkaError]]] = [
        (broker.epoch == request.broker_epoch, errors.StaleBrokerEpoch),
        (asked.leader_epoch <= partition.leader_epoch, errors.NotController),
        (asked.partition_epoch <= partition.partition_epoch, errors.NotController),
        (asked.leader_epoch == partition.leader_epoch, errors.FencedLeaderEpoch),
        (request.broker_id == partition.leader, errors.InvalidRequest),
        (asked.partition_epoch == partition.partition_epoch, errors.InvalidUpdateVersion),
        (is_set and partition.leader in named, errors.InvalidRequest),
        (
            all(is_present(image, each) for each in asked.new_isr_with_epochs),
            errors.IneligibleReplica,
        ),
    ]
    return next((error for holds, error in judgements if not holds), None)


def is_present(image: Image, state: BrokerState) -> bool:
    broker = image.brokers[state.broker_id]
    return broker.active and broker.epoch == state.broker_epoch


class ClusterPromises:
    def __init__(self, bench: Bench, *, with_eligible: bool) -> None:
        self.bench = bench
        self.with_eligible = with_eligible
        self.before, self.seen = bench.image, len(bench.log)
        self.complete: dict[tuple[str, int], set[int]] = {}
        self.counted: Counter[str] = Counter()

    def created(self, name: str) -> None:
        """Note a new topic: its replicas in sync hold all records, as there are none."""
        for index, partition in self.bench.image.topics[name].partitions.items():
            self.complete[name, index] = set(partition.isr)

    def killed(self, broker_id: int) -> None:
        """Note that the logs of a broker may have lost their ends."""
        for replicas in self.complete.values():
            replicas.discard(broker_id)

    def check(self) -> None:
        image = self.bench.image
        changes = self.changes_since()
        for topic, partition in image.partitions():
            old = self.before.topics.get(topic.name)
            self.check_partition(topic.name, partition)
            if old is not None:
                key = (topic.topic_id, partition.partition_id)
                self.check_epochs(
                    old.partitions[partition.partition_id], partition, changes.get(key, [])
                )
                self.check_change(topic.name, old.partitions[partition.partition_id], partition)
            self.note_complete(topic.name, partition)
        assert {broker.broker_id for broker in image.brokers.values()} == set(image.brokers)
        self.before = image

    def changes_since(self) -> dict[tuple[bytes, int], list[PartitionChangeRecord]]:
        """Return the changes of each partition since the last check."""
        changes: dict[tuple[bytes, int], list[PartitionChangeRecord]] = {}
        for batch in self.bench.log[self.seen :]:
            for value in batch:
                record = decode_record(value)
                if isinstance(record, PartitionChangeRecord):
                    key = (record.topic_id, record.partition_id)
                    changes.setdefault(key, []).append(record)
        self.seen = len(self.bench.log)
        return changes

    def check_epochs(
        self, old: PartitionImage, new: PartitionImage, changes: list[PartitionChangeRecord]
    ) -> None:
        named = sum(each.leader != LEADER_UNCHANGED for each in changes)
        assert new.partition_epoch == old.partition_epoch + len(changes)
        assert new.leader_epoch == old.leader_epoch + named

    def note_complete(self, name: str, partition: PartitionImage) -> None:
        """Let records be committed wherever a whole set allows it: only its members have them."""
        if partition.leader == NO_LEADER:
            return
        complete = self.complete[name, partition.partition_id]
        if len(partition.isr) >= min_isr(partition):
            complete.clear()
        complete.update(partition.isr)

    def check_partition(self, name: str, partition: PartitionImage) -> None:
        isr, eligible = set(partition.isr), set(partition.eligible_leaders)
        assert isr <= set(partition.replicas) >= eligible, name
        assert not isr & eligible
        assert not eligible or len(isr) < min_isr(partition)
        if partition.leader != NO_LEADER:
            assert self.bench.image.brokers[partition.leader].active
            assert not is_lost(partition, partition.leader)
            assert partition.leader in isr
            assert partition.last_known_leaders == ()
        elif self.with_eligible:
            assert not isr

    def check_change(self, name: str, old: PartitionImage, new: PartitionImage) -> None:
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
        if new.leader in (old.leader, NO_LEADER) or not self.with_eligible:
            return
        complete = self.complete[name, new.partition_id]
        if new.leader in (*old.isr, *old.eligible_leaders):
            self.counted["eligible leader"] += new.leader not in old.isr
            assert new.leader in complete, "a clean election names a complete replica"
            return
        self.counted["last known leader"] += 1
        assert not complete, "an unclean election is for partitions without a complete replica"
        assert (old.last_known_leaders, new.recovery_state) == ((new.leader,), RECOVERING)
        complete.add(new.leader)  # what the last leader has counts from now on
