"""Fetch: what is returned, what is refused, and how long it waits."""

from collections.abc import Iterator

import pytest
from api_asking import (
    LONG_POLL_MS,
    Asker,
    asking,
    batch,
    fetch,
    fetch_request,
    fetch_topic,
    list_offsets_request,
    new_topic,
    produce,
    produce_request,
    topic_id,
    versions,
)

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.batch import batch_headers, read_records
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k18_api_versions as k18
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k21_delete_records as k21

pytest_plugins = ["api_fixtures"]


def _name(asker: Asker, topic: str, version: int) -> str | bytes:
    return topic_id(asker, topic) if version >= 13 else topic


def _values(answer: k01.PartitionData) -> list[bytes | None]:
    records = answer.records or b""
    found = []
    for position, header in batch_headers(records):
        one = memoryview(records)[position : position + 12 + header[1]]
        found += [each.value for each in read_records(one)]
    return found


def _partition(response: k01.FetchResponse) -> k01.PartitionData:
    [told] = response.responses
    [one] = told.partitions
    return one


@pytest.mark.parametrize("version", versions(1))
def test_records_come_back_with_the_watermarks(asker: Asker, topic: str, version: int) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    produce(asker, topic, batch(b"c"))
    answer = fetch(asker, _name(asker, topic, version), 0, version=version)
    assert answer.error_code == 0
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 3)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert _values(answer) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", versions(1))
def test_read_committed_lists_aborted_transactions(asker: Asker, topic: str, version: int) -> None:
    produce(asker, topic, batch(b"a"))
    name = _name(asker, topic, version)
    answer = fetch(asker, name, 0, version=version, committed_only=True)
    assert answer.aborted_transactions == []
    assert _values(answer) == [b"a"]


def test_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(asker: Asker, topic: str) -> None:
    produce(asker, topic, batch(b"a", b"b", b"c"))
    assert _values(fetch(asker, topic, 1)) == [b"a", b"b", b"c"]


def test_a_fetch_begins_at_the_batch_that_holds_the_offset(asker: Asker, topic: str) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    produce(asker, topic, batch(b"c"))
    assert _values(fetch(asker, topic, 2)) == [b"c"]


# -- offsets outside of the log


@pytest.mark.parametrize("version", versions(1))
@pytest.mark.parametrize("offset", [-1, 3, 1_000])
def test_an_offset_outside_of_the_log_is_out_of_range(
    asker: Asker, topic: str, version: int, offset: int
) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    answer = fetch(asker, _name(asker, topic, version), offset, version=version)
    assert answer.error_code == errors.OffsetOutOfRange.code
    assert not answer.records


def test_an_offset_below_the_log_start_is_out_of_range(asker: Asker, topic: str) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    _delete_before(asker, topic, 1)
    assert fetch(asker, topic, 0).error_code == errors.OffsetOutOfRange.code
    assert fetch(asker, topic, 1).log_start_offset == 1


def test_the_log_end_is_not_out_of_range(asker: Asker, topic: str) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    answer = fetch(asker, topic, 2)
    assert (answer.error_code, answer.high_watermark) == (0, 2)
    assert not answer.records


def test_an_error_ends_the_wait_at_once(asker: Asker, topic: str) -> None:
    answer = fetch(asker, topic, 1_000, wait_ms=LONG_POLL_MS)
    assert answer.error_code == errors.OffsetOutOfRange.code


