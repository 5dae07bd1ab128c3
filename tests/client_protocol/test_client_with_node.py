"""Reading, writing and transactions against a node, with librdkafka as the other side."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as TheirPartition
from cutting_proxy import CuttingProxy
from scripted_log import batch_of

from penstock.client.admin.blocking import Admin
from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.batch_writer import BatchWriter
from penstock.client.raw.outcomes import ProducerReplaced, RecordsExpired, TopicRecreated
from penstock.client.raw.range_reader import FetchedBatches, OffsetRange, Patience, RangeReader
from penstock.client.raw.transactions import (
    ProducerIdentity,
    TransactionAbilities,
    abilities_of,
    add_partitions,
    end_transaction,
    init_producer_id,
)
from penstock.client.values import At, FoundOffset
from penstock.errors import InvalidTxnState, ProducerFenced, TransactionalIdAuthorizationFailed
from penstock.model import TopicPartition
from penstock.testing.cluster import Cluster
from penstock.wire.batch import (
    ATTRIBUTES,
    CONTROL,
    PRODUCER_ID,
    Record,
    batch_headers,
    build_batch,
    read_records,
)

POLL_SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap=cluster.bootstrap) as opened:
        yield opened


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic(f"client-{uuid4().hex[:10]}", 3)


def their_producer(cluster: Cluster, **settings: object) -> Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **named})


def their_values(cluster: Cluster, topic: str, partition: int, count: int) -> list[bytes | None]:
    """What librdkafka reads from the beginning, committed records only."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid4().hex,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TheirPartition(topic, partition, OFFSET_BEGINNING)])
    found = consumer.consume(count, POLL_SECONDS) if count else []
    found += consumer.consume(1, 0.2)  # and nothing more
    consumer.close()
    return [message.value() for message in found]


def end_of(admin: Admin, partition: TopicPartition, *, committed_only: bool = False) -> int:
    found = admin.offsets({partition: At.END}, committed_only=committed_only)[partition]
    assert isinstance(found, FoundOffset)
    return found.offset


def visible(chunks: list[FetchedBatches]) -> list[bytes | None]:
    """As a reader of committed records has to look at chunks: aborted transactions and markers
    left out."""
    seen: list[bytes | None] = []
    for chunk in chunks:
        coming = sorted(chunk.aborted, key=lambda each: each[1])
        aborted: set[int] = set()
        for position, header in batch_headers(chunk.records):
            base, producer = header[0], header[PRODUCER_ID]
            while coming and coming[0][1] <= base:
                aborted.add(coming.pop(0)[0])
            if header[ATTRIBUTES] & CONTROL:
                aborted.discard(producer)
            elif producer not in aborted:
                records = read_records(chunk.records[position:])
                seen += [each.value for each in records if chunk.start <= each.offset < chunk.end]
    return seen


def read_back(
    admin: Admin, partition: TopicPartition, *, chunk_bytes: int = 4096
) -> list[bytes | None]:
    end = end_of(admin, partition, committed_only=True)
    reader = RangeReader(
        admin.nodes,
        [OffsetRange(partition, 0, end)],
        committed_only=True,
        chunk_bytes=chunk_bytes,
    )
    return visible(list(reader.chunks()))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_wrote_is_read(
    cluster: Cluster, admin: Admin, topic: str, codec: str
) -> None:
    producer = their_producer(cluster, compression_type=codec, linger_ms=5)
    sent = [f"value {number}".encode() * 5 for number in range(2_000)]
    for value in sent:
        producer.produce(topic, value, partition=0)
    producer.flush()
    assert read_back(admin, TopicPartition(topic, 0)) == sent


def test_what_we_wrote_librdkafka_reads(cluster: Cluster, admin: Admin, topic: str) -> None:
    identity = init_producer_id(admin.routes, None)
    writer = BatchWriter(admin.nodes)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for number in range(60):
        index = number % 3
        values = [f"{number}.{place}".encode() for place in range(7)]
        first = len(sent[index])
        batch = batch_of(*values, producer=(identity.producer_id, identity.epoch, first))
        writer.send(TopicPartition(topic, index), batch, 7)
        sent[index] += values
    writer.flush()
    for index, values in sent.items():
        assert their_values(cluster, topic, index, 140) == values
        assert writer.acknowledged[TopicPartition(topic, index)].last_offset == 139


