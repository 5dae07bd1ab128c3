"""AlterPartitionReassignments and ListPartitionReassignments: partitions that change their brokers.

A reassignment begins by adding the new replicas to the present ones. The reassignment ends when all
replicas that stay are in sync (elections.complete_reassignment).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.controller.elections import Electorate, LeaderElection, change_partition
from penstock.controller.image import Image, PartitionImage, Topic
from penstock.controller.settings import RECORDS_PER_REQUEST_MAX, ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from penstock.wire.messages import k45_alter_partition_reassignments as k45
from penstock.wire.messages import k46_list_partition_reassignments as k46


class ReassignmentRequests:
    """Decides about reassignments; holds no state but what it was given."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._image = image
        self._settings = settings

    # AlterPartitionReassignments

    def alter(self, request: k45.AlterPartitionReassignmentsRequest) -> Outcome:
        records: list[Any] = []
        reply = k45.AlterPartitionReassignmentsResponse(
            error_message=None,
            allow_replication_factor_change=request.allow_replication_factor_change,
        )
        for topic in request.topics:
            topic_response = k45.ReassignableTopicResponse(name=topic.name)
            reply.responses.append(topic_response)
            for wanted in topic.partitions:
                result = k45.ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_message=None
                )
                topic_response.partitions.append(result)
                try:
                    record = self._alter_one(topic.name, wanted, request)
                    if record is not None:
                        _check_room(len(records))
                        records.append(record)
                except KafkaError as error:
                    result.error_code, result.error_message = error.code, error.message
        return Outcome(records, reply)

    def _alter_one(
        self,
        name: str,
        wanted: k45.ReassignablePartition,
        request: k45.AlterPartitionReassignmentsRequest,
    ) -> Any:
        topic = self._image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
        partition = topic.partitions.get(wanted.partition_index)
        if partition is None:
            raise UnknownTopicOrPartition(
                f"Unable to find partition {name}:{wanted.partition_index}."
            )
        if wanted.replicas is None:
            return self._cancel(topic, partition)
        self._check_target(wanted.replicas)
        if not request.allow_replication_factor_change:
            _check_factor(partition, wanted.replicas)
        return self._begin(topic, partition, wanted.replicas)

    def _begin(self, topic: Topic, partition: PartitionImage, target: Sequence[int]) -> Any:
        removing = tuple(sorted(each for each in partition.replicas if each not in target))
        adding = tuple(sorted(each for each in target if each not in partition.replicas))
        # A former reassignment is given up; where this one has nothing to add or to
        # remove, that one's lists stay until it is done, as with Kafka.
        wanted = replace(
            partition,
            replicas=(*target, *removing),
            removing=removing or partition.removing,
            adding=adding or partition.adding,
        )
        electorate = Electorate(self._image, self._settings, election=LeaderElection.CLEAN)
        return change_partition(electorate, topic, partition, wanted)

    def _check_target(self, target: Sequence[int]) -> None:
        what = "The manual partition assignment includes"
        if not target:
            raise InvalidReplicaAssignment(f"{what} an empty replica list.")
        for broker_id in sorted(target):
            if broker_id not in self._image.brokers:
                raise InvalidReplicaAssignment(
                    f"{what} broker {broker_id}, but no such broker is registered."
                )
            if list(target).count(broker_id) > 1:
                raise InvalidReplicaAssignment(f"{what} the broker {broker_id} more than once.")

    def _cancel(self, topic: Topic, partition: PartitionImage) -> Any:
        """Return the record that removes the added replicas again; raise if no reassignment is
        under way."""
        if not partition.adding and not partition.removing:
            raise NoReassignmentInProgress
        replicas = tuple(each for each in partition.replicas if each not in partition.adding)
        isr = tuple(each for each in partition.isr if each not in partition.adding)
        electorate = Electorate(self._image, self._settings)
        unclean = electorate.unclean_configured(topic.name)
        if not replicas:
            raise InvalidReplicaAssignment(
                "Invalid replica assignment: addingReplicas contains all replicas."
            )
        if not isr:
            # Only new replicas are in sync: going back may lose what they alone have.
            if not unclean:
                raise InvalidReplicaAssignment(
                    f"Unable to revert partition assignment for {topic.name}:"
                    f"{partition.partition_id} because it would require an unclean leader election."
                )
            isr = replicas[:1]
        wanted = replace(partition, replicas=replicas, isr=isr, adding=(), removing=())
        if unclean:
            electorate = Electorate(self._image, self._settings, election=LeaderElection.UNCLEAN)
        return change_partition(electorate, topic, partition, wanted)

    # ListPartitionReassignments

    def list_all(self, request: k46.ListPartitionReassignmentsRequest) -> Outcome:
        """Return the partitions that have replicas to add or to remove."""
        wanted: Mapping[str, Sequence[int]]
        if request.topics is None:
            wanted = {name: tuple(topic.partitions) for name, topic in self._image.topics.items()}
        else:
            wanted = {topic.name: topic.partition_indexes for topic in request.topics}
        topics = []
        for name, indexes in wanted.items():
            topic = self._image.topics.get(name)
            moving = [
                k46.OngoingPartitionReassignment(
                    partition_index=partition.partition_id,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding),
                    removing_replicas=list(partition.removing),
                )
                for index in indexes
                if topic is not None
                and (partition := topic.partitions.get(index)) is not None
                and (partition.adding or partition.removing)
            ]
            if moving:
                topics.append(k46.OngoingTopicReassignment(name=name, partitions=moving))
        reply = k46.ListPartitionReassignmentsResponse(error_message=None, topics=topics)
        return Outcome(reply=reply)


def _check_factor(partition: PartitionImage, target: Sequence[int]) -> None:
    staying = [each for each in partition.replicas if each not in partition.removing]
    if len(staying) != len(target):
        raise InvalidReplicationFactor(
            f"The replication factor is changed from {len(staying)} to {len(target)}"
        )


def _check_room(count: int) -> None:
    if count >= RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"One request may write at most {RECORDS_PER_REQUEST_MAX} records. Split it into "
            "several requests."
        )
