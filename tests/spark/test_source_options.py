"""Options of a read: those of Spark's Kafka source, refused where they are wrong."""

import logging

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from penstock.model import TopicPartition
from penstock.spark.datasource import PenstockSource
from penstock.spark.options.bounds import (
    EARLIEST,
    LATEST,
    AssignedTopicPartitions,
    Edge,
    PartitionOffsets,
    Timestamp,
    Timestamps,
    TopicPattern,
    Topics,
)
from penstock.spark.options.option_bag import BadOption
from penstock.spark.options.source import COLUMNS, SourceOptions, read_source_options

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def stream(**options: str) -> SourceOptions:
    return read_source_options({**BASE, **options}, streaming=True)


def batch(**options: str) -> SourceOptions:
    return read_source_options({**BASE, **options}, streaming=False)


def other(**options: str) -> SourceOptions:
    """Of another subscription than by name."""
    return read_source_options(
        {"kafka.bootstrap.servers": "127.0.0.1:9092", **options}, streaming=True
    )


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    assert stream().start == Edge(LATEST)


def test_a_batch_begins_at_the_beginning_and_ends_at_the_end() -> None:
    assert (batch().start, batch().end) == (Edge(EARLIEST), Edge(LATEST))


def test_topics_are_listed_with_commas() -> None:
    assert stream(subscribe=" a, b,a ").subscription == Topics(("a", "b"))


def test_a_pattern_may_stand_for_topics() -> None:
    assert other(subscribePattern="orders-.*").subscription == TopicPattern("orders-.*")


def test_partitions_may_be_assigned() -> None:
    expected = AssignedTopicPartitions((TopicPartition("a", 0), TopicPartition("a", 2)))
    assert other(assign='{"a": [0, 2]}').subscription == expected


def test_the_case_of_names_does_not_matter() -> None:
    assert stream(STARTINGOFFSETS="earliest").start == Edge(EARLIEST)


def test_offsets_are_given_by_partition() -> None:
    start = stream(startingOffsets='{"orders": {"0": 23, "1": -2}}').start
    expected = {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): EARLIEST}
    assert start == PartitionOffsets(expected)


def test_a_timestamp_for_all_comes_before_timestamps_and_offsets() -> None:
    start = stream(
        startingTimestamp="1000",
        startingOffsetsByTimestamp='{"orders": {"0": 5}}',
        startingOffsets="earliest",
    ).start
    assert start == Timestamp(1000)


def test_timestamps_by_partition_come_before_offsets() -> None:
    start = stream(
        startingOffsetsByTimestamp='{"orders": {"0": 5}}', startingOffsets="latest"
    ).start
    assert start == Timestamps({TopicPartition("orders", 0): 5})


def test_headers_are_a_column_on_request() -> None:
    assert stream(includeHeaders="true").columns == (*COLUMNS, "headers")


def test_headers_come_with_chosen_columns_on_request() -> None:
    assert stream(columns="value", includeHeaders="true").columns == ("value", "headers")


def test_columns_says_what_is_decoded() -> None:
    assert stream(columns="value, timestamptype").columns == ("value", "timestampType")


@pytest.mark.parametrize("name", ["isolation.level", "kafka.isolation.level"])
def test_only_committed_records_are_read_on_request(name: str) -> None:
    assert stream(**{name: "read_committed"}).committed_only


def test_client_keys_are_passed_on_without_their_prefix() -> None:
    assert stream(**{"kafka.security.protocol": "SSL"}).properties["security.protocol"] == "SSL"


def test_times_have_units() -> None:
    assert stream(maxTriggerDelay="2h").limits.delay_ms_max == 7_200_000


