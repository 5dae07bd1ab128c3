"""Ranges read from brokers that misbehave: each outcome is defined."""

from collections.abc import Iterator

import pytest
from scripted_cluster import FETCH, METADATA, Fault, ScriptedCluster
from scripted_log import batch_of

from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.outcomes import (
    NotAuthorized,
    PartitionMissing,
    ReadGaveUp,
    ReadTimedOut,
    RecordsExpired,
    RecordsLost,
    TopicMissing,
    TopicRecreated,
)
from penstock.client.raw.range_reader import (
    FetchedBatches,
    OffsetRange,
    Patience,
    RangeReader,
    next_offset,
)
from penstock.client.transport.connection import CannotReach
from penstock.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRequest,
    KafkaStorageError,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
)
from penstock.model import TopicPartition
from penstock.wire.batch import COMMIT_MARKER, CorruptBatch, build_marker, read_records

T = "t"
P0, P1 = TopicPartition(T, 0), TopicPartition(T, 1)
BRISK = Patience(timeout_ms=2_000, retries_max=4, lost_after_ms=60, missing_after_ms=60)


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


def fill(cluster: ScriptedCluster, partition: TopicPartition, batches: int, each: int = 3) -> None:
    for number in range(batches):
        cluster.logs[partition].put(
            batch_of(*(f"{partition}:{number}:{place}".encode() for place in range(each)))
        )


def values(chunks: list[FetchedBatches]) -> dict[TopicPartition, list[bytes | None]]:
    """What a reader of these chunks would see."""
    seen: dict[TopicPartition, list[bytes | None]] = {}
    for chunk in chunks:
        position = 0
        while position < len(chunk.records):
            length = int.from_bytes(chunk.records[position + 8 : position + 12], "big") + 12
            for record in read_records(chunk.records[position : position + length]):
                if chunk.start <= record.offset < chunk.end:
                    seen.setdefault(chunk.partition, []).append(record.value)
            position += length
    return seen


def read_all(
    nodes: Nodes,
    *ranges: OffsetRange,
    chunk_bytes: int = 10_000,
    topic_ids: dict[str, bytes] | None = None,
    patience: Patience = BRISK,
) -> list[FetchedBatches]:
    reader = RangeReader(
        nodes,
        ranges,
        committed_only=False,
        topic_ids=topic_ids,
        chunk_bytes=chunk_bytes,
        patience=patience,
    )
    return list(reader.chunks())


def test_all_records_of_a_range_are_read_once(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 50)
    chunks = read_all(nodes, OffsetRange(P0, 0, 150), chunk_bytes=500)
    assert len(chunks) > 3
    assert values(chunks)[P0] == cluster.logs[P0].values()


def test_a_range_begins_and_ends_within_batches(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 10, each=10)
    [chunk] = read_all(nodes, OffsetRange(P0, 15, 37))
    assert values([chunk])[P0] == cluster.logs[P0].values()[15:37]
    assert (chunk.start, chunk.end) == (15, 37)


def test_nothing_is_asked_for_an_empty_range(cluster: ScriptedCluster, nodes: Nodes) -> None:
    assert read_all(nodes, OffsetRange(P0, 5, 5)) == []
    assert cluster.asked == []


def test_ranges_of_one_leader_share_a_fetch(cluster: ScriptedCluster, nodes: Nodes) -> None:
    third = TopicPartition(T, 2)
    fill(cluster, P0, 1)
    fill(cluster, third, 1)
    read_all(nodes, OffsetRange(P0, 0, 3), OffsetRange(third, 0, 3))
    [fetch] = cluster.requests(FETCH)
    assert [each.partition for each in fetch.topics[0].partitions] == [0, 2]


def test_each_leader_is_asked_for_its_own(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 5)
    fill(cluster, P1, 5)
    chunks = read_all(nodes, OffsetRange(P0, 0, 15), OffsetRange(P1, 0, 15))
    assert {node for node, key, _, _ in cluster.asked if key == FETCH} == {1, 2}
    assert {name: len(found) for name, found in values(chunks).items()} == {P0: 15, P1: 15}


