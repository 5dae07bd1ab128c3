"""Options of a write: those of Spark's Kafka sink, and what makes it exactly once."""

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from penstock.spark.datasource import PenstockSource
from penstock.spark.options.option_bag import BadOption
from penstock.spark.options.sink import DeliveryGuarantee, SinkOptions, read_sink_options
from penstock.spark.sink.decision_end import OnLost
from penstock.spark.sink.decisions import BatchName


def options(**given: str) -> SinkOptions:
    return read_sink_options({"kafka.bootstrap.servers": "127.0.0.1:9092", **given})


def test_rows_are_written_exactly_once_unless_told_otherwise() -> None:
    assert options().delivery is DeliveryGuarantee.EXACTLY_ONCE


def test_at_least_once_can_be_chosen() -> None:
    assert (
        options(**{"delivery.guarantee": "at-least-once"}).delivery
        is DeliveryGuarantee.AT_LEAST_ONCE
    )


def test_a_topic_may_come_with_the_rows() -> None:
    assert options().topic is None


def test_the_sink_has_options_of_its_own() -> None:
    given = options(
        **{"sink.id": "bills", "sink.tasks": "3", "new.checkpoint": "allow", "on.lost": "skip"}
    )
    assert (given.sink_id, given.tasks_max) == ("bills", 3)
    assert given.new_checkpoint_allowed
    assert given.on_lost is OnLost.SKIP


def test_a_new_checkpoint_is_not_taken_for_granted() -> None:
    assert not options().new_checkpoint_allowed


def test_compression_and_its_level_are_kafkas_keys() -> None:
    given = options(**{"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "9"})
    assert (given.compression, given.compression_level) == ("zstd", 9)


def test_a_level_of_another_codec_is_not_used() -> None:
    given = options(**{"kafka.compression.type": "lz4", "kafka.compression.zstd.level": "9"})
    assert given.compression_level is None


def test_a_batch_of_a_foreach_batch_has_its_name() -> None:
    given = options(**{"penstock.batch.query": "q", "penstock.batch.id": "7"})
    assert given.batch == BatchName("q", 7)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delivery.guarantee": "twice"}, "exactly-once, at-least-once"),
        ({"sink.tasks": "0"}, "at least 1"),
        ({"on.lost": "cry"}, "stop, rewrite, skip"),
        ({"new.checkpoint": "yes"}, "allow, stop"),
        ({"kafka.acks": "1"}, "kafka.acks must be all"),
        ({"kafka.compression.type": "rar"}, "zstd"),
        ({"kafka.compression.type": "gzip", "kafka.compression.gzip.level": "11"}, "1 to 9"),
        ({"kafka.transactional.id": "mine"}, "sink.id"),
        ({"kafka.batch.size": "big"}, "whole number"),
        ({"sink.ids": "x"}, "no option sink.ids; is sink.id meant"),
        ({"delivery.garantee": "at-least-once"}, "is delivery.guarantee meant"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers"),
    ],
)
def test_a_wrong_option_is_refused_by_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        options(**given)


def test_an_address_without_its_prefix_is_told_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(BadOption, match=r'say option\("kafka\.bootstrap\.servers", "sink:9"\)'):
        read_sink_options({"bootstrap.servers": "sink:9"})
    assert caplog.messages == []


def test_fewer_acknowledgements_go_with_at_least_once() -> None:
    given = options(**{"delivery.guarantee": "at-least-once", "kafka.acks": "1"})
    assert given.acks == 1


def test_a_checkpoint_is_the_same_place_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert options(checkpointLocation="out/").checkpoint_location == str(tmp_path / "out")


@pytest.mark.parametrize("address", ["s3a://bucket/out", "file:/data/out", "hdfs://host/out"])
def test_an_address_of_a_checkpoint_stays_as_it_is(address: str) -> None:
    assert options(checkpointLocation=address).checkpoint_location == address


def test_an_option_that_the_sink_does_not_know_is_passed_over() -> None:
    assert options(topik="x").topic is None


def test_output_mode_complete_is_told_what_to_use_instead() -> None:
    sink = PenstockSource({"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "t"})
    with pytest.raises(BadOption, match=r"penstock\.spark\.write_batch"):
        sink.streamWriter(StructType(), overwrite=True)