def _delete_before(asker: Asker, topic: str, offset: int) -> None:
    wanted = k21.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = k21.DeleteRecordsRequest(
        topics=[k21.DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5_000
    )
    assert asker.ask(request, 2).topics[0].partitions[0].error_code == 0


# -- unknown topics, epochs


@pytest.mark.parametrize("version", range(4, 13))
def test_an_unknown_topic_is_an_error_of_its_partition(asker: Asker, version: int) -> None:
    answer = fetch(asker, "no-such-topic", 0, version=version)
    assert answer.error_code == errors.UnknownTopicOrPartition.code


@pytest.mark.parametrize("version", range(13, 19))
def test_an_unknown_topic_id_is_an_error_of_its_partition(asker: Asker, version: int) -> None:
    answer = fetch(asker, b"u" * 16, 0, version=version)
    assert answer.error_code == errors.UnknownTopicId.code


@pytest.mark.parametrize("version", [11, 12, 13, 18])
def test_a_partition_too_many_is_unknown(asker: Asker, topic: str, version: int) -> None:
    wanted = fetch_topic(_name(asker, topic, version), {5: 0})
    answer = _partition(asker.ask(fetch_request(wanted), version))
    assert answer.error_code == errors.UnknownTopicOrPartition.code


@pytest.mark.parametrize("version", range(9, 19))
def test_a_leader_epoch_of_the_future_is_unknown(asker: Asker, topic: str, version: int) -> None:
    wanted = fetch_topic(_name(asker, topic, version), {0: 0}, leader_epoch=9)
    answer = _partition(asker.ask(fetch_request(wanted), version))
    assert answer.error_code == errors.UnknownLeaderEpoch.code


@pytest.mark.parametrize("version", range(12, 19))
def test_the_epoch_last_fetched_may_be_the_leaders(asker: Asker, topic: str, version: int) -> None:
    produce(asker, topic, batch(b"a"))
    wanted = fetch_topic(_name(asker, topic, version), {0: 1}, last_epoch=0)
    answer = _partition(asker.ask(fetch_request(wanted), version))
    assert (answer.error_code, answer.diverging_epoch.epoch) == (0, -1)


def test_an_empty_log_does_not_diverge_from_its_leaders_epoch(asker: Asker, topic: str) -> None:
    wanted = fetch_topic(topic, {0: 0}, last_epoch=0)
    answer = _partition(asker.ask(fetch_request(wanted), 12))
    assert (answer.error_code, answer.diverging_epoch.epoch) == (0, -1)


@pytest.mark.parametrize("version", range(12, 19))
def test_an_epoch_last_fetched_that_nobody_knows_is_out_of_range(
    asker: Asker, topic: str, version: int
) -> None:
    produce(asker, topic, batch(b"a"))
    wanted = fetch_topic(_name(asker, topic, version), {0: 1}, last_epoch=3)
    answer = _partition(asker.ask(fetch_request(wanted), version))
    assert answer.error_code == errors.OffsetOutOfRange.code


# -- limits (KIP-74)


@pytest.mark.parametrize("version", versions(1))
@pytest.mark.parametrize("limits", [{"bytes_max": 1}, {"partition_bytes_max": 1}], ids=str)
def test_a_first_batch_larger_than_the_limits_comes_alone(
    asker: Asker, topic: str, version: int, limits: dict[str, int]
) -> None:
    produce(asker, topic, batch(b"x" * 1_000))
    produce(asker, topic, batch(b"y" * 1_000))
    answer = fetch(asker, _name(asker, topic, version), 0, version=version, **limits)
    assert _values(answer) == [b"x" * 1_000]


def test_only_the_first_partition_may_pass_the_limit(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    topic = new_topic(penstock_cluster, partitions=2)
    for index in (0, 1):
        produce(asker, topic, batch(b"x" * 1_000), partition=index)
    wanted = fetch_topic(topic, {0: 0, 1: 0}, bytes_max=10)
    [told] = asker.ask(fetch_request(wanted), 11).responses
    assert [bool(each.records) for each in told.partitions] == [True, False]


def test_whole_batches_fill_the_limit(asker: Asker, topic: str) -> None:
    one = batch(b"x" * 1_000)
    for _ in range(5):
        produce(asker, topic, one)
    answer = fetch(asker, topic, 0, partition_bytes_max=3 * len(one) + 20)
    assert answer.records is not None
    whole = [header for _, header in batch_headers(answer.records)]
    assert [header[0] for header in whole][:3] == [0, 1, 2]
    assert len(answer.records) <= 3 * len(one) + 20


@pytest.mark.parametrize("size", [63 << 10, 64 << 10, 65 << 10, 900_000])
def test_records_are_the_same_whichever_way_they_leave(asker: Asker, topic: str, size: int) -> None:
    sent = [batch(bytes([65 + place]) * size) for place in range(3)]
    for each in sent:
        produce(asker, topic, each)
    answer = fetch(asker, topic, 0, partition_bytes_max=10 << 20)
    assert _values(answer) == [bytes([65 + place]) * size for place in range(3)]


@pytest.fixture(scope="module")
def on_disk() -> Iterator[Cluster]:
    """Records leave a real file by sendfile; in memory they do not."""
    with Cluster(memory=False) as cluster:
        yield cluster


@pytest.mark.parametrize("version", versions(1))
@pytest.mark.parametrize("size", [1_000, 200_000])
def test_records_leave_a_file_in_every_version(on_disk: Cluster, version: int, size: int) -> None:
    # Before v12 nothing follows the records: the empty rest of an answer once stopped the node.
    topic = new_topic(on_disk, partitions=2)
    with asking(on_disk) as asker:
        name = _name(asker, topic, version)
        for index in (0, 1):
            produce(asker, topic, batch(b"x" * size), partition=index)
        [told] = asker.ask(fetch_request(fetch_topic(name, {0: 0, 1: 0})), version).responses
        assert [_values(each) for each in told.partitions] == [[b"x" * size]] * 2


# -- waiting


def test_a_fetch_at_the_end_waits_for_an_append(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    asker.send(fetch_request(fetch_topic(topic, {0: 0}), wait_ms=LONG_POLL_MS), 12)
    assert asker.is_quiet()
    with asking(penstock_cluster) as other:
        produce(other, topic, batch(b"news"))
    assert _values(_partition(asker.receive())) == [b"news"]


def test_a_fetch_waits_for_its_minimum_of_bytes(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    one = batch(b"x" * 1_000)
    wanted = fetch_topic(topic, {0: 0})
    asker.send(fetch_request(wanted, wait_ms=LONG_POLL_MS, bytes_min=2 * len(one)), 12)
    with asking(penstock_cluster) as other:
        produce(other, topic, one)
        assert asker.is_quiet()
        produce(other, topic, one)
    assert len(_values(_partition(asker.receive()))) == 2


def test_a_minimum_over_several_partitions_counts_them_together(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    topic = new_topic(penstock_cluster, partitions=2)
    one = batch(b"x" * 1_000)
    wanted = fetch_topic(topic, {0: 0, 1: 0})
    asker.send(fetch_request(wanted, wait_ms=LONG_POLL_MS, bytes_min=2 * len(one)), 12)
    with asking(penstock_cluster) as other:
        produce(other, topic, one, partition=0)
        produce(other, topic, one, partition=1)
    [told] = asker.receive().responses
    assert [len(each.records) for each in told.partitions] == [len(one), len(one)]


def test_a_wait_without_news_ends_with_an_empty_answer(asker: Asker, topic: str) -> None:
    answer = fetch(asker, topic, 0, wait_ms=30)
    assert (answer.error_code, answer.high_watermark) == (0, 0)
    assert not answer.records


def test_too_few_bytes_are_answered_when_the_time_is_up(asker: Asker, topic: str) -> None:
    produce(asker, topic, batch(b"a"))
    assert _values(fetch(asker, topic, 0, wait_ms=30, bytes_min=1 << 20)) == [b"a"]


def test_a_minimum_of_0_does_not_wait(asker: Asker, topic: str) -> None:
    assert not fetch(asker, topic, 0, wait_ms=LONG_POLL_MS, bytes_min=0).records


def test_a_fetch_of_nothing_is_answered(asker: Asker) -> None:
    assert asker.ask(fetch_request(wait_ms=10), 12).responses == []


def test_answers_behind_a_long_poll_keep_the_order(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    asker.send(fetch_request(fetch_topic(topic, {0: 0}), wait_ms=LONG_POLL_MS), 12)
    asker.send(k18.ApiVersionsRequest(), 0)
    asker.send(list_offsets_request("no-such-topic", -1), 6)
    assert asker.is_quiet()
    with asking(penstock_cluster) as other:
        produce(other, topic, batch(b"news"))
    assert _values(_partition(asker.receive())) == [b"news"]
    assert asker.receive().error_code == 0
    assert asker.receive().topics[0].partitions[0].error_code == 3


def test_a_produce_behind_a_long_poll_ends_it(asker: Asker, topic: str) -> None:
    asker.send(fetch_request(fetch_topic(topic, {0: 0}), wait_ms=LONG_POLL_MS), 12)
    asker.send(produce_request(topic, batch(b"own")), 9)
    assert _values(_partition(asker.receive())) == [b"own"]
    assert asker.receive().responses[0].partition_responses[0].base_offset == 0


def test_deleting_the_topic_ends_a_wait(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    asker.send(fetch_request(fetch_topic(topic, {0: 0}), wait_ms=LONG_POLL_MS), 12)
    with asking(penstock_cluster) as other:
        other.ask(k20.DeleteTopicsRequest(topic_names=[topic], timeout_ms=5_000), 5)
    assert _partition(asker.receive()).error_code == errors.UnknownTopicOrPartition.code


def test_deleting_records_moves_the_start_under_a_wait(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    wanted = fetch_request(fetch_topic(topic, {0: 0}), wait_ms=LONG_POLL_MS, bytes_min=1 << 20)
    asker.send(wanted, 12)
    with asking(penstock_cluster) as other:
        _delete_before(other, topic, 2)
    assert _partition(asker.receive()).error_code == errors.OffsetOutOfRange.code


def test_a_peer_that_leaves_during_its_wait_harms_nobody(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    with asking(penstock_cluster) as leaver:
        leaver.send(fetch_request(fetch_topic(topic, {0: 0}), wait_ms=LONG_POLL_MS), 12)
    assert produce(asker, topic, batch(b"a")).error_code == 0
    assert _values(fetch(asker, topic, 0)) == [b"a"]


@pytest.mark.parametrize("replica_id", [2, 5])
def test_a_follower_that_is_no_replica_is_refused(
    asker: Asker, topic: str, replica_id: int
) -> None:
    request = fetch_request(fetch_topic(topic, {0: 0}))
    request.replica_id = replica_id
    answer = _partition(asker.ask(request, 11))
    assert answer.error_code == errors.UnknownLeaderEpoch.code