def test_two_ranges_of_one_partition_are_both_read(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 10)
    chunks = read_all(nodes, OffsetRange(P0, 0, 9), OffsetRange(P0, 21, 30))
    assert values(chunks)[P0] == [
        *cluster.logs[P0].values()[:9],
        *cluster.logs[P0].values()[21:30],
    ]


def test_a_busy_partition_does_not_starve_the_others(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    third = TopicPartition(T, 2)
    fill(cluster, P0, 40)
    fill(cluster, third, 1)
    chunks = read_all(nodes, OffsetRange(P0, 0, 120), OffsetRange(third, 0, 3), chunk_bytes=300)
    assert [chunk.partition for chunk in chunks].index(third) <= 1


def test_the_next_fetch_is_under_way_while_a_chunk_is_looked_at(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 40)
    reader = RangeReader(
        nodes, [OffsetRange(P0, 0, 120)], committed_only=False, chunk_bytes=300, patience=BRISK
    )
    chunks = reader.chunks()
    next(chunks)
    assert nodes.node(1).under_way == 1
    assert len(list(chunks)) > 1


def test_records_are_a_view_of_what_was_received(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 2)
    [chunk] = read_all(nodes, OffsetRange(P0, 0, 6))
    assert isinstance(chunk.records.obj, bytearray)
    assert len(chunk.records.obj) > len(chunk.records)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_is_spoken(version: int) -> None:
    with ScriptedCluster(highest={FETCH: version}) as cluster:
        cluster.create(T)
        fill(cluster, P0, 3)
        chunks = read_all(Nodes(cluster.bootstrap), OffsetRange(P0, 0, 9))
        assert {asked for _, key, asked, _ in cluster.asked if key == FETCH} == {version}
    assert values(chunks)[P0] == cluster.logs[P0].values()


def test_a_server_without_topic_ids_is_asked_by_name() -> None:
    with ScriptedCluster(highest={METADATA: 9}) as cluster:
        cluster.create(T)
        fill(cluster, P0, 3)
        chunks = read_all(Nodes(cluster.bootstrap), OffsetRange(P0, 0, 9))
        assert {asked for _, key, asked, _ in cluster.asked if key == FETCH} == {12}
    assert len(values(chunks)[P0]) == 9


def test_aborted_transactions_are_told_to_readers_of_committed_records(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 1)
    cluster.logs[P0].aborted = [(7, 1), (8, 2)]
    reader = RangeReader(nodes, [OffsetRange(P0, 0, 3)], committed_only=True, patience=BRISK)
    [chunk] = reader.chunks()
    assert chunk.aborted == ((7, 1), (8, 2))


# -- ranges with little or nothing in them


def test_a_range_that_ends_with_markers_ends(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 1)
    marker = build_marker(
        COMMIT_MARKER, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    cluster.logs[P0].put(marker)
    chunks = read_all(nodes, OffsetRange(P0, 0, 4))
    assert sum(len(chunk.records) for chunk in chunks) > len(marker)


def test_a_gap_that_compaction_left_is_stepped_over(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 1)
    cluster.logs[P0].put(batch_of(b"late"), gap=100)
    chunks = read_all(nodes, OffsetRange(P0, 0, 104), chunk_bytes=80)
    assert len(values(chunks)[P0]) == 4


def test_a_range_whose_rest_was_compacted_away_gives_no_batch_beyond_its_end(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 1)
    cluster.logs[P0].put(batch_of(b"late"), gap=100)
    assert read_all(nodes, OffsetRange(P0, 3, 50)) == []


def test_a_range_without_any_batch_left_ends(cluster: ScriptedCluster, nodes: Nodes) -> None:
    cluster.logs[P0].end = 100
    assert read_all(nodes, OffsetRange(P0, 0, 60)) == []


def test_an_empty_answer_is_asked_again_before_it_is_believed() -> None:
    """Records that are still on their way from a disk are not records that are gone."""
    with ScriptedCluster() as cluster:
        cluster.create(T)
        fill(cluster, P0, 1)
        log, hidden = cluster.logs[P0], list(cluster.logs[P0].stored)
        cluster.faults += [
            Fault(FETCH, meanwhile=log.stored.clear),
            Fault(FETCH, meanwhile=lambda: log.stored.extend(hidden)),
        ]
        chunks = read_all(Nodes(cluster.bootstrap), OffsetRange(P0, 0, 3))
    assert len(values(chunks)[P0]) == 3


def test_an_empty_answer_that_took_its_time_proves_nothing(
    cluster: ScriptedCluster, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.raw.range_reader.EMPTY_ANSWER_MS_MAX", 0)
    cluster.logs[P0].end = 100
    with pytest.raises(ReadTimedOut, match="has records and does not send them"):
        read_all(nodes, OffsetRange(P0, 0, 60), patience=Patience(timeout_ms=100))


# -- what is tried again


@pytest.mark.parametrize(
    "error",
    [
        NotLeaderOrFollower,
        FencedLeaderEpoch,
        UnknownLeaderEpoch,
        KafkaStorageError,
        CorruptMessage,
    ],
)
def test_a_passing_error_is_tried_again(
    cluster: ScriptedCluster, nodes: Nodes, error: type[NotLeaderOrFollower]
) -> None:
    fill(cluster, P0, 20)
    cluster.faults += [Fault(FETCH, code=error.code)] * 2
    chunks = read_all(nodes, OffsetRange(P0, 0, 60), chunk_bytes=400)
    assert values(chunks)[P0] == cluster.logs[P0].values()


def test_a_lost_connection_is_made_anew(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 20)
    cluster.faults += [Fault(FETCH), Fault(FETCH, cut=True), Fault(METADATA, cut=True)]
    chunks = read_all(nodes, OffsetRange(P0, 0, 60), chunk_bytes=400)
    assert values(chunks)[P0] == cluster.logs[P0].values()


def test_a_leader_that_moves_is_followed(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 20)
    cluster.faults += [Fault(FETCH), Fault(FETCH, meanwhile=lambda: cluster.move(P0, 2))]
    chunks = read_all(nodes, OffsetRange(P0, 0, 60), chunk_bytes=400)
    assert values(chunks)[P0] == cluster.logs[P0].values()
    assert {node for node, key, _, _ in cluster.asked if key == FETCH} == {1, 2}


def test_a_new_leader_that_is_behind_is_waited_for(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 2)
    log = cluster.logs[P0]
    log.readable = 3

    def catch_up() -> None:
        log.readable = None

    cluster.faults += [Fault(FETCH), Fault(FETCH), Fault(FETCH, meanwhile=catch_up)]
    patience = Patience(timeout_ms=5_000, lost_after_ms=5_000)
    chunks = read_all(nodes, OffsetRange(P0, 0, 6), patience=patience)
    assert len(values(chunks)[P0]) == 6


def test_a_throttled_answer_is_waited_out(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 2)
    cluster.throttle_ms = 20
    assert len(values(read_all(nodes, OffsetRange(P0, 0, 6)))[P0]) == 6


def test_attempts_have_a_limit_and_the_last_reason_is_said(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 1)
    cluster.faults += [Fault(FETCH, code=KafkaStorageError.code)] * 9
    with pytest.raises(ReadGaveUp, match="5 attempts failed; last: KAFKA_STORAGE_ERROR") as failed:
        read_all(nodes, OffsetRange(P0, 0, 3))
    assert (failed.value.partition, failed.value.position, failed.value.end) == (P0, 0, 3)


def test_what_cannot_pass_is_not_tried_again(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 1)
    cluster.faults += [Fault(FETCH, code=InvalidRequest.code)]
    with pytest.raises(ReadGaveUp, match="1 attempts failed; last: INVALID_REQUEST"):
        read_all(nodes, OffsetRange(P0, 0, 3))


def test_no_server_at_all_is_said() -> None:
    nodes = Nodes("127.0.0.1:1")
    with pytest.raises(ReadGaveUp, match="nothing listens there"):
        read_all(nodes, OffsetRange(P0, 0, 3), patience=Patience(retries_max=1))
    assert issubclass(CannotReach, Exception)


# -- defined outcomes


def test_retention_that_overtakes_the_reader_is_said_with_the_new_start(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 10)
    log = cluster.logs[P0]

    def expire() -> None:
        log.start, log.stored = 21, log.stored[7:]

    cluster.faults += [Fault(FETCH), Fault(FETCH, meanwhile=expire)]
    with pytest.raises(RecordsExpired, match="log now begins at 21") as failed:
        read_all(nodes, OffsetRange(P0, 0, 30), chunk_bytes=150)
    assert failed.value.log_start == 21
    assert 0 < failed.value.position < 21


def test_a_log_that_ends_before_the_promised_end_has_lost_records(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 2)
    with pytest.raises(RecordsLost, match="the log ends at 6") as failed:
        read_all(nodes, OffsetRange(P0, 0, 9))
    assert (failed.value.position, failed.value.log_end) == (6, 6)


def test_a_log_that_is_cut_while_it_is_read_has_lost_records(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 10)
    log = cluster.logs[P0]

    def cut() -> None:
        log.end, log.stored = 3, log.stored[:1]

    cluster.faults += [Fault(FETCH), Fault(FETCH, meanwhile=cut)]
    with pytest.raises(RecordsLost, match="the log ends at 3"):
        read_all(nodes, OffsetRange(P0, 0, 30), chunk_bytes=300)


def test_an_open_transaction_is_waited_for_and_then_named(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 2)
    cluster.logs[P0].readable = 3
    patience = Patience(timeout_ms=150, lost_after_ms=60_000)
    with pytest.raises(ReadTimedOut, match="readable up to 3 only"):
        read_all(nodes, OffsetRange(P0, 0, 6), patience=patience)


def test_a_deleted_topic_is_said(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 10)
    cluster.faults += [Fault(FETCH), Fault(FETCH, meanwhile=lambda: cluster.delete(T))]
    with pytest.raises(TopicMissing, match="topic t does not exist"):
        read_all(nodes, OffsetRange(P0, 0, 30), chunk_bytes=300)


def test_a_topic_that_was_created_again_is_not_mistaken_for_the_old_one(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 10)

    def create_again() -> None:
        cluster.delete(T)
        cluster.create(T, 4, topic_id=b"another id......")
        fill(cluster, P0, 10)

    cluster.faults += [Fault(FETCH), Fault(FETCH, meanwhile=create_again)]
    with pytest.raises(TopicRecreated, match="deleted and created again"):
        read_all(nodes, OffsetRange(P0, 0, 30), chunk_bytes=300)


def test_a_topic_that_is_not_the_planned_one_is_refused_at_once(
    cluster: ScriptedCluster, nodes: Nodes
) -> None:
    fill(cluster, P0, 1)
    with pytest.raises(TopicRecreated):
        read_all(nodes, OffsetRange(P0, 0, 3), topic_ids={T: bytes(15) + b"!"})
    assert cluster.requests(FETCH) == []


def test_a_partition_that_is_not_there_is_said(cluster: ScriptedCluster, nodes: Nodes) -> None:
    with pytest.raises(PartitionMissing, match="has 4 partitions") as failed:
        read_all(nodes, OffsetRange(TopicPartition(T, 9), 0, 3))
    assert failed.value.count == 4
    assert len(cluster.requests(METADATA)) > 1  # news of new partitions may be under way


def test_what_one_may_not_read_is_said_at_once(cluster: ScriptedCluster, nodes: Nodes) -> None:
    fill(cluster, P0, 1)
    cluster.faults += [Fault(FETCH, code=TopicAuthorizationFailed.code)]
    with pytest.raises(NotAuthorized, match="ACL READ on topic t"):
        read_all(nodes, OffsetRange(P0, 0, 3))


# -- the walk over headers


def test_a_batch_cut_short_is_left_for_the_next_answer() -> None:
    first, second = batch_of(b"a", b"b", first=5), batch_of(b"c", first=7)
    assert next_offset(memoryview(first + second[:-1])) == (7, len(first))
    assert next_offset(memoryview(first[:-1])) is None
    assert next_offset(memoryview(b"")) is None


def test_other_formats_are_no_batches() -> None:
    with pytest.raises(CorruptBatch):
        next_offset(memoryview(bytes(100)))
