"""The source against a node: planned and read as Spark would, without the cost of Spark."""

import pickle
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from penstock.client.admin.blocking import Admin
from penstock.client.raw.outcomes import PartitionMissing, TopicMissing
from penstock.client.values import NewTopic
from penstock.model import TopicPartition
from penstock.spark.options.option_bag import BadOption
from penstock.spark.options.source import SourceOptions, read_source_options
from penstock.spark.source.batch import PenstockReader
from penstock.spark.source.data_loss import DataLoss
from penstock.spark.source.low_latency import PenstockSimpleReader
from penstock.spark.source.stream import PenstockStreamReader
from penstock.testing import Cluster

pytest_plugins = ["spark_fixtures"]

Produce = Callable[..., None]


def options_of(cluster: Cluster, streaming: bool, **given: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": cluster.bootstrap}
    return read_source_options({**base, **given}, streaming=streaming)


def values_of(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


class Reading:
    """A batch read, planned and read here."""

    def __init__(self, cluster: Cluster, *filters: Filter, **given: str) -> None:
        self.reader = PenstockReader(options_of(cluster, streaming=False, **given))
        assert list(self.reader.pushFilters(list(filters))) == list(filters)
        self.shares = self.reader.partitions()

    def batches(self) -> list[pa.RecordBatch]:
        # As Spark does: tasks get copies.
        copies = pickle.loads(pickle.dumps((self.reader, self.shares)))
        reader, shares = copies
        return [batch for share in shares for batch in reader.read(share)]

    def values(self) -> list[bytes]:
        return values_of(self.batches())

    def planned(self) -> set[tuple[str, int, int, int]]:
        return {
            (*each.partition, each.start, each.end)
            for share in self.shares
            for each in share.ranges  # type: ignore[attr-defined]
        }


class Following:
    """A stream, driven by hand."""

    def __init__(self, cluster: Cluster, **given: str) -> None:
        self.reader = PenstockStreamReader(options_of(cluster, streaming=True, **given))
        self.position: dict[str, Any] = {}

    def begin(self) -> "Following":
        self.position = self.reader.initialOffset()
        return self

    def next(self, limit: Any = None) -> list[bytes]:
        """The values of the next micro-batch."""
        end = self.reader.latestOffset(self.position, limit or self.reader.getDefaultReadLimit())
        shares = self.reader.partitions(self.position, end)
        copy = pickle.loads(pickle.dumps(self.reader))
        rows = [value for share in shares for value in values_of(copy.read(share))]
        self.position = end
        return rows


def places(position: dict[str, Any], topic: str) -> dict[str, int]:
    return dict(position[topic])


def test_a_stream_that_starts_at_latest_begins_in_one_place_however_often_it_is_asked(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    reader = PenstockStreamReader(options_of(cluster, streaming=True, subscribe=topic))
    first = reader.initialOffset()
    produce(topic, [b"between"])
    assert reader.initialOffset() == first


def test_records_that_come_in_while_a_stream_starts_at_latest_are_not_skipped(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"before"])
    following = Following(cluster, subscribe=topic).begin()
    produce(topic, [b"1"])
    assert (following.next(), following.next()) == ([], [b"1"])


def test_the_first_batch_of_a_stream_at_latest_may_be_repeated_after_more_records(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    """A restarted query finds the end in its checkpoint, and asks for the beginning again."""
    end = Following(cluster, subscribe=topic).begin().position
    produce(topic, [b"1", b"2"])
    again = Following(cluster, subscribe=topic).begin()
    assert places(again.position, topic) == {"0": 2, "1": 0}
    assert again.reader.partitions(again.position, end) == []
    again.position = end
    assert again.next() == [b"1", b"2"]


def test_a_stream_at_latest_that_reads_what_is_there_ends_with_records_still_coming_in(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    following = Following(cluster, subscribe=topic)
    following.reader.prepareForTriggerAvailableNow()
    produce(topic, [b"1"])
    following.begin()
    assert (following.next(), following.next()) == ([], [])


def test_progress_shows_the_lag_of_each_topic(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2", b"3"])
    earliest = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1"}
    following = Following(cluster, **earliest).begin()
    assert following.reader.reportLatestOffset() is None
    following.next()
    latest = following.reader.reportLatestOffset()
    assert latest is not None and latest["@lag"] == {topic: 2}
    assert places(latest, topic) == {"0": 3, "1": 0}


# -- batches


def test_every_record_comes_with_sparks_columns(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"v"], partition=1, key=b"k", timestamp=1_700_000_000_123)
    (batch,) = Reading(cluster, subscribe=topic).batches()
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert batch.to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": topic,
            "partition": 1,
            "offset": 0,
            "timestamp": moment,
            "timestampType": 0,
        }
    ]


def test_headers_come_on_request(cluster: Cluster, topic: str, produce: Produce) -> None:
    produce(topic, [b"with"], headers=[("a", b"1"), ("b", None)])
    produce(topic, [b"without"])
    rows = Reading(cluster, subscribe=topic, columns="headers").batches()
    listed = [row for batch in rows for row in batch.column("headers").to_pylist()]
    assert listed == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(
    cluster: Cluster, topic: str, produce: Produce, codec: str
) -> None:
    values = [b"x" * 200 + b"%d" % number for number in range(500)]
    produce(topic, values, config={"compression.type": codec, "linger.ms": "50"})
    assert Reading(cluster, subscribe=topic).values() == values


def test_offsets_bound_a_batch(cluster: Cluster, topic: str, produce: Produce) -> None:
    produce(topic, [b"%d" % number for number in range(10)])
    start, end = '{"%s": {"0": 3, "1": -2}}', '{"%s": {"0": 6, "1": -1}}'
    reading = Reading(
        cluster, subscribe=topic, startingOffsets=start % topic, endingOffsets=end % topic
    )
    assert reading.values() == [b"3", b"4", b"5"]


def test_times_bound_a_batch(cluster: Cluster, topic: str, produce: Produce) -> None:
    for second in range(5):
        produce(topic, [b"%d" % second], timestamp=1_000_000 + second * 1_000)
    reading = Reading(
        cluster,
        assign=f'{{"{topic}": [0]}}',
        startingTimestamp="1001000",
        endingTimestamp="1003000",
    )
    assert reading.values() == [b"1", b"2"]


def test_a_start_later_than_everything_is_refused(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"old"], timestamp=1_000)
    with pytest.raises(BadOption, match="as new as"):
        Reading(cluster, subscribe=topic, startingTimestamp="2000")


def test_a_start_later_than_everything_may_be_the_end(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"old"], timestamp=1_000)
    late = {"startingTimestamp": "2000", "startingOffsetsByTimestampStrategy": "latest"}
    assert Reading(cluster, subscribe=topic, **late).values() == []


