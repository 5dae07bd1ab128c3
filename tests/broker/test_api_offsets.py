"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and InitProducerId."""

import pytest
from api_asking import (
    Asker,
    asking,
    batch,
    fetch,
    list_offset,
    list_offsets_request,
    new_topic,
    produce,
    produce_request,
    producer_id,
    versions,
)

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k21_delete_records as k21
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k23_offset_for_leader_epoch as k23

pytest_plugins = ["api_fixtures"]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SPECIALS_FROM = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
GZIP = 1


@pytest.fixture
def filled(asker: Asker, topic: str) -> str:
    """Offsets 0-2 at times 1000-1002 in a compressed batch, 3-4 at 5000-5001, 5 at 2000."""
    produce(asker, topic, batch(b"a", b"b", b"c", timestamp=1_000, compression=GZIP))
    produce(asker, topic, batch(b"d", b"e", timestamp=5_000))
    produce(asker, topic, batch(b"f", timestamp=2_000))
    return topic


# -- ListOffsets


@pytest.mark.parametrize("version", versions(2))
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (1_000, 0)),
        (1_000, (1_000, 0)),
        (1_001, (1_001, 1)),
        (1_002, (1_002, 2)),
        (1_003, (5_000, 3)),
        (2_000, (5_000, 3)),
        (5_001, (5_001, 4)),
        (5_002, (-1, -1)),
    ],
)
def test_a_time_finds_the_first_offset_at_or_after_it(
    asker: Asker, filled: str, version: int, timestamp: int, found: tuple[int, int]
) -> None:
    answer = list_offset(asker, filled, timestamp, version=version)
    assert answer.error_code == 0
    assert (answer.timestamp, answer.offset) == found


@pytest.mark.parametrize("version", versions(2))
@pytest.mark.parametrize(
    ("special", "found"),
    [
        (LATEST, (-1, 6)),
        (EARLIEST, (-1, 0)),
        (MAX_TIMESTAMP, (5_001, 4)),
        (EARLIEST_LOCAL, (-1, 0)),
        (LATEST_TIERED, (-1, -1)),
        (EARLIEST_PENDING, (-1, -1)),
    ],
)
def test_special_times_are_known_from_their_versions_on(
    asker: Asker, filled: str, version: int, special: int, found: tuple[int, int]
) -> None:
    answer = list_offset(asker, filled, special, version=version)
    if version < SPECIALS_FROM.get(special, 0):
        assert answer.error_code == errors.UnsupportedVersion.code
    else:
        assert (answer.error_code, answer.timestamp, answer.offset) == (0, *found)


@pytest.mark.parametrize("version", versions(2))
def test_a_special_time_that_does_not_exist_is_unsupported(
    asker: Asker, filled: str, version: int
) -> None:
    answer = list_offset(asker, filled, -7, version=version)
    assert answer.error_code == errors.UnsupportedVersion.code


def test_the_special_time_is_judged_before_the_topic(asker: Asker) -> None:
    answer = list_offset(asker, "no-such-topic", EARLIEST_PENDING, version=10)
    assert answer.error_code == errors.UnsupportedVersion.code


@pytest.mark.parametrize("version", range(4, 12))
@pytest.mark.parametrize("special", [LATEST, EARLIEST])
def test_an_empty_partition_begins_and_ends_at_0_in_the_leaders_epoch(
    asker: Asker, topic: str, version: int, special: int
) -> None:
    answer = list_offset(asker, topic, special, version=version)
    assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, 0, 0)


def test_an_empty_partition_has_no_largest_timestamp(asker: Asker, topic: str) -> None:
    answer = list_offset(asker, topic, MAX_TIMESTAMP)
    assert (answer.error_code, answer.timestamp, answer.offset) == (0, -1, -1)


