"""A coordinator and the leaders of its partitions on different nodes."""

from types import SimpleNamespace
from typing import Any

import pytest
from txn_fakes import HERE, THERE, FakePartition, FakeTarget, fake_broker, transactional

from penstock import errors
from penstock.broker.links.link_connection import LinkFailed
from penstock.broker.transactions.remote_coordinators import RemoteMarkers
from penstock.broker.transactions.txn_markers import MarkerWriter
from penstock.broker.transactions.txn_verification import TxnVerification
from penstock.coordinator.records import EndMarker
from penstock.model import TRANSACTION_STATE_TOPIC, TopicPartition
from penstock.wire.messages import k24_add_partitions_to_txn as k24
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.structures import PartitionError, TopicErrors

PRODUCER_ID, EPOCH = 7, 3
MARKER = EndMarker(PRODUCER_ID, EPOCH, 5, True, True)
A, B = TopicPartition("t", 0), TopicPartition("u", 1)
V2, V1 = 12, 11


class Leader:
    """A node that leads t-0; the coordinator of every id is on another one."""

    def __init__(self) -> None:
        self.broker: SimpleNamespace = fake_broker()
        partitions = {0: SimpleNamespace(leader=THERE)}
        self.broker.image.topics[TRANSACTION_STATE_TOPIC] = SimpleNamespace(partitions=partitions)
        self.verification = TxnVerification(self.broker)
        self.partition = FakePartition("t", 0)
        self.target = FakeTarget()

    def produce(self, version: int = V2) -> None:
        records, header = transactional(PRODUCER_ID, EPOCH, 0)
        arrived = [(self.partition, records, header, (self.target, None, None, 0))]
        self.verification.produce("name", version, arrived)  # type: ignore[arg-type]

    def answer(self, code: int) -> None:
        result = k24.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        topic = k24.AddPartitionsToTxnTopicResult(name="t", results_by_partition=[result])
        answered = k24.AddPartitionsToTxnResult(transactional_id="name", topic_results=[topic])
        response = k24.AddPartitionsToTxnResponse(results_by_transaction=[answered])
        self.broker.links.answer(response)

    @property
    def rejected(self) -> list[str]:
        return [each.kafka_name() for each in self.target.errors]


@pytest.mark.parametrize(("version", "verify_only"), [(V2, False), (V1, True)])
def test_a_leader_asks_the_node_of_the_coordinator(version: int, verify_only: bool) -> None:
    leader = Leader()
    leader.produce(version)
    [(node_id, request)] = leader.broker.links.sent
    [asked] = request.transactions
    assert node_id == THERE
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (
        "name",
        PRODUCER_ID,
        EPOCH,
    )
    assert asked.verify_only == verify_only
    assert [(each.name, each.partitions) for each in asked.topics] == [("t", [0])]


def test_a_batch_is_written_when_the_coordinator_has_the_partition() -> None:
    leader = Leader()
    leader.produce()
    assert leader.partition.sequences == []
    leader.answer(0)
    assert leader.partition.sequences == [0]


def test_a_coordinator_that_is_still_ending_is_asked_again() -> None:
    leader = Leader()
    leader.produce()
    leader.answer(errors.ConcurrentTransactions.code)
    leader.broker.world.advance(20)
    leader.answer(0)
    assert leader.partition.sequences == [0]


def test_a_coordinator_that_rejects_fails_the_batch() -> None:
    leader = Leader()
    leader.produce()
    leader.answer(errors.InvalidProducerEpoch.code)
    assert leader.rejected == ["INVALID_PRODUCER_EPOCH"]


@pytest.mark.parametrize(
    "failure", [LinkFailed("away", unsent=True), errors.UnsupportedVersion("old")], ids=repr
)
def test_a_coordinator_out_of_reach_is_an_error_that_producers_try_again(
    failure: Exception,
) -> None:
    leader = Leader()
    leader.produce()
    leader.broker.links.answer(failure)
    assert leader.rejected == ["NOT_ENOUGH_REPLICAS"]


class Written:
    """The results of markers."""

    def __init__(self) -> None:
        self.results: dict[TopicPartition, str | None] = {}

    def note(self, topic_partition: TopicPartition, error: errors.KafkaError | None) -> None:
        self.results[topic_partition] = None if error is None else error.kafka_name()


def marker_response(*codes: tuple[TopicPartition, int]) -> Any:
    topics = [
        TopicErrors(
            name=each.topic,
            partitions=[PartitionError(partition_index=each.partition, error_code=code)],
        )
        for each, code in codes
    ]
    result = k27.WritableTxnMarkerResult(producer_id=PRODUCER_ID, topics=topics)
    return k27.WriteTxnMarkersResponse(markers=[result])


def test_markers_of_another_node_travel_in_one_request() -> None:
    broker, written = fake_broker(), Written()
    RemoteMarkers(broker, THERE).write(MARKER, [A, B], written.note)
    [(node_id, request)] = broker.links.sent
    [marker] = request.markers
    assert node_id == THERE
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
    assert marker.transaction_result
    assert marker.transaction_version == 2
    assert [(each.name, each.partition_indexes) for each in marker.topics] == [
        ("t", [0]),
        ("u", [1]),
    ]


def test_each_partition_of_another_node_has_its_own_result() -> None:
    broker, written = fake_broker(), Written()
    RemoteMarkers(broker, THERE).write(MARKER, [A, B], written.note)
    broker.links.answer(marker_response((A, 0), (B, errors.InvalidProducerEpoch.code)))
    assert written.results == {A: None, B: "INVALID_PRODUCER_EPOCH"}


def test_a_partition_that_an_answer_leaves_out_is_not_written() -> None:
    broker, written = fake_broker(), Written()
    RemoteMarkers(broker, THERE).write(MARKER, [A, B], written.note)
    broker.links.answer(marker_response((A, 0)))
    assert written.results == {A: None, B: "UNKNOWN_SERVER_ERROR"}


def test_a_leader_out_of_reach_has_no_marker_yet() -> None:
    broker, written = fake_broker(), Written()
    RemoteMarkers(broker, THERE).write(MARKER, [A], written.note)
    broker.links.answer(LinkFailed("away", unsent=False))
    assert written.results == {A: "NOT_LEADER_OR_FOLLOWER"}


def test_each_leader_is_a_destination_and_no_leader_is_none() -> None:
    broker = fake_broker()
    leaders = {0: HERE, 1: THERE, 2: -1}
    partitions = {index: SimpleNamespace(leader=leader) for index, leader in leaders.items()}
    broker.image.topics["t"] = SimpleNamespace(partitions=partitions)
    writer = MarkerWriter(broker)
    found = writer.destinations([TopicPartition("t", index) for index in leaders])
    assert [(type(each).__name__, led) for each, led in found] == [
        ("LocalMarkers", [TopicPartition("t", 0)]),
        ("RemoteMarkers", [TopicPartition("t", 1)]),
    ]