def test_offsets_must_name_every_partition(cluster: Cluster, topic: str) -> None:
    with pytest.raises(BadOption, match=f"{topic}-1"):
        Reading(cluster, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 1}}}}')


def test_a_topic_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(TopicMissing, match="nowhere"):
        Reading(cluster, subscribe="nowhere")


def test_an_assigned_partition_that_is_not_there_is_named(cluster: Cluster, topic: str) -> None:
    with pytest.raises(PartitionMissing, match=f"{topic}-7.*has 2 partitions"):
        Reading(cluster, assign=f'{{"{topic}": [0, 7]}}')


def offsets(topic: str, first: int, second: int) -> str:
    return f'{{"{topic}": {{"0": {first}, "1": {second}}}}}'


def test_an_end_after_the_end_of_the_log_is_refused_when_it_is_planned(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2"])
    with pytest.raises(DataLoss, match=f"endingOffsets says 9 for {topic}-0, which ends at 2"):
        Reading(cluster, subscribe=topic, endingOffsets=offsets(topic, 9, -1))


def test_an_end_after_the_end_of_the_log_reads_what_is_there_if_losses_may_be(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2"])
    lenient = {"endingOffsets": offsets(topic, 9, -1), "failOnDataLoss": "false"}
    assert Reading(cluster, subscribe=topic, **lenient).values() == [b"1", b"2"]


def test_an_end_before_the_start_is_refused(cluster: Cluster, topic: str, produce: Produce) -> None:
    produce(topic, [b"1", b"2"])
    bounds = {"startingOffsets": offsets(topic, 2, -2), "endingOffsets": offsets(topic, 1, -1)}
    with pytest.raises(BadOption, match=f"{topic}-0 is to be read from 2 to 1"):
        Reading(cluster, subscribe=topic, **bounds)


def test_a_pattern_reads_all_topics_that_fit(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    admin.create_topics([NewTopic(f"{topic}-more", 1), NewTopic(f"other-{topic}", 1)])
    for each in (topic, f"{topic}-more", f"other-{topic}"):
        produce(each, [each.encode()])
    values = Reading(cluster, subscribePattern=f"{topic}.*").values()
    assert sorted(values) == [topic.encode(), f"{topic}-more".encode()]


def test_many_tasks_read_every_record_once(cluster: Cluster, topic: str, produce: Produce) -> None:
    values = [b"%d" % number for number in range(100)]
    produce(topic, values)
    reading = Reading(cluster, subscribe=topic, minPartitions="7")
    assert (len(reading.shares), reading.values()) == (7, values)


# -- filters


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("partition",), 1)], {(1, 0, 4)}),
        ([In(("partition",), (0, 5))], {(0, 0, 10)}),
        ([GreaterThan(("offset",), 2), LessThan(("offset",), 6)], {(0, 3, 6), (1, 3, 4)}),
        ([EqualTo(("offset",), 7)], {(0, 7, 8)}),
        ([EqualTo(("topic",), "another")], set()),
        (
            [GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp(1_005, UTC))],
            {(0, 5, 10)},
        ),
    ],
)
def test_filters_spare_what_they_would_throw_away(
    cluster: Cluster,
    topic: str,
    produce: Produce,
    filters: list[Filter],
    expected: set[tuple[int, int, int]],
) -> None:
    for number in range(10):
        produce(topic, [b"%d" % number], timestamp=(1_000 + number) * 1_000)
    produce(topic, [b"x"] * 4, partition=1, timestamp=1_000_000)
    planned = Reading(cluster, *filters, subscribe=topic).planned()
    assert planned == {(topic, *each) for each in expected}