@pytest.mark.parametrize("version", range(2, 12))
def test_latest_under_read_committed_is_the_last_stable_offset(
    asker: Asker, filled: str, version: int
) -> None:
    request = list_offsets_request(filled, LATEST)
    request.isolation_level = 1
    assert asker.ask(request, version).topics[0].partitions[0].offset == 6


@pytest.mark.parametrize("version", versions(2))
def test_unknown_partitions_are_errors_of_their_own(
    asker: Asker, filled: str, version: int
) -> None:
    unknown = errors.UnknownTopicOrPartition.code
    for name, index in ((filled, 9), ("no-such-topic", 0)):
        answer = list_offset(asker, name, LATEST, version=version, partition=index)
        assert (answer.error_code, answer.offset) == (unknown, -1)


@pytest.mark.parametrize("version", range(4, 12))
def test_list_offsets_checks_the_leader_epoch(asker: Asker, filled: str, version: int) -> None:
    same = list_offset(asker, filled, LATEST, version=version, leader_epoch=0)
    newer = list_offset(asker, filled, LATEST, version=version, leader_epoch=5)
    assert same.error_code == 0
    assert newer.error_code == errors.UnknownLeaderEpoch.code


def test_a_client_that_pipelines_sees_what_it_wrote_before() -> None:
    with Cluster({"log.durability": "page-cache"}) as cluster, asking(cluster) as asker:
        topic = cluster.create_topic("pipelined")
        asker.send(produce_request(topic, batch(b"a", b"b", b"c")), 11)
        asker.send(list_offsets_request(topic, -1), 7)
        asker.receive()
        assert asker.receive().topics[0].partitions[0].offset == 3


def test_a_partition_that_is_named_twice_is_refused_once(asker: Asker, filled: str) -> None:
    request = list_offsets_request(filled, LATEST)
    request.topics[0].partitions.append(k02.ListOffsetsPartition(timestamp=EARLIEST))
    [one] = asker.ask(request, 7).topics[0].partitions
    assert one.error_code == errors.InvalidRequest.code


# -- OffsetForLeaderEpoch


def _epoch_end(
    asker: Asker, topic: str, epoch: int, *, current: int = -1, partition: int = 0, version: int = 4
) -> k23.EpochEndOffset:
    wanted = k23.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = k23.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[k23.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    [one] = asker.ask(request, version).topics[0].partitions
    assert isinstance(one, k23.EpochEndOffset)
    return one


@pytest.mark.parametrize("version", versions(23))
def test_the_current_epoch_ends_at_the_log_end(asker: Asker, filled: str, version: int) -> None:
    answer = _epoch_end(asker, filled, 0, version=version)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 6)


def test_the_current_epoch_is_known_before_its_first_record(asker: Asker, topic: str) -> None:
    answer = _epoch_end(asker, topic, 0)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 0)


