"""Batches written to brokers that misbehave: once, in order, within their time."""

import random
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_cluster import METADATA, PRODUCE, Fault, ScriptedCluster
from scripted_log import batch_of

from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.batch_writer import Acknowledged, BatchWriter
from penstock.client.raw.outcomes import (
    BatchTooLarge,
    DeliveryTimedOut,
    NotAuthorized,
    PartitionFailure,
    PartitionMissing,
    ProducerReplaced,
    SequenceBroken,
    TopicMissing,
    TopicRecreated,
    WriteRefused,
)
from penstock.client.raw.produce_parts import TopicBatches, produce_parts
from penstock.client.transport.connection import CannotReach
from penstock.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from penstock.model import TopicPartition
from penstock.wire.codec import write
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

T = "t"
P0, P1, P2 = (TopicPartition(T, index) for index in range(3))
PRODUCER = 77
SEEDS = range(12)
BATCHES = 40


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=2) as running:
        running.create(T, 4)
        yield running


@pytest.fixture
def nodes(cluster: ScriptedCluster) -> Iterator[Nodes]:
    opened = Nodes(cluster.bootstrap, timeout_ms=5_000)
    yield opened
    opened.close()


class Sequenced:
    """Sends batches of one producer with the next sequence numbers."""

    def __init__(self, writer: BatchWriter) -> None:
        self.writer = writer
        self.sent: dict[TopicPartition, list[bytes]] = {}

    def send(self, partition: TopicPartition, records: int = 2) -> None:
        before = self.sent.setdefault(partition, [])
        first = len(before)
        values = [f"{partition}:{first + place}".encode() for place in range(records)]
        before += values
        self.writer.send(partition, batch_of(*values, producer=(PRODUCER, 0, first)), records)


def writer_of(nodes: Nodes, delivery_timeout_ms: int = 10_000) -> BatchWriter:
    return BatchWriter(nodes, request_timeout_ms=2_000, delivery_timeout_ms=delivery_timeout_ms)


def test_batches_are_stored_in_order_and_counted(cluster: ScriptedCluster, nodes: Nodes) -> None:
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    for _ in range(20):
        for partition in (P0, P1, P2):
            producer.send(partition)
    writer.flush()
    for partition in (P0, P1, P2):
        assert cluster.logs[partition].values() == producer.sent[partition]
        assert writer.acknowledged[partition] == Acknowledged(40, 20, 39)


def test_a_flush_of_nothing_asks_nothing(cluster: ScriptedCluster, nodes: Nodes) -> None:
    writer_of(nodes).flush()
    assert cluster.asked == []