@pytest.mark.parametrize(
    "bound",
    [
        {"startingOffsets": '{"%s": {"0": 3, "1": -2}}'},
        {"endingOffsets": '{"%s": {"0": 3, "1": 2}}'},
        {"startingOffsetsByTimestamp": '{"%s": {"0": 1003000, "1": 1000000}}'},
    ],
)
@pytest.mark.parametrize(
    "only", [EqualTo(("partition",), 0), EqualTo(("partition",), 1), EqualTo(("topic",), "another")]
)
def test_a_filter_narrows_a_read_whose_bounds_name_every_partition(
    cluster: Cluster, topic: str, produce: Produce, bound: dict[str, str], only: EqualTo
) -> None:
    for number in range(5):
        produce(topic, [b"%d" % number], timestamp=(1_000 + number) * 1_000)
    produce(topic, [b"x"] * 4, partition=1, timestamp=1_000_000)
    given = {name: text % topic for name, text in bound.items()}
    whole = Reading(cluster, subscribe=topic, **given).planned()
    kept = {each for each in whole if only.value in (each[0], each[1])}
    assert Reading(cluster, only, subscribe=topic, **given).planned() == kept


# -- transactions


@pytest.fixture
def transaction(cluster: Cluster, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def test_aborted_records_are_not_read_as_committed(
    cluster: Cluster, topic: str, produce: Produce, transaction: Producer
) -> None:
    transaction.produce(topic, b"aborted", partition=0)
    transaction.flush(30)
    produce(topic, [b"plain"])
    transaction.abort_transaction(30)
    reading = Reading(cluster, subscribe=topic, **{"isolation.level": "read_committed"})
    assert reading.values() == [b"plain"]


def test_an_open_transaction_is_the_end_of_what_is_committed(
    cluster: Cluster, topic: str, produce: Produce, transaction: Producer
) -> None:
    produce(topic, [b"before"])
    transaction.produce(topic, b"open", partition=0)
    transaction.flush(30)
    produce(topic, [b"after"])
    reading = Reading(cluster, subscribe=topic, **{"isolation.level": "read_committed"})
    transaction.abort_transaction(30)
    assert reading.values() == [b"before"]


def test_uncommitted_records_are_read_by_default(
    cluster: Cluster, topic: str, transaction: Producer
) -> None:
    transaction.produce(topic, b"open", partition=0)
    transaction.flush(30)
    values = Reading(cluster, subscribe=topic).values()
    transaction.abort_transaction(30)
    assert values == [b"open"]


# -- streams


def test_a_stream_goes_on_where_the_last_batch_ended(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1"])
    following = Following(cluster, subscribe=topic, startingOffsets="earliest").begin()
    first = following.next()
    produce(topic, [b"2", b"3"])
    assert (first, following.next(), following.next()) == ([b"1"], [b"2", b"3"], [])


def test_a_stream_without_news_stays_where_it_is(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1"])
    following = Following(cluster, subscribe=topic, startingOffsets="earliest").begin()
    following.next()
    place = following.position
    following.next()
    assert following.position == place


def test_a_batch_takes_no_more_than_its_limit(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"%d" % number for number in range(5)])
    limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    following = Following(cluster, subscribe=topic, **limit).begin()
    assert [following.next() for _ in range(3)] == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


def test_spark_may_ask_for_everything_in_spite_of_a_limit(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"%d" % number for number in range(5)])
    limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    following = Following(cluster, subscribe=topic, **limit).begin()
    assert len(following.next(ReadAllAvailable())) == 5


def test_a_batch_that_is_too_small_waits(cluster: Cluster, topic: str, produce: Produce) -> None:
    least = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h"}
    following = Following(cluster, subscribe=topic, **least).begin()
    produce(topic, [b"1", b"2"])
    first = following.next()
    produce(topic, [b"3"])
    assert (first, following.next()) == ([], [b"1", b"2", b"3"])


def test_a_query_that_ends_does_not_wait_for_a_batch_to_be_worth_it(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1"])
    least = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h"}
    following = Following(cluster, subscribe=topic, **least).begin()
    following.reader.prepareForTriggerAvailableNow()
    assert following.next() == [b"1"]


class Clock:
    """Stands where it is put."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


def test_each_batch_may_wait_for_the_whole_delay_anew(
    cluster: Cluster, topic: str, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("penstock.spark.source.stream.time", clock)
    least = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "10s"}
    following = Following(cluster, subscribe=topic, **least).begin()
    produce(topic, [b"1"])
    assert following.next() == []
    clock.now += 10
    assert following.next() == [b"1"]
    produce(topic, [b"2"])
    clock.now += 9
    assert following.next() == []
    clock.now += 1
    assert following.next() == [b"2"]


def test_a_new_stream_that_is_to_begin_after_the_end_is_refused_when_it_is_planned(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1"])
    following = Following(cluster, subscribe=topic, startingOffsets=offsets(topic, 1000, -1))
    with pytest.raises(DataLoss, match=f"startingOffsets says 1000 for {topic}-0, which ends at 1"):
        following.begin()


def test_a_new_stream_that_is_to_begin_after_the_end_begins_there_if_losses_may_be(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1"])
    lenient = {"startingOffsets": offsets(topic, 1000, -1), "failOnDataLoss": "false"}
    following = Following(cluster, subscribe=topic, **lenient).begin()
    produce(topic, [b"2"])
    assert (following.next(), following.next()) == ([], [b"2"])


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7", "minOffsetsPerTrigger": "2"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "2"}, ReadMinRows(2)),
    ],
)
def test_spark_is_told_of_a_limit(given: dict[str, str], limit: object, cluster: Cluster) -> None:
    assert Following(cluster, subscribe="any", **given).reader.getDefaultReadLimit() == limit


def test_what_is_there_now_has_an_end(cluster: Cluster, topic: str, produce: Produce) -> None:
    produce(topic, [b"now"])
    following = Following(cluster, subscribe=topic, startingOffsets="earliest").begin()
    following.reader.prepareForTriggerAvailableNow()
    produce(topic, [b"later"])
    assert (following.next(), following.next()) == ([b"now"], [])


def test_added_partitions_are_read_from_their_beginning(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    following = Following(cluster, subscribe=topic).begin()
    following.next()
    admin.create_partitions({topic: 3})
    produce(topic, [b"new"], partition=2)
    assert following.next() == [b"new"]


def test_a_topic_that_comes_later_is_read_by_a_pattern(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    following = Following(cluster, subscribePattern=f"{topic}.*").begin()
    following.next()
    admin.create_topics([NewTopic(f"{topic}-later", 1)])
    produce(f"{topic}-later", [b"new"])
    assert following.next() == [b"new"]


def test_the_newest_offset_is_reported(cluster: Cluster, topic: str, produce: Produce) -> None:
    produce(topic, [b"%d" % number for number in range(5)])
    limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    following = Following(cluster, subscribe=topic, **limit).begin()
    following.next()
    newest = following.reader.reportLatestOffset()
    assert newest is not None
    assert newest[topic] == {"0": 5, "1": 0}


def test_few_records_are_read_on_the_driver_for_low_latency(
    cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2"])
    reader = PenstockSimpleReader(
        options_of(
            cluster, streaming=True, subscribe=topic, startingOffsets="earliest", lowLatency="true"
        )
    )
    start = reader.initialOffset()
    rows, end = reader.read(start)
    assert values_of(rows) == [b"1", b"2"]
    assert values_of(reader.readBetweenOffsets(start, end)) == [b"1", b"2"]


def test_a_batch_on_the_driver_has_a_limit_of_its_own(
    cluster: Cluster, topic: str, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.source.low_latency.RECORDS_MAX", 3)
    produce(topic, [b"%d" % number for number in range(5)])
    given = {"startingOffsets": "earliest", "lowLatency": "true"}
    reader = PenstockSimpleReader(options_of(cluster, streaming=True, subscribe=topic, **given))
    rows, _ = reader.read(reader.initialOffset())
    assert values_of(rows) == [b"0", b"1", b"2"]


# -- what is gone


def drop(admin: Admin, topic: str, before: int) -> None:
    place = TopicPartition(topic, 0)
    answer = admin.delete_records({place: before})[place]
    assert answer == before, answer


def test_a_stream_that_was_overtaken_by_retention_stops(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2", b"3"])
    following = Following(cluster, subscribe=topic, startingOffsets="earliest").begin()
    drop(admin, topic, 2)
    with pytest.raises(DataLoss, match="retention"):
        following.next()


def test_a_stream_that_was_overtaken_goes_on_if_losses_may_be(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2", b"3"])
    lenient = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    following = Following(cluster, subscribe=topic, **lenient).begin()
    drop(admin, topic, 2)
    assert following.next() == [b"3"]


def test_a_batch_whose_start_is_gone_is_refused_when_it_is_planned(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2", b"3"])
    drop(admin, topic, 2)
    with pytest.raises(DataLoss, match="begins at 2"):
        Reading(cluster, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 0, "1": -2}}}}')


def replace_topic(admin: Admin, topic: str) -> None:
    assert admin.delete_topics([topic])[topic] is None
    made = admin.create_topics([NewTopic(topic, 2)])[topic]
    assert not isinstance(made, Exception), made


def test_a_topic_made_anew_stops_the_stream(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    produce(topic, [b"old"])
    following = Following(cluster, subscribe=topic, startingOffsets="earliest").begin()
    following.next()
    replace_topic(admin, topic)
    produce(topic, [b"new", b"newer"])
    with pytest.raises(DataLoss, match="created again"):
        following.next()


def test_a_topic_made_anew_is_read_whole_if_losses_may_be(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    produce(topic, [b"old"])
    lenient = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    following = Following(cluster, subscribe=topic, **lenient).begin()
    following.next()
    replace_topic(admin, topic)
    produce(topic, [b"new", b"newer"])
    assert following.next() == [b"new", b"newer"]


def test_a_deleted_topic_stops_the_stream(
    cluster: Cluster, admin: Admin, topic: str, produce: Produce
) -> None:
    produce(topic, [b"old"])
    following = Following(cluster, subscribe=topic, startingOffsets="earliest").begin()
    admin.delete_topics([topic])
    with pytest.raises(DataLoss, match="deleted"):
        following.next()


def test_a_topic_that_is_left_out_of_a_subscription_was_not_deleted(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    admin.create_topics([NewTopic(f"{topic}-more", 1)])
    both = Following(cluster, subscribe=f"{topic},{topic}-more", startingOffsets="earliest").begin()
    both.next()
    one = Following(cluster, subscribe=topic)
    one.position = both.position
    with pytest.raises(DataLoss, match=f"{topic}-more-0 .*does not subscribe to them any more"):
        one.next()