@pytest.mark.parametrize("epoch", [1, 7, -1])
def test_an_epoch_that_never_was_has_no_end(asker: Asker, filled: str, epoch: int) -> None:
    answer = _epoch_end(asker, filled, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


@pytest.mark.parametrize("version", versions(23))
def test_the_clients_idea_of_the_leader_epoch_is_checked(
    asker: Asker, filled: str, version: int
) -> None:
    answer = _epoch_end(asker, filled, 0, current=4, version=version)
    assert answer.error_code == errors.UnknownLeaderEpoch.code


@pytest.mark.parametrize("version", versions(23))
def test_epochs_of_unknown_partitions_are_unknown(asker: Asker, filled: str, version: int) -> None:
    unknown = errors.UnknownTopicOrPartition.code
    assert _epoch_end(asker, filled, 0, partition=9, version=version).error_code == unknown
    assert _epoch_end(asker, "no-such-topic", 0, version=version).error_code == unknown


# -- DeleteRecords


def _delete(
    asker: Asker, topic: str, offset: int, *, partition: int = 0, version: int = 2
) -> k21.DeleteRecordsPartitionResult:
    wanted = k21.DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = k21.DeleteRecordsRequest(
        topics=[k21.DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5_000
    )
    [one] = asker.ask(request, version).topics[0].partitions
    assert isinstance(one, k21.DeleteRecordsPartitionResult)
    return one


@pytest.mark.parametrize("version", versions(21))
@pytest.mark.parametrize(("offset", "start"), [(0, 0), (2, 2), (6, 6), (-1, 6)])
def test_deleting_records_moves_the_log_start(
    asker: Asker, filled: str, version: int, offset: int, start: int
) -> None:
    answer = _delete(asker, filled, offset, version=version)
    assert (answer.error_code, answer.low_watermark) == (0, start)
    assert list_offset(asker, filled, EARLIEST).offset == start
    assert list_offset(asker, filled, LATEST).offset == 6


def test_the_log_start_never_moves_back(asker: Asker, filled: str) -> None:
    _delete(asker, filled, 4)
    answer = _delete(asker, filled, 2)
    assert (answer.error_code, answer.low_watermark) == (0, 4)


@pytest.mark.parametrize("version", versions(21))
@pytest.mark.parametrize("offset", [7, 100, -2])
def test_records_beyond_the_high_watermark_cannot_be_deleted(
    asker: Asker, filled: str, version: int, offset: int
) -> None:
    answer = _delete(asker, filled, offset, version=version)
    assert (answer.error_code, answer.low_watermark) == (errors.OffsetOutOfRange.code, -1)


def test_records_of_unknown_partitions_cannot_be_deleted(asker: Asker, filled: str) -> None:
    unknown = errors.UnknownTopicOrPartition.code
    assert _delete(asker, filled, 0, partition=9).error_code == unknown
    assert _delete(asker, "no-such-topic", 0).error_code == unknown


def test_records_of_a_compacted_topic_cannot_be_deleted(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    topic = new_topic(penstock_cluster, config={"cleanup.policy": "compact"})
    assert _delete(asker, topic, -1).error_code == errors.PolicyViolation.code


def test_a_time_is_looked_up_behind_the_log_start(asker: Asker, filled: str) -> None:
    _delete(asker, filled, 1)
    answer = list_offset(asker, filled, 0)
    assert (answer.timestamp, answer.offset) == (1_001, 1)


def test_a_batch_that_is_half_deleted_comes_whole(asker: Asker, filled: str) -> None:
    _delete(asker, filled, 1)
    answer = fetch(asker, filled, 1)
    assert (answer.error_code, answer.log_start_offset) == (0, 1)
    assert answer.records


# -- InitProducerId


@pytest.mark.parametrize("version", versions(22))
def test_every_producer_gets_an_id_of_its_own(asker: Asker, version: int) -> None:
    request = k22.InitProducerIdRequest(transactional_id=None)
    ids = [asker.ask(request, version).producer_id for _ in range(20)]
    assert len(set(ids)) == 20


def test_ids_do_not_run_out_at_the_end_of_a_block(asker: Asker) -> None:
    first = producer_id(asker)
    request = k22.InitProducerIdRequest(transactional_id=None)
    for _ in range(1_200):
        asker.send(request, 4)
    ids = {asker.receive().producer_id for _ in range(1_200)}
    assert len(ids) == 1_200
    assert min(ids) > first


@pytest.mark.parametrize("version", versions(22))
def test_an_empty_transactional_id_is_an_invalid_request(asker: Asker, version: int) -> None:
    request = k22.InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000)
    assert asker.ask(request, version).error_code == errors.InvalidRequest.code


@pytest.mark.parametrize("version", range(3, 7))
@pytest.mark.parametrize(("known", "epoch"), [(5, -1), (-1, 5)])
def test_an_id_without_an_epoch_is_an_invalid_request(
    asker: Asker, version: int, known: int, epoch: int
) -> None:
    request = k22.InitProducerIdRequest(
        transactional_id=None, producer_id=known, producer_epoch=epoch
    )
    assert asker.ask(request, version).error_code == errors.InvalidRequest.code
