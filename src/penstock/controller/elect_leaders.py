"""ElectLeaders: elections on request, of preferred or of unclean leaders.

The preferred leader is a partition's first replica. For a partition without a leader, an unclean
election takes a replica that may have lost records.
"""

from collections.abc import Iterator
from typing import Any, Final

from penstock.controller.elections import Electorate, LeaderElection, change_partition
from penstock.controller.image import NO_LEADER, Image
from penstock.controller.settings import RECORDS_PER_REQUEST_MAX, ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from penstock.wire.messages import k43_elect_leaders as k43

ELECTIONS: Final = {0: LeaderElection.PREFERRED, 1: LeaderElection.UNCLEAN}


class ElectLeadersRequests:
    """Decides about elections; holds no state but what it was given."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._image = image
        self._settings = settings

    def elect(self, request: k43.ElectLeadersRequest) -> Outcome:
        election = ELECTIONS.get(request.election_type)
        if election is None:
            raise InvalidRequest(f"Unknown election type {request.election_type}")
        electorate = Electorate(self._image, self._settings, election=election)
        records: list[Any] = []
        reply = k43.ElectLeadersResponse()
        everything = request.topic_partitions is None
        for name, indexes in self._meant(request):
            topic_result = k43.ReplicaElectionResult(topic=name)
            reply.replica_election_results.append(topic_result)
            for index in indexes:
                result = k43.PartitionResult(partition_id=index, error_message=None)
                try:
                    if len(records) >= RECORDS_PER_REQUEST_MAX:
                        raise PolicyViolation("Too many elections in one request; ask for fewer.")
                    records.append(self._elect_one(electorate, name, index))
                except ElectionNotNeeded as error:
                    if everything:
                        continue  # a partition with the right leader is left out
                    result.error_code, result.error_message = error.code, error.message
                except KafkaError as error:
                    result.error_code, result.error_message = error.code, error.message
                topic_result.partition_result.append(result)
        return Outcome(records, reply)

    def _meant(self, request: k43.ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
        if request.topic_partitions is None:
            for name, topic in self._image.topics.items():
                yield name, list(topic.partitions)
        else:
            for named in request.topic_partitions:
                yield named.topic, named.partitions

    def _elect_one(self, electorate: Electorate, name: str, index: int) -> Any:
        topic = self._image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
        preferred = electorate.election is LeaderElection.PREFERRED
        led_well = (
            partition.leader == partition.replicas[0]
            if preferred
            else partition.leader != NO_LEADER
        )
        if led_well:
            raise ElectionNotNeeded
        record = change_partition(electorate, topic, partition)
        if record is None:
            if preferred:
                raise PreferredLeaderNotAvailable
            raise EligibleLeadersNotAvailable
        return record