def test_committed_and_aborted_transactions_of_librdkafka_are_told_apart(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    producer = their_producer(cluster, transactional_id=uuid4().hex, linger_ms=1)
    producer.init_transactions()
    kept = []
    for number in range(12):
        producer.begin_transaction()
        for place in range(20):
            value = f"{number}.{place}".encode()
            producer.produce(topic, value, partition=0)
            kept += [value] if number % 3 else []
        if number % 3:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    assert read_back(admin, TopicPartition(topic, 0), chunk_bytes=700) == kept


def test_a_range_with_nothing_but_aborted_records_ends(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    producer = their_producer(cluster, transactional_id=uuid4().hex)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"never", partition=0)
    producer.flush()
    producer.abort_transaction()
    assert read_back(admin, TopicPartition(topic, 0)) == []


def test_an_open_transaction_is_beyond_the_end_of_committed_records(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    producer = their_producer(cluster, transactional_id=uuid4().hex)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    partition = TopicPartition(topic, 0)
    assert end_of(admin, partition, committed_only=True) == 0
    [chunk] = RangeReader(
        admin.nodes, [OffsetRange(partition, 0, 1)], committed_only=False
    ).chunks()
    assert len(chunk.records) > 0
    producer.abort_transaction()


# -- transactions of our own


def write_transactional(
    admin: Admin,
    name: str,
    identity: ProducerIdentity,
    partition: TopicPartition,
    *values: bytes,
    version_max: int | None = None,
) -> None:
    writer = BatchWriter(admin.nodes, transactional_id=name, version_max=version_max)
    batch = build_batch(
        [Record(place, 1_000, None, value) for place, value in enumerate(values)],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=0,
        transactional=True,
    )
    writer.send(partition, batch, len(values))
    writer.flush()


def test_a_node_can_do_all_that_transactions_need(admin: Admin) -> None:
    abilities = abilities_of(admin.nodes.any())
    assert abilities.new_epoch_per_transaction and not abilities.must_add_partitions
    assert abilities.two_phase_commit
    assert (abilities.produce_version_max, abilities.end_version_max) == (13, 5)


def test_an_older_cluster_has_older_versions() -> None:
    older = TransactionAbilities(1, 13, 5, 5)
    assert older.must_add_partitions and not older.two_phase_commit
    assert (older.produce_version_max, older.end_version_max) == (11, 4)


def test_a_committed_transaction_is_read_and_the_next_epoch_is_known(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    name, partition = uuid4().hex, TopicPartition(topic, 0)
    identity = init_producer_id(admin.routes, name)
    write_transactional(admin, name, identity, partition, b"a", b"b")
    ended = end_transaction(admin.routes, name, identity.producer_id, identity.epoch, True)
    assert (ended.version, ended.producer_id, ended.epoch) == (
        5,
        identity.producer_id,
        identity.epoch + 1,
    )
    assert their_values(cluster, topic, 0, 2) == [b"a", b"b"]


def test_an_aborted_transaction_is_not_read(cluster: Cluster, admin: Admin, topic: str) -> None:
    name, partition = uuid4().hex, TopicPartition(topic, 0)
    identity = init_producer_id(admin.routes, name)
    write_transactional(admin, name, identity, partition, b"never")
    end_transaction(admin.routes, name, identity.producer_id, identity.epoch, False)
    assert their_values(cluster, topic, 0, 0) == []
    assert read_back(admin, partition) == []


def test_the_same_end_may_be_repeated_in_its_version(admin: Admin, topic: str) -> None:
    name, partition = uuid4().hex, TopicPartition(topic, 0)
    identity = init_producer_id(admin.routes, name)
    write_transactional(admin, name, identity, partition, b"a")
    producer = (identity.producer_id, identity.epoch)
    first = end_transaction(admin.routes, name, *producer, True)
    assert end_transaction(admin.routes, name, *producer, True, first.version) == first
    with pytest.raises(InvalidTxnState):
        end_transaction(admin.routes, name, *producer, False, first.version)


def test_the_versions_of_old_work_as_well(cluster: Cluster, admin: Admin, topic: str) -> None:
    name, partition = uuid4().hex, TopicPartition(topic, 0)
    identity = init_producer_id(admin.routes, name)
    producer = (identity.producer_id, identity.epoch)
    add_partitions(admin.routes, name, producer, [partition, TopicPartition(topic, 1)])
    write_transactional(admin, name, identity, partition, b"a", version_max=11)
    ended = end_transaction(admin.routes, name, *producer, True, 4)
    assert ended == (4, *producer)
    assert their_values(cluster, topic, 0, 1) == [b"a"]


def test_a_new_owner_fences_the_old_one(admin: Admin, topic: str) -> None:
    name, partition = uuid4().hex, TopicPartition(topic, 0)
    old = init_producer_id(admin.routes, name)
    write_transactional(admin, name, old, partition, b"old")
    new = init_producer_id(admin.routes, name)
    assert new.epoch > old.epoch
    with pytest.raises(ProducerReplaced):
        write_transactional(admin, name, old, partition, b"zombie")
    with pytest.raises(ProducerFenced):
        end_transaction(admin.routes, name, old.producer_id, old.epoch, True)
    with pytest.raises(ProducerFenced):
        init_producer_id(admin.routes, name, expected=(old.producer_id, old.epoch))


def test_a_prepared_transaction_is_kept_and_ended_by_its_new_owner(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    name, partition = uuid4().hex, TopicPartition(topic, 0)
    old = init_producer_id(admin.routes, name, enable_2pc=True)
    write_transactional(admin, name, old, partition, b"prepared")
    new = init_producer_id(admin.routes, name, enable_2pc=True, keep_prepared=True)
    assert (new.ongoing_producer_id, new.ongoing_epoch) == (old.producer_id, old.epoch)
    end_transaction(admin.routes, name, new.producer_id, new.epoch, True)
    assert their_values(cluster, topic, 0, 1) == [b"prepared"]


def test_a_refusal_of_two_phase_commit_names_its_setting() -> None:
    settings = {"transaction.two.phase.commit.enable": False}
    with (
        Cluster(settings) as cluster,
        Admin(bootstrap=cluster.bootstrap) as admin,
        pytest.raises(TransactionalIdAuthorizationFailed, match=r"two\.phase\.commit\.enable=true"),
    ):
        init_producer_id(admin.routes, "x", enable_2pc=True)


# -- what happens to topics


def test_deleted_records_are_said_with_the_new_start(admin: Admin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    writer = BatchWriter(admin.nodes)
    for number in range(10):
        writer.send(partition, batch_of(str(number).encode()), 1)
    writer.flush()
    admin.delete_records({partition: 7})
    reader = RangeReader(admin.nodes, [OffsetRange(partition, 0, 10)], committed_only=False)
    with pytest.raises(RecordsExpired) as failed:
        list(reader.chunks())
    assert failed.value.log_start == 7


def test_a_topic_created_again_is_noticed(cluster: Cluster, admin: Admin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    before = admin.describe_topics([topic])[topic]
    admin.delete_topics([topic])
    cluster.create_topic(topic, 3)
    reader = RangeReader(
        admin.nodes,
        [OffsetRange(partition, 0, 10)],
        committed_only=False,
        topic_ids={topic: getattr(before, "topic_id", b"")},
    )
    with pytest.raises(TopicRecreated):
        list(reader.chunks())


# -- connections that break


@pytest.mark.parametrize("seed", range(4))
def test_through_breaking_connections_every_record_comes_once_and_in_order(seed: int) -> None:
    with CuttingProxy(seed, cuts=25, bytes_max=60_000) as proxy:
        settings = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        with Cluster(settings) as cluster:
            proxy.target = cluster.broker.listeners[0].address
            nodes = Nodes(proxy.address, timeout_ms=5_000)
            patient = Admin(bootstrap=proxy.address)
            proxy.cuts, cuts = 0, proxy.cuts
            cluster.create_topic("cut", 2)
            identity = init_producer_id(patient.routes, None)
            proxy.cuts = cuts
            writer = BatchWriter(nodes, delivery_timeout_ms=60_000)
            sent: dict[TopicPartition, list[bytes]] = {
                TopicPartition("cut", index): [] for index in (0, 1)
            }
            for number in range(100):
                partition = TopicPartition("cut", number % 2)
                values = [f"{number}.{place}".encode() * 20 for place in range(20)]
                producer = (identity.producer_id, identity.epoch, len(sent[partition]))
                writer.send(partition, batch_of(*values, producer=producer), 20)
                sent[partition] += values
            writer.flush()
            proxy.cuts += 10
            ranges = [OffsetRange(each, 0, 1_000) for each in sent]
            reader = RangeReader(
                nodes, ranges, committed_only=False, chunk_bytes=20_000, patience=Patience()
            )
            chunks = list(reader.chunks())
            for partition, values in sent.items():
                assert visible([each for each in chunks if each.partition == partition]) == values
            nodes.close()
            patient.close()
