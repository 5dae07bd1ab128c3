"""Assertions about groups and topics: what they wait for, and what they say if it does not come."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from penstock.client.admin.blocking import Admin
from penstock.client.records import TimestampType
from penstock.errors import CoordinatorLoadInProgress, TopicAuthorizationFailed
from penstock.model import TopicPartition
from penstock.testing import (
    Cluster,
    Drop,
    Fail,
    InterceptedRequest,
    assert_records,
    read_committed,
    wait_until_caught_up,
)

WAIT_SECONDS_MAX = 20.0
SOON_S = 0.05


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    return cluster.create_topic(request.node.name, partitions=2)


def write(cluster: Cluster, topic: str, *values: bytes, partition: int = 0, key: str = "") -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(topic, value, key or None, partition=partition, headers={"n": value})
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def transact(cluster: Cluster, topic: str, *values: bytes, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    (producer.commit_transaction if commit else producer.abort_transaction)(WAIT_SECONDS_MAX)


@contextmanager
def after_a_look(cluster: Cluster, api: str, call: Callable[[], None]) -> Iterator[None]:
    """Something happens once an assertion in the block has asked the cluster by this API."""
    looked = threading.Event()

    def passing(_request: InterceptedRequest[object]) -> None:
        looked.set()

    def wait() -> None:
        assert looked.wait(WAIT_SECONDS_MAX)
        call()

    later = threading.Thread(target=wait)
    later.start()
    with cluster.intercept(api, passing):
        yield
    later.join()


def commit(cluster: Cluster, group: str, offsets: dict[TopicPartition, int]) -> None:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        assert set(admin.groups.commit(group, offsets).values()) == {None}


# -- reading


def test_everything_committed_is_read_with_its_places(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a", b"b", key="k")
    write(cluster, topic, b"c", partition=1)
    found = read_committed(cluster, topic)
    assert [(each.place, each.offset, each.key, each.value) for each in found] == [
        ((topic, 0), 0, b"k", b"a"),
        ((topic, 0), 1, b"k", b"b"),
        ((topic, 1), 0, None, b"c"),
    ]
    assert [each.header("n") for each in found] == [b"a", b"b", b"c"]
    assert {each.timestamp_type for each in found} == {TimestampType.CREATE_TIME}


def test_open_and_aborted_transactions_are_not_read(cluster: Cluster, topic: str) -> None:
    transact(cluster, topic, b"first", commit=True)
    transact(cluster, topic, b"aborted", commit=False)
    transact(cluster, topic, b"second", commit=True)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "open"})
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert [each.value for each in read_committed(cluster.bootstrap, topic)] == [
        b"first",
        b"second",
    ]
    producer.abort_transaction(WAIT_SECONDS_MAX)


def test_values_may_be_turned_into_what_is_compared(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b'{"n": 1}', key="7")
    (record,) = read_committed(cluster, topic, key=int, value=json.loads)
    assert (record.key, record.value) == (7, {"n": 1})
    assert_records(cluster, topic, [(7, {"n": 1})], key=int, value=json.loads)


def test_a_topic_that_does_not_exist_is_said(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match=r"within 0.05 s: topic nowhere does not exist"):
        read_committed(cluster, "nowhere", timeout_s=SOON_S)


# -- records


def test_records_that_are_there_are_returned(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a", b"b")
    found = assert_records(cluster, topic, ["a", b"b"])
    assert [each.offset for each in found] == [0, 1]


def test_records_that_come_later_are_waited_for(cluster: Cluster, topic: str) -> None:
    with after_a_look(cluster, "ListOffsets", lambda: write(cluster, topic, b"a", b"b")):
        assert_records(cluster, topic, ["a", "b"], timeout_s=WAIT_SECONDS_MAX)


def test_what_is_missing_is_said_when_the_time_is_up(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a")
    with pytest.raises(AssertionError) as failure:
        assert_records(cluster, topic, ["a", "b"], timeout_s=SOON_S)
    assert str(failure.value).splitlines() == [
        f"topic {topic} is not as expected within 0.05 s: 1 missing (2 expected, 1 found)",
        "  missing      #1 b'b'",
    ]


def test_what_nobody_expects_fails_at_once(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a", b"x")
    with pytest.raises(AssertionError, match=f"unexpected   {topic}-0@1 b'x'"):
        assert_records(cluster, topic, ["a"], timeout_s=3_600)


def test_order_counts_unless_it_is_said_not_to(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"b", b"a")
    assert_records(cluster, topic, ["a", "b"], in_order=False)
    with pytest.raises(AssertionError, match="1 out of order"):
        assert_records(cluster, topic, ["a", "b"], timeout_s=3_600)


def test_a_refusal_is_not_waited_for(cluster: Cluster, topic: str) -> None:
    with (
        cluster.intercept("ListOffsets", Fail(TopicAuthorizationFailed)),
        pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        assert_records(cluster, topic, [], timeout_s=3_600)


def test_a_cluster_that_is_away_for_a_while_is_waited_for() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("a")
        bootstrap = cluster.bootstrap
        with cluster.intercept("ApiVersions", Drop()) as refusing:

            def let_go() -> None:
                refusing.wait(2)
                refusing.end()

            later = threading.Thread(target=let_go)
            later.start()
            assert_records(bootstrap, topic, [], timeout_s=WAIT_SECONDS_MAX)
            later.join()
        cluster.kill()
        with pytest.raises(AssertionError, match=r"within 0.05 s: .*cannot be reached"):
            assert_records(bootstrap, topic, [], timeout_s=SOON_S)


# -- groups


def test_a_group_that_has_committed_everything_has_caught_up(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a", b"b")
    commit(cluster, topic, {TopicPartition(topic, 0): 2})
    wait_until_caught_up(cluster, topic, topic)
    wait_until_caught_up(cluster.bootstrap, topic, [topic])
    wait_until_caught_up(cluster, topic)


def test_a_group_is_waited_for(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a", b"b")
    all_of_it = {TopicPartition(topic, 0): 2}
    with after_a_look(cluster, "OffsetFetch", lambda: commit(cluster, topic, all_of_it)):
        wait_until_caught_up(cluster, topic, topic, timeout_s=WAIT_SECONDS_MAX)


def test_what_a_group_has_left_is_said(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a", b"b", b"c")
    write(cluster, topic, b"d", partition=1)
    commit(cluster, topic, {TopicPartition(topic, 0): 1})
    with pytest.raises(AssertionError) as failure:
        wait_until_caught_up(cluster, topic, topic, timeout_s=SOON_S)
    assert str(failure.value).splitlines() == [
        f"group {topic} (Empty, members: none) has not caught up within 0.05 s:",
        f"  {topic}-0: committed 1, 2 before the end 3",
        f"  {topic}-1: nothing committed, the end is 1",
    ]


def test_a_group_that_nobody_knows_is_said(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match=r"nobody \(not known.*has committed nothing"):
        wait_until_caught_up(cluster, "nobody", timeout_s=SOON_S)


def test_a_marker_at_the_end_is_nothing_to_be_read(cluster: Cluster, topic: str) -> None:
    transact(cluster, topic, b"a", commit=True)
    transact(cluster, topic, b"aborted", commit=False)
    commit(cluster, topic, {TopicPartition(topic, 0): 1})
    wait_until_caught_up(cluster, topic, topic)


def test_an_empty_topic_needs_no_commit(cluster: Cluster, topic: str) -> None:
    wait_until_caught_up(cluster, topic, topic)


def test_a_coordinator_that_is_loading_is_waited_for(cluster: Cluster, topic: str) -> None:
    with cluster.intercept("OffsetFetch", Fail(CoordinatorLoadInProgress), times=2) as loading:
        wait_until_caught_up(cluster, topic, topic)
    assert loading.count == 2


def test_a_real_consumer_catches_up(cluster: Cluster, topic: str) -> None:
    transact(cluster, topic, b"a", b"b", commit=True)
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        for _ in range(2):
            message = consumer.poll(WAIT_SECONDS_MAX)
            assert message is not None
            assert message.error() is None
        with pytest.raises(AssertionError, match=r"Stable, members: rdkafka"):
            wait_until_caught_up(cluster, topic, timeout_s=SOON_S)
        consumer.commit(asynchronous=False)
        wait_until_caught_up(cluster, topic)


def test_pytest_shows_the_line_of_the_test_and_none_of_ours(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, b"a")
    with pytest.raises(AssertionError) as wrong:
        assert_records(cluster, topic, ["b"], timeout_s=SOON_S)
    with pytest.raises(AssertionError) as late:
        assert_records(cluster, topic, ["a", "b"], timeout_s=SOON_S)
    for failed in (wrong, late):
        shown = failed.traceback.filter(failed)
        assert [Path(each.path).name for each in shown] == ["test_testing_assertions.py"]


def test_pytest_shows_where_an_error_that_is_no_assertion_comes_from(
    cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, b"no json")
    with pytest.raises(json.JSONDecodeError) as failed:
        assert_records(cluster, topic, ["b"], value=json.loads)
    shown = failed.traceback.filter(failed)
    assert "assertions.py" in [Path(each.path).name for each in shown]
