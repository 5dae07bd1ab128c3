"""The life of a log as real clients see it: retention, compression, flushing, times, limits.

No test sleeps: the node's clock is put forward.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client_adapters import Client, Confluent, Got, How, MakeTopic, Refused, Sent
from confluent_kafka import KafkaError, Producer

from penstock import errors
from penstock.client.admin.blocking import Admin
from penstock.client.values import ConfigChange, Operation, Resource, ResourceType
from penstock.model import TopicPartition
from penstock.testing.cluster import Cluster
from penstock.wire.batch import ATTRIBUTES, CODEC_MASK, batch_headers
from penstock.wire.compression import NAMES

pytest_plugins = ["client_fixtures"]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
HOUR = 3_600.0
HOUR_MS = 3_600_000
LARGEST_TIME = -3
WAIT_SECONDS_MAX = 20.0


def wait_for(condition: Callable[[], bool]) -> None:
    """For what other threads of the node do; fails when it does not come."""
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        os.sched_yield()


def codecs_on_disk(cluster: Cluster, topic: str) -> set[str]:
    data = b"".join(
        path.read_bytes() for path in sorted(Path(cluster.data, f"{topic}-0").glob("*.log"))
    )
    return {NAMES[header[ATTRIBUTES] & CODEC_MASK] for _, header in batch_headers(data)}


def set_config(cluster: Cluster, topic: str, **config: str) -> None:
    changes = [
        ConfigChange(name.replace("_", "."), Operation.SET, value) for name, value in config.items()
    ]
    with Admin(bootstrap=cluster.bootstrap) as admin:
        [error] = admin.alter_configs({Resource(ResourceType.TOPIC, topic): changes}).values()
    assert error is None


def segments(cluster: Cluster, topic: str) -> list[str]:
    """The names of the files of its first partition that hold records, deleted ones too."""
    directory = Path(cluster.data, f"{topic}-0")
    return sorted(path.name for path in directory.iterdir() if ".log" in path.name)


@contextmanager
def aged(settings: Mapping[str, Any] | None = None) -> Iterator[Cluster]:
    with Cluster({"log.retention.check.interval.ms": 1000, **(settings or {})}, memory=False) as it:
        yield it


# -- compression


@pytest.mark.each_value
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_has_its_own_codec(
    client: Client, make_topic: MakeTopic, disk_cluster: Cluster, codec: str, target: str
) -> None:
    topic = make_topic(compression_type=target)
    sent = [Sent(b"value %d " % place * 20, b"key") for place in range(50)]
    assert client.produce(topic, sent, How(codec, idempotent=True)) == list(range(50))
    assert [each.value for each in client.consume(topic, 50)] == [each.value for each in sent]
    stored = {"uncompressed": "none"}.get(target, target)
    assert codecs_on_disk(disk_cluster, topic) == {stored}


def test_a_topic_of_the_producers_codec_keeps_every_byte(
    client: Client, make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    topic = make_topic(compression_type="producer")
    for codec in CODECS:
        client.produce(topic, [Sent(b"value " * 50)], How(codec))
    assert codecs_on_disk(disk_cluster, topic) == set(CODECS)


def test_a_codec_that_is_changed_in_use_holds_for_the_next_request(
    make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    client, topic = Confluent(disk_cluster), make_topic()
    client.produce(topic, [Sent(b"value " * 50)])
    set_config(disk_cluster, topic, compression_type="zstd")
    client.produce(topic, [Sent(b"value " * 50)])
    assert codecs_on_disk(disk_cluster, topic) == {"none", "zstd"}


def test_transactions_are_recompressed_as_well(
    make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    from confluent_kafka import Producer

    topic = make_topic(compression_type="lz4")
    producer = Producer({"bootstrap.servers": disk_cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for ends in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(topic, b"%s %d" % (ends.__name__.encode(), number), partition=0)
        producer.flush()
        ends()
    settings: dict[str, Any] = {"isolation.level": "read_committed"}
    got = Confluent(disk_cluster).consume(topic, 20, **settings)
    assert [each.value for each in got] == [b"commit_transaction %d" % n for n in range(20)]
    assert codecs_on_disk(disk_cluster, topic) == {"lz4", "none"}, "markers are never compressed"


# -- retention


def test_records_leave_by_their_age_when_the_clock_goes_on() -> None:
    with aged({"log.segment.delete.delay.ms": 60_000}) as cluster:
        client, topic = (
            Confluent(cluster),
            cluster.create_topic("t", config={"retention.ms": HOUR_MS}),
        )
        client.produce(topic, [Sent(b"old")])
        cluster.advance(seconds=HOUR - 60)
        wait_for(lambda: client.watermarks(topic) == (0, 1))
        cluster.advance(seconds=120)
        wait_for(lambda: client.watermarks(topic) == (1, 1))
        wait_for(lambda: any(name.endswith(".deleted") for name in segments(cluster, topic)))

        def is_removed() -> bool:
            cluster.advance(seconds=61)  # the delay begins after the rename, whenever that is told
            return segments(cluster, topic) == ["00000000000000000001.log"]

        wait_for(is_removed)
        assert client.produce(topic, [Sent(b"new")]) == [1]


def test_a_time_from_the_far_future_does_not_stay_for_ever() -> None:
    config = {"retention.ms": HOUR_MS, "message.timestamp.after.max.ms": 2**62}
    with aged() as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config=config)
        ahead = int(time.time() * 1000) + 1_000 * 24 * HOUR_MS
        client.produce(topic, [Sent(b"broken", timestamp=ahead)])
        client.produce(topic, [Sent(b"sound")])
        cluster.advance(seconds=HOUR + 60)
        wait_for(lambda: client.watermarks(topic) == (0, 2))
        cluster.advance(seconds=HOUR + 60)
        wait_for(lambda: client.watermarks(topic) == (2, 2))


def test_records_leave_by_size_and_a_new_size_holds_at_the_next_look() -> None:
    config = {"internal.segment.bytes": 10_000, "retention.bytes": -1}
    with aged() as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config=config)
        for _ in range(10):
            client.produce(topic, [Sent(bytes(8_000))])
        assert client.watermarks(topic) == (0, 10)
        set_config(cluster, topic, retention_bytes="30000")
        cluster.advance(seconds=2)
        wait_for(lambda: client.watermarks(topic) == (6, 10))


def test_records_leave_on_request_and_their_files_after_them() -> None:
    config = {"internal.segment.bytes": 10_000}
    with aged() as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config=config)
        for _ in range(5):
            client.produce(topic, [Sent(bytes(8_000))])
        with Admin(bootstrap=cluster.bootstrap) as admin:
            assert admin.delete_records({TopicPartition(topic, 0): 3}) == {
                TopicPartition(topic, 0): 3
            }
        assert client.watermarks(topic) == (3, 5)
        cluster.advance(seconds=2)
        wait_for(lambda: "00000000000000000000.log" not in segments(cluster, topic))
        cluster.kill()
        cluster.start()
        assert client.watermarks(topic) == (3, 5)


def test_segments_are_closed_by_age_with_the_next_record() -> None:
    config: dict[str, str | int] = {
        "segment.ms": 60_000,
        "message.timestamp.type": "LogAppendTime",
    }
    with aged() as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config=config)
        client.produce(topic, [Sent(b"1")])
        cluster.advance(seconds=61)
        assert len(segments(cluster, topic)) == 1, "an idle partition keeps its segment"
        client.produce(topic, [Sent(b"2")])
        assert len(segments(cluster, topic)) == 2


def test_a_segment_is_reserved_at_once_and_shrinks_when_it_is_closed() -> None:
    with aged() as cluster:
        client = Confluent(cluster)
        config: dict[str, str | int] = {"preallocate": "true", "segment.bytes": 4 << 20}
        topic = cluster.create_topic("t", config=config)
        client.produce(topic, [Sent(b"x")])
        file = Path(cluster.data, f"{topic}-0", "00000000000000000000.log")
        wait_for(lambda: file.stat().st_blocks * 512 >= 4 << 20)
        assert file.stat().st_size < 1_000
        cluster.stop()
        assert file.stat().st_blocks * 512 < 1 << 20
        cluster.start()
        assert [each.value for each in client.consume(topic, 1)] == [b"x"]


# -- flushing


def test_a_partition_is_flushed_when_its_time_comes() -> None:
    with aged() as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config={"flush.ms": 60_000})
        client.produce(topic, [Sent(b"x")])  # with the file that says whose the records are
        partition = cluster.broker.find(topic, 0)
        wait_for(lambda: partition.log.synced_offset == 1)
        client.produce(topic, [Sent(b"x")])
        assert partition.log.synced_offset == 1
        cluster.advance(seconds=61)
        wait_for(lambda: partition.log.synced_offset == 2)


def test_with_flush_messages_an_acknowledged_record_is_on_the_disk() -> None:
    with aged({"log.flush.interval.messages": 1}) as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t")
        for count in range(1, 20):
            client.produce(topic, [Sent(b"x")], How(settings={"acks": "1"}))
            assert cluster.broker.find(topic, 0).log.synced_offset == count


def test_a_start_after_a_clean_stop_scans_nothing() -> None:
    with aged() as cluster:
        client = Confluent(cluster)
        topic = cluster.create_topic("t", 3, {"internal.segment.bytes": 20_000})
        how = How(settings={"batch.num.messages": 5})
        client.produce(topic, [Sent(bytes(1_000)) for _ in range(200)], how)
        cluster.stop()
        cluster.start()
        for index in range(3):
            recovery = cluster.broker.find(topic, index).log.recovery
            assert (recovery.scanned_bytes, recovery.segments_rebuilt) == (0, 0)
        assert client.watermarks(topic) == (0, 200)


# -- times


def stamps(got: list[Got]) -> list[int]:
    return [each.timestamp for each in got]


def read_to_the_end(cluster: Cluster, topic: str) -> list[Got]:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([Place(topic, 0, 0)])
    got: list[Got] = []
    while (message := consumer.poll(WAIT_SECONDS_MAX)) is not None and not message.error():
        offset, stamp = message.offset(), message.timestamp()[1]
        assert offset is not None
        got.append(Got(offset, None, None, (), stamp, appended=False))
    consumer.close()
    return got


@pytest.mark.each_value
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_offsets_by_time_are_exact_under_create_time(
    client: Client, make_topic: MakeTopic, codec: str
) -> None:
    topic, now_ms = make_topic(), int(time.time() * 1000)
    order = [5, 1, 3, 9, 2, 9, 4]
    sent = [Sent(b"x", timestamp=now_ms + each) for each in order]
    client.produce(topic, sent, How(codec))
    for wanted in range(11):
        later = [place for place, each in enumerate(order) if each >= wanted]
        assert client.offset_at(topic, now_ms + wanted) == (later[0] if later else None)


def test_offsets_by_time_are_exact_under_append_time() -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    with aged() as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config=config)
        for _ in range(3):
            client.produce(topic, [Sent(b"a", timestamp=5), Sent(b"b", timestamp=7)])
            cluster.advance(seconds=HOUR)
        got = client.consume(topic, 6)
        assert all(each.appended for each in got)
        for place, stamp in enumerate(stamps(got)):
            first = stamps(got).index(stamp)
            assert client.offset_at(topic, stamp) == first <= place
            assert client.offset_at(topic, stamp + 1) == next(
                (at for at, each in enumerate(stamps(got)) if each > stamp), None
            )


def test_offsets_by_time_are_exact_after_compaction() -> None:
    config: dict[str, str | int] = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": 4_000,
        "index.interval.bytes": 100,
        "min.cleanable.dirty.ratio": "0.01",
    }
    count = 400
    with aged({"log.cleaner.backoff.ms": 100}) as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t", config=config)
        past_ms = int(time.time() * 1000) - HOUR_MS
        for start in range(0, count, 20):
            sent = [
                Sent(b"v" * 30, b"k%d" % (number * 7 % 23), timestamp=past_ms + number * 37 % count)
                for number in range(start, start + 20)
            ]
            client.produce(topic, sent, How("zstd", settings={"batch.num.messages": 4}))
        log = cluster.broker.find(topic, 0).log
        size = log.size

        def is_compacted() -> bool:
            cluster.advance(seconds=15)
            return log.size < size / 2

        wait_for(is_compacted)
        asked = range(past_ms - 1, past_ms + count + 1, 7)
        left: list[Got] = []
        while left != (now_left := read_to_the_end(cluster, topic)):  # it may be at work still
            left = now_left
            found = [client.offset_at(topic, wanted) for wanted in asked]
            with Admin(bootstrap=cluster.bootstrap) as admin:
                [largest] = admin.offsets({TopicPartition(topic, 0): LARGEST_TIME}).values()
        assert 23 <= len(left) < count, "there are gaps"
        assert found == [
            next((each.offset for each in left if each.timestamp >= wanted), None)
            for wanted in asked
        ]
        latest = max(stamps(left))
        assert not isinstance(largest, errors.KafkaError)
        assert largest.offset == next(each.offset for each in left if each.timestamp == latest)


def test_limits_on_times_hold_with_the_next_request(
    make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    client, topic = Confluent(disk_cluster), make_topic()
    now_ms = int(time.time() * 1000)
    client.produce(topic, [Sent(b"x", timestamp=now_ms - HOUR_MS)])
    set_config(disk_cluster, topic, message_timestamp_before_max_ms="60000")
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Sent(b"x", timestamp=now_ms - HOUR_MS)])
    assert refused.value.code == errors.InvalidTimestamp.code
    set_config(disk_cluster, topic, message_timestamp_after_max_ms="60000")
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Sent(b"x", timestamp=now_ms + HOUR_MS // 2)])
    assert refused.value.code == errors.InvalidTimestamp.code
    client.produce(topic, [Sent(b"x", timestamp=now_ms)])


def test_librdkafka_fails_the_named_records_and_frees_the_others(
    make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    topic = make_topic(cleanup_policy="compact")
    producer = Producer(
        {"bootstrap.servers": disk_cluster.bootstrap, "linger.ms": 2_000, "retries": 0}
    )
    outcomes: list[int | None] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        outcomes.append(None if error is None else error.code())

    for number in range(100):
        key = None if number % 10 == 3 else b"k"
        producer.produce(topic, b"v", key, on_delivery=delivered)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert Counter(outcomes) == {
        KafkaError.INVALID_RECORD: 10,
        KafkaError._INVALID_DIFFERENT_RECORD: 90,
    }


# -- sizes


def test_the_size_that_counts_is_that_of_the_compressed_batch(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=5_000)
    client.produce(topic, [Sent(bytes(100_000))], How("gzip"))
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Sent(os.urandom(6_000))], How("gzip"))
    assert refused.value.code == errors.MessageTooLarge.code


def test_another_size_holds_with_the_next_request(
    make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    client, topic = Confluent(disk_cluster), make_topic(max_message_bytes=5_000)
    with pytest.raises(Refused):
        client.produce(topic, [Sent(bytes(6_000))])
    set_config(disk_cluster, topic, max_message_bytes="7000")
    client.produce(topic, [Sent(bytes(6_000))])
    set_config(disk_cluster, topic, max_message_bytes="5000")
    with pytest.raises(Refused):
        client.produce(topic, [Sent(bytes(6_000))])


def test_requests_beyond_what_may_wait_are_answered_all_the_same() -> None:
    settings = {
        "queued.max.requests": 1,
        "queued.max.request.bytes": 200_000,
        "socket.request.max.bytes": 200_000,
        "compression.type": "zstd",
    }
    with aged(settings) as cluster:
        client, topic = Confluent(cluster), cluster.create_topic("t")
        sent = [Sent(b"%d " % n * 1_000) for n in range(300)]
        how = How(idempotent=True, settings={"batch.num.messages": 5, "linger.ms": 0})
        assert client.produce(topic, sent, how) == list(range(300))
        assert [each.value for each in client.consume(topic, 300)] == [e.value for e in sent]


def test_log_retention_of_nothing_is_refused_while_the_node_runs(disk_cluster: Cluster) -> None:
    change = ConfigChange("log.retention.ms", Operation.SET, "0")
    with Admin(bootstrap=disk_cluster.bootstrap) as admin:
        [error] = admin.alter_configs({Resource(ResourceType.BROKER, ""): [change]}).values()
    assert isinstance(error, errors.InvalidRequest)