def test_batches_that_wait_for_one_leader_share_a_request(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    producer.send(P0)
    producer.send(P2)
    writer.flush()  # it knows the leaders now, and asks for nothing but Produce
    all_sent = threading.Event()

    def wait() -> None:
        all_sent.wait(10)

    cluster.faults.append(Fault(PRODUCE, meanwhile=wait))
    for _ in range(30):
        producer.send(P0)
        producer.send(P2)
    all_sent.set()
    writer.flush()
    assert any(
        len(request.topic_data[0].partition_data) > 1 for request in cluster.requests(PRODUCE)
    )
    assert len(cluster.requests(PRODUCE)) < 60


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_is_spoken(version: int) -> None:
    with ScriptedCluster() as cluster:
        cluster.create(T)
        writer = BatchWriter(Nodes(cluster.bootstrap), version_max=version)
        writer.send(P0, batch_of(b"a", b"b"), 2)
        writer.flush()
        assert {asked for _, key, asked, _ in cluster.asked if key == PRODUCE} == {version}
    assert cluster.logs[P0].values() == [b"a", b"b"]


def test_a_server_without_topic_ids_is_written_to_by_name() -> None:
    with ScriptedCluster(highest={METADATA: 9}) as cluster:
        cluster.create(T)
        writer = BatchWriter(Nodes(cluster.bootstrap))
        writer.send(P0, batch_of(b"a"), 1)
        writer.flush()
    assert cluster.logs[P0].values() == [b"a"]


# -- what is tried again


@pytest.mark.parametrize("done", [False, True], ids=["not stored", "stored"])
@pytest.mark.parametrize(
    "error",
    [NotEnoughReplicas, NotEnoughReplicasAfterAppend, RequestTimedOut, KafkaStorageError,
     ConcurrentTransactions, NotLeaderOrFollower],
)  # fmt: skip
def test_a_passing_error_costs_no_record_and_doubles_none(
    cluster: ScriptedCluster, nodes: Nodes, error: type[NotEnoughReplicas], done: bool
) -> None:
    cluster.faults += [
        Fault(PRODUCE),
        Fault(PRODUCE, code=error.code, done=done),
        Fault(PRODUCE, code=error.code, done=done),
    ]
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    for _ in range(20):
        producer.send(P0)
    writer.flush()
    assert cluster.logs[P0].values() == producer.sent[P0]


@pytest.mark.parametrize("done", [False, True], ids=["not stored", "stored"])
def test_a_lost_connection_costs_no_record_and_doubles_none(
    cluster: ScriptedCluster, nodes: Nodes, done: bool
) -> None:
    cluster.faults += [Fault(PRODUCE), Fault(PRODUCE), Fault(PRODUCE, cut=True, done=done)]
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    for _ in range(20):
        producer.send(P0)
    writer.flush()
    assert cluster.logs[P0].values() == producer.sent[P0]


def test_a_leader_that_moves_is_followed(cluster: ScriptedCluster, nodes: Nodes) -> None:
    cluster.faults += [Fault(PRODUCE), Fault(PRODUCE, meanwhile=lambda: cluster.move(P0, 2))]
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    for _ in range(20):
        producer.send(P0)
    writer.flush()
    assert cluster.logs[P0].values() == producer.sent[P0]


def test_only_one_batch_is_under_way_until_the_leader_knows_the_producer(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    """Else a leader that refuses the first could take the second for the first."""
    cluster.faults += [Fault(PRODUCE, code=NotEnoughReplicas.code)]
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    for _ in range(10):
        producer.send(P0)
    writer.flush()
    assert cluster.logs[P0].values() == producer.sent[P0]


def test_batches_without_sequence_numbers_keep_their_order_through_failures(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    cluster.faults += [
        Fault(PRODUCE),
        Fault(PRODUCE, code=NotEnoughReplicas.code),
        Fault(PRODUCE, cut=True, done=True),
    ]
    writer = writer_of(nodes)
    for number in range(10):
        writer.send(P0, batch_of(str(number).encode()), 1)
    writer.flush()
    stored = cluster.logs[P0].values()
    assert list(dict.fromkeys(stored)) == [str(number).encode() for number in range(10)]
    assert len(stored) == 11  # at least once: the one whose answer was lost is there twice


def test_an_answer_that_came_with_that_of_another_request_is_not_waited_for(nodes: Nodes) -> None:
    writer = writer_of(nodes)
    writer.send(P0, batch_of(b"a"), 1)
    nodes.node(1).request(ApiVersionsRequest(), ApiVersionsResponse)
    began = time.monotonic()
    writer.flush()
    assert time.monotonic() - began < 1


def test_a_duplicate_counts_as_stored(cluster: ScriptedCluster, nodes: Nodes) -> None:
    cluster.faults += [Fault(PRODUCE, code=46)]
    writer = writer_of(nodes)
    writer.send(P0, batch_of(b"a", producer=(PRODUCER, 0, 0)), 1)
    writer.flush()
    assert writer.acknowledged[P0] == Acknowledged(1, 1, -1)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_every_record_is_stored_once_and_in_order(
    cluster: ScriptedCluster, nodes: Nodes, seed: int
) -> None:
    choose = random.Random(seed)
    codes = [NotEnoughReplicas.code, RequestTimedOut.code, KafkaStorageError.code]

    def fault() -> Fault:
        match choose.randrange(6):
            case 0:
                return Fault(PRODUCE, cut=True, done=choose.random() < 0.5)
            case 1 | 2:
                return Fault(PRODUCE, code=choose.choice(codes), done=choose.random() < 0.5)
            case 3:
                partition, node = choose.choice([P0, P1, P2]), choose.randrange(1, 3)
                return Fault(PRODUCE, meanwhile=lambda: cluster.move(partition, node))
            case _:
                return Fault(PRODUCE)

    cluster.faults += [fault() for _ in range(20)]
    writer = writer_of(nodes, delivery_timeout_ms=30_000)
    producer = Sequenced(writer)
    for _ in range(BATCHES):
        producer.send(choose.choice([P0, P1, P2]), choose.randrange(1, 5))
        if choose.random() < 0.1:
            writer.flush()
    writer.flush()
    for partition, sent in producer.sent.items():
        assert cluster.logs[partition].values() == sent
        assert writer.acknowledged[partition].records == len(sent)


# -- outcomes


def refuse(
    cluster: ScriptedCluster, nodes: Nodes, code: int, expected: type[PartitionFailure]
) -> PartitionFailure:
    cluster.faults += [Fault(PRODUCE, code=code)]
    writer = writer_of(nodes)

    def write() -> None:
        writer.send(P0, batch_of(b"a", b"b", producer=(PRODUCER, 0, 0)), 2)
        writer.flush()

    with pytest.raises(expected) as failed:
        write()
    with pytest.raises(expected):
        writer.flush()  # and it stays so
    with pytest.raises(expected):
        writer.send(P0, batch_of(b"c"), 1)
    return failed.value


def test_a_batch_that_is_too_large_names_the_key_to_change(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    failure = refuse(cluster, nodes, MessageTooLarge.code, BatchTooLarge)
    assert "raise max.message.bytes of topic t" in str(failure)
    assert isinstance(failure, BatchTooLarge) and failure.size == len(batch_of(b"a", b"b"))


def test_a_fenced_producer_is_told_so(cluster: ScriptedCluster, nodes: Nodes) -> None:
    failure = refuse(cluster, nodes, InvalidProducerEpoch.code, ProducerReplaced)
    assert "2 records were not acknowledged: INVALID_PRODUCER_EPOCH" in str(failure)


def test_what_one_may_not_write_is_said(cluster: ScriptedCluster, nodes: Nodes) -> None:
    failure = refuse(cluster, nodes, TopicAuthorizationFailed.code, NotAuthorized)
    assert "ACL WRITE on topic t" in str(failure)


def test_a_transaction_in_another_state_is_final(cluster: ScriptedCluster, nodes: Nodes) -> None:
    failure = refuse(cluster, nodes, InvalidTxnState.code, WriteRefused)
    assert isinstance(failure, WriteRefused) and isinstance(failure.error, InvalidTxnState)


def test_a_partition_that_lost_what_it_acknowledged_is_found_out(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    def forget() -> None:
        cluster.logs[P0].producers[PRODUCER].last_sequence = 0
        cluster.logs[P0].producers[PRODUCER].recent.clear()

    writer = writer_of(nodes)
    producer = Sequenced(writer)
    producer.send(P0)
    writer.flush()
    cluster.faults += [Fault(PRODUCE, meanwhile=forget)]
    producer.send(P0)
    with pytest.raises(SequenceBroken, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        writer.flush()
    assert len(cluster.requests(PRODUCE)) == 3  # it was tried once more


def test_out_of_order_that_passes_is_no_failure(cluster: ScriptedCluster, nodes: Nodes) -> None:
    cluster.faults += [Fault(PRODUCE, code=OutOfOrderSequenceNumber.code)]
    writer = writer_of(nodes)
    producer = Sequenced(writer)
    producer.send(P0)
    writer.flush()
    assert cluster.logs[P0].values() == producer.sent[P0]


def test_delivery_has_a_limit_and_the_last_reason_is_said(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    cluster.faults += [Fault(PRODUCE, code=NotEnoughReplicas.code)] * 100
    writer = writer_of(nodes, delivery_timeout_ms=200)
    writer.send(P0, batch_of(b"a"), 1)
    with pytest.raises(DeliveryTimedOut, match=r"200 ms.*NOT_ENOUGH_REPLICAS") as failed:
        writer.flush()
    assert failed.value.records == 1


def test_no_server_at_all_ends_with_the_delivery_timeout() -> None:
    writer = writer_of(Nodes("127.0.0.1:1"), delivery_timeout_ms=200)
    writer.send(P0, batch_of(b"a"), 1)
    with pytest.raises(DeliveryTimedOut, match="nothing listens there"):
        writer.flush()


@pytest.mark.parametrize(
    ("partition", "expected"),
    [(TopicPartition("nowhere", 0), TopicMissing), (TopicPartition(T, 9), PartitionMissing)],
)
def test_a_place_that_is_not_there_is_said(
    nodes: Nodes,
    monkeypatch: pytest.MonkeyPatch,
    partition: TopicPartition,
    expected: type[PartitionFailure],
) -> None:
    monkeypatch.setattr("penstock.client.raw.batch_writer.MISSING_MS_MAX", 50)
    writer = writer_of(nodes)
    writer.send(partition, batch_of(b"a"), 1)
    with pytest.raises(expected):
        writer.flush()


def test_a_topic_that_was_created_again_gets_nothing_of_the_old_one(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    def create_again() -> None:
        cluster.delete(T)
        cluster.create(T, 4, topic_id=b"another id......")

    writer = writer_of(nodes)
    writer.send(P0, batch_of(b"a"), 1)
    writer.flush()
    cluster.faults += [Fault(PRODUCE, meanwhile=create_again)]
    writer.send(P0, batch_of(b"b"), 1)
    with pytest.raises(TopicRecreated):
        writer.flush()
    assert cluster.logs[P0].values() == []


def test_what_is_no_batch_is_refused(nodes: Nodes) -> None:
    with pytest.raises(ValueError, match="no record batch"):
        writer_of(nodes).send(P0, b"short", 1)
    with pytest.raises(ValueError, match="not format 2"):
        writer_of(nodes).send(P0, bytes(100), 1)


# -- acks=0


def test_without_acknowledgements_a_flush_waits_until_all_is_taken(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    writer = BatchWriter(nodes, acks=0)
    for number in range(10):
        writer.send(P0, batch_of(str(number).encode()), 1)
    writer.flush()
    assert len(cluster.logs[P0].values()) == 10


def test_without_acknowledgements_a_lost_connection_is_told(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    cluster.faults += [Fault(PRODUCE, cut=True)]
    writer = BatchWriter(nodes, acks=0)
    writer.send(P0, batch_of(b"a"), 1)
    with pytest.raises(CannotReach, match="may not be stored"):
        writer.flush()


# -- the request

names = st.text(min_size=1, max_size=8)
data = st.binary(max_size=20) | st.integers(0, 300).map(bytes)
batches = st.dictionaries(st.integers(0, 2**31 - 1), data, max_size=3)


@given(
    version=st.integers(3, 13),
    transactional_id=st.none() | names,
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    topics=st.lists(st.tuples(names, st.binary(min_size=16, max_size=16), batches), max_size=3),
)
def test_a_request_in_parts_is_the_same_as_in_one_piece(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: list[tuple[str, bytes, dict[int, bytes]]],
) -> None:
    parts = produce_parts(
        version, transactional_id, acks, timeout_ms, [TopicBatches(*each) for each in topics]
    )
    whole = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    PartitionProduceData(index=index, records=data) for index, data in found.items()
                ],
            )
            for name, topic_id, found in topics
        ],
    )
    assert b"".join(parts) == write(whole, version)
