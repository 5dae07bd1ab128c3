"""The blocking Consumer: the same promises as asyncio's, with threads for tasks."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
from consuming import (
    LOOK_SECONDS,
    WAIT_SECONDS_MAX,
    at,
    committed,
    fill,
    filled_topic,
    fresh_group,
    members,
)
from producing import dead_address

from penstock.client.consumer import Consumer as AsyncConsumer
from penstock.client.consumer.engine import engine
from penstock.client.failures import (
    ClientClosed,
    DeserializationError,
    HandlerTimedOut,
    PartitionsRevoked,
    TimedOut,
)
from penstock.client.records import Record
from penstock.model import TopicPartition
from penstock.sync import Consumer
from penstock.testing import Cluster
from penstock.testing.external_cluster import ClusterLike

SLACK_S = 4.0


def consumer_of(
    cluster: ClusterLike, topic: str, group: str | None = None, **options: Any
) -> Consumer[bytes, bytes]:
    settings = {"auto.offset.reset": "earliest", **options.pop("settings", {})}
    return Consumer(
        settings,
        bootstrap=cluster.bootstrap,
        group=group or fresh_group(),
        topics=[topic],
        **options,
    )


def read(consumer: Consumer[Any, Any], count: int) -> list[Record[Any, Any]]:
    found = []
    for record in consumer:
        found.append(record)
        if len(found) == count:
            consumer.finish(record)
            break
    return found


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        threading.Event().wait(LOOK_SECONDS)


@contextlib.contextmanager
def running(work: Callable[[], None]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread
    thread.join(WAIT_SECONDS_MAX)
    assert not thread.is_alive()


def test_both_consumers_have_the_same_names() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(Consumer) == names(AsyncConsumer)


def test_records_are_read_and_finished_ones_committed(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 10), fresh_group()
    with consumer_of(penstock_cluster, topic, group) as consumer:
        for record in consumer:
            if record.offset == 4:
                break
        assert consumer.finished_offsets() == {at(topic): 4}
    assert committed(penstock_cluster, group, topic) == 4


def test_a_body_that_raises_leaves_its_record_uncommitted(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 4), fresh_group()

    def consume() -> None:
        with consumer_of(penstock_cluster, topic, group) as consumer:
            for record in consumer:
                if record.offset == 2:
                    raise LookupError

    with pytest.raises(LookupError):
        consume()
    assert committed(penstock_cluster, group, topic) == 2


def test_batches_polls_and_takes(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 20), fresh_group()
    with consumer_of(penstock_cluster, topic, group) as consumer:
        for batch in consumer.batches(max=8, timeout_s=10):
            assert len(batch) == 8 and batch.commit() == {at(topic): 8}
            break
        first = consumer.poll(20)
        assert first is not None and first.offset == 8
        assert [each.offset for each in consumer.take(3, 20)] == [9, 10, 11]
        assert consumer.finished_offsets() == {at(topic): 9}
        assert len(consumer.take(100, 0.2)) == 8
        assert consumer.poll(0.05) is None
        assert consumer.commit() == {at(topic): 20}
        assert consumer.committed() == {at(topic): 20}
    assert committed(penstock_cluster, group, topic) == 20


def test_seek_rewind_pause_and_where_it_stands(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 20)
    with consumer_of(penstock_cluster, topic) as consumer:
        read(consumer, 2)
        assert consumer.assignment == (at(topic),)
        assert consumer.position(at(topic)) == 2
        assert consumer.lag() == {at(topic): 18}
        assert consumer.watermarks(at(topic)) == (0, 20)
        consumer.seek(at(topic), 15)
        assert [each.offset for each in read(consumer, 2)] == [15, 16]
        consumer.pause()
        assert consumer.paused() == [at(topic)] and consumer.poll(0.05) is None
        consumer.resume()
        consumer.rewind("start")
        assert [each.offset for each in read(consumer, 1)] == [0]


def test_callbacks_run_and_may_use_the_consumer(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 10), fresh_group()
    told: list[object] = []

    def assigned(places: Collection[TopicPartition]) -> None:
        (place,) = places
        consumer.seek(place, 5)
        told.append(place)

    def revoked(places: Collection[TopicPartition]) -> None:
        told.append((list(places), consumer.commit()))

    consumer = consumer_of(
        penstock_cluster,
        topic,
        group,
        settings={"enable.auto.commit": False},
        on_assigned=assigned,
        on_revoked=revoked,
    )
    with consumer:
        assert [each.offset for each in read(consumer, 2)] == [5, 6]
    assert told == [at(topic), ([at(topic)], {at(topic): 7})]
    assert committed(penstock_cluster, group, topic) == 7


def test_a_coroutine_as_a_callback_is_refused(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def assigned(_: Collection[TopicPartition]) -> None:
        raise AssertionError("nobody awaits it")

    with (
        consumer_of(penstock_cluster, topic, on_assigned=assigned) as consumer,
        pytest.raises(TypeError, match="asyncio"),
    ):
        consumer.poll(20)


def test_a_body_beyond_its_time_is_not_committed_and_told_at_the_next_step(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    settings = {"handler.timeout.ms": 100}
    with consumer_of(penstock_cluster, topic, group, settings=settings) as consumer:
        loop = iter(consumer)
        assert next(loop).offset == 0
        until(lambda: any(each.failure for each in consumer._core.shared.tracker.in_flight))
        with pytest.raises(HandlerTimedOut, match="offset 0"):
            next(loop)
        assert consumer.finished_offsets() == {}
        assert [each.offset for each in read(consumer, 3)] == [0, 1, 2]
    assert committed(penstock_cluster, group, topic) == 3


def test_a_body_that_never_ends_loses_its_membership_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "CANCEL_PATIENCE_S", 0.1)
    settings = {
        "handler.timeout.ms": 100,
        "max.poll.interval.ms": 1000,
        "session.timeout.ms": 1000,
        "heartbeat.interval.ms": 100,
    }
    with Cluster({"group.min.session.timeout.ms": 100}) as cluster:
        topic, group = filled_topic(cluster, 2), fresh_group()
        with consumer_of(cluster, topic, group, settings=settings) as consumer:
            loop = iter(consumer)
            assert next(loop).offset == 0
            until(lambda: members(cluster, group) == 0)
            with pytest.raises(HandlerTimedOut):
                next(loop)
            assert [each.offset for each in read(consumer, 2)] == [0, 1]
        assert committed(cluster, group, topic) == 2


def test_a_body_that_outlasts_a_revocation_is_told_at_the_next_step() -> None:
    settings = {
        "revoke.timeout.ms": 200,
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 6000,
    }
    with Cluster() as cluster:
        topic, group = filled_topic(cluster, 2), fresh_group()
        with consumer_of(cluster, topic, group, settings=settings) as first:
            loop = iter(first)
            assert next(loop).offset == 0
            with consumer_of(cluster, topic, group, settings=settings):
                until(lambda: not first._core.shared.tracker.in_flight)
            with pytest.raises(PartitionsRevoked, match=topic):
                next(loop)
            # The other has read nothing and left: the record comes again.
            assert [each.offset for each in read(first, 2)] == [0, 1]
        assert committed(cluster, group, topic) == 2


def test_a_close_by_another_thread_ends_the_loop(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    consumer = consumer_of(penstock_cluster, topic, group)
    seen: list[int] = []

    def consume() -> None:
        for record in consumer:
            seen.append(record.offset)

    with running(consume):
        until(lambda: consumer.finished_offsets() == {at(topic): 3})
        consumer.close()
    assert seen == [0, 1, 2]
    with pytest.raises(ClientClosed):
        consumer.poll(1)
    assert committed(penstock_cluster, group, topic) == 3


def test_a_close_comes_back_though_a_body_does_not_end(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    consumer = consumer_of(penstock_cluster, topic, group)
    working, release = threading.Event(), threading.Event()

    def consume() -> None:
        for _ in consumer:
            working.set()
            release.wait(WAIT_SECONDS_MAX)

    with running(lambda: _quietly(consume)):
        assert working.wait(WAIT_SECONDS_MAX)
        begin = time.monotonic()
        consumer.close(1.2)
        assert time.monotonic() - begin < 1.2 + SLACK_S
        release.set()
    assert committed(penstock_cluster, group, topic) is None


def _quietly(work: Callable[[], None]) -> None:
    with contextlib.suppress(PartitionsRevoked):
        work()


def test_a_dead_broker_holds_up_no_call_and_no_close() -> None:
    consumer = Consumer(bootstrap=dead_address(), group="g", topics=["orders"])
    begin = time.monotonic()
    assert consumer.poll(0.1) is None
    with pytest.raises(TimedOut):
        consumer.commit({at("orders"): 1}, timeout_s=0.1)
    consumer.close(0.5)
    assert time.monotonic() - begin < SLACK_S


def decimal(data: bytes) -> int:
    return int(data)


def test_what_cannot_be_read_is_passed_over_by_name(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 0), fresh_group()
    fill(penstock_cluster, topic, [b"1", b"two", b"3"])
    seen: list[int | None] = []
    skipped: list[tuple[int, bool]] = []
    with Consumer(
        {"auto.offset.reset": "earliest"},
        bootstrap=penstock_cluster.bootstrap,
        group=group,
        topics=[topic],
        value=decimal,
    ) as consumer:
        while len(seen) < 2:
            try:
                for record in consumer:
                    seen.append(record.value)
                    consumer.finish(record)
                    if len(seen) == 2:
                        break
            except DeserializationError as error:
                skipped.append((error.offset, consumer.skip(error)))
    assert seen == [1, 3] and skipped == [(1, True)]
    assert committed(penstock_cluster, group, topic) == 3


def test_a_consumer_that_nobody_closes_warns(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)
    consumer = consumer_of(penstock_cluster, topic)
    read(consumer, 1)
    with pytest.warns(ResourceWarning, match="never closed"):
        del consumer