WRONG = [
    ({"startingOffsets": "first"}, "startingOffsets"),
    ({"startingOffsets": '{"orders": {"zero": 1}}'}, "startingOffsets"),
    ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets"),
    ({"startingOffsets": "[1]"}, "startingOffsets"),
    ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
    ({"maxOffsetsPerTrigger": "many"}, "whole number"),
    ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "above"),
    ({"failOnDataLoss": "maybe"}, "true or false"),
    ({"columns": "value,colour"}, "columns"),
    ({"columns": " "}, "columns"),
    ({"maxTriggerDelay": "soon"}, "15m"),
    ({"subscribePattern": "x"}, "one of"),
    ({"subscribe": " , "}, "subscribe"),
    ({"endingOffsets": "latest"}, "batch"),
    ({"isolation.levl": "read_committed"}, "no option isolation.levl; is isolation.level meant"),
    ({"column": "value"}, "is columns meant"),
    ({"kafka.isolation.levle": "x"}, "is kafka.isolation.level meant"),
    ({"kafka.partitioner.ignore.keys": "true"}, "partition column"),
    ({"isolation.level": "serializable"}, "read_committed"),
    ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers"),
    ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
    ({"kafka.enable.auto.commit": "true"}, "group.id"),
    ({"kafka.key.deserializer": "x"}, "bytes"),
    ({"kafka.interceptor.classes": "x"}, "Java classes"),
    ({"kafka.max.partition.fetch.bytes": "0"}, "max.partition.fetch.bytes"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "error, latest"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_a_wrong_option_is_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        stream(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
    ],
)
def test_a_batch_read_refuses_bounds_between_which_nothing_is(
    options: dict[str, str], words: str
) -> None:
    with pytest.raises(BadOption, match=words):
        batch(**options)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1}', '{"a": ["x"]}', '{"a": [-1]}', "{}", '{"a": [true]}']
)
def test_a_wrong_assignment_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="assign"):
        other(assign=text)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(BadOption, match="subscribePattern"):
        other(subscribePattern="(")


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> pytest.LogCaptureFixture:
    """What is said while options are read, by a process that has said nothing yet."""
    monkeypatch.setattr("penstock.spark.options.option_bag._said", set())
    caplog.set_level(logging.WARNING, logger="penstock.spark")
    return caplog


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffset": "earliest"}, "is startingOffsets meant"),
        ({"spark.made.this.up": "1"}, "the source takes subscribe"),
        ({"kafka.fetch.max.bites": "1"}, "is kafka.fetch.max.bytes meant"),
        ({"kafka.some.plugin": "1"}, "kafka.some.plugin is not known here"),
    ],
)
def test_what_nobody_reads_is_passed_over_with_one_warning(
    options: dict[str, str], words: str, said: pytest.LogCaptureFixture
) -> None:
    assert stream(**options) is not None and stream(**options) is not None
    assert [words in each for each in said.messages] == [True]


@pytest.mark.parametrize(
    "name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "lowLatency"]
)
def test_a_batch_read_passes_over_what_paces_a_stream(
    name: str, said: pytest.LogCaptureFixture
) -> None:
    value = {"maxTriggerDelay": "5m", "lowLatency": "true"}.get(name, "5")
    assert not batch(**{name: value}).low_latency
    assert said.messages == [f"the option {name} has no effect in a batch read"]


def test_what_spark_itself_hands_on_is_not_spoken_of(said: pytest.LogCaptureFixture) -> None:
    assert stream(path="x") is not None
    assert said.messages == []


def test_an_address_without_its_prefix_is_only_told_the_right_name(
    said: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(BadOption, match=r'say option\("kafka\.bootstrap\.servers", "host:9"\)'):
        read_source_options({"bootstrap.servers": "host:9", "subscribe": "t"}, streaming=True)
    assert said.messages == []


def test_a_schema_of_the_jobs_own_is_refused_where_a_read_is_planned() -> None:
    source = PenstockSource(BASE)
    with pytest.raises(BadOption, match=r"leave \.schema"):
        source.reader(StructType([StructField("amount", LongType())]))
    assert source.reader(source.schema()) is not None
