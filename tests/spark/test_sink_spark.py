"""The exactly-once sink in Spark itself."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf
from spark_pipeline import SECONDS_MAX, Pipeline, texts

from penstock.spark.foreach import write_batch
from penstock.spark.options.option_bag import BadOption
from penstock.spark.query_start import start

pytest_plugins = ["spark_fixtures"]
pytestmark = pytest.mark.xdist_group("spark")

Produce = Callable[..., None]


def test_every_row_arrives_once_over_several_lives(pipeline: Pipeline, produce: Produce) -> None:
    for life in range(3):
        produce(pipeline.source, texts(*range(life * 10, life * 10 + 10)), partition=life % 2)
        pipeline.run()
    assert pipeline.output() == list(range(30))


def test_a_batch_that_spark_repeats_is_not_written_twice(
    pipeline: Pipeline, produce: Produce
) -> None:
    produce(pipeline.source, texts(1, 2, 3))
    pipeline.run()
    pipeline.forget_last_commit()
    produce(pipeline.source, texts(4))
    pipeline.run()
    assert pipeline.output() == [1, 2, 3, 4]


@pytest.mark.deep
def test_the_same_at_least_once_is_written_twice(pipeline: Pipeline, produce: Produce) -> None:
    guarantee = {"delivery.guarantee": "at-least-once"}
    produce(pipeline.source, texts(1, 2, 3))
    pipeline.run(**guarantee)
    pipeline.forget_last_commit()
    pipeline.run(**guarantee)
    assert pipeline.output() == [1, 1, 2, 2, 3, 3]


@pytest.mark.deep
def test_a_restored_checkpoint_stops_the_query(
    pipeline: Pipeline, produce: Produce, tmp_path: Path
) -> None:
    produce(pipeline.source, texts(1))
    pipeline.run()
    shutil.copytree(pipeline.checkpoint, tmp_path / "older")
    produce(pipeline.source, texts(2))
    pipeline.run()
    produce(pipeline.source, texts(3))
    shutil.rmtree(pipeline.checkpoint)
    shutil.move(tmp_path / "older", pipeline.checkpoint)
    with pytest.raises(StreamingQueryException, match="the checkpoint went back in time"):
        pipeline.run()
    assert pipeline.output() == [1, 2]


def test_a_deleted_checkpoint_stops_the_query_unless_it_is_allowed(
    pipeline: Pipeline, produce: Produce
) -> None:
    produce(pipeline.source, texts(1))
    pipeline.run()
    shutil.rmtree(pipeline.checkpoint)
    with pytest.raises(StreamingQueryException, match=r"new\.checkpoint=allow"):
        pipeline.run()
    assert pipeline.output() == [1]
    shutil.rmtree(pipeline.checkpoint)
    pipeline.run(**{"new.checkpoint": "allow"})
    assert pipeline.output() == [1, 1]


def test_without_a_name_for_the_sink_the_query_does_not_start(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = (
            pipeline.stream()
            .writeStream.format("penstock")
            .options(**pipeline.options)
            .trigger(availableNow=True)
            .start()
        )
        with pytest.raises(PySparkException, match=r"set the option sink\.id"):
            query.awaitTermination(SECONDS_MAX)
    finally:
        pipeline.spark.conf.unset("spark.sql.streaming.checkpointLocation")


# ---- output modes


def test_the_start_of_a_query_in_update_mode_warns_with_the_alternative(pipeline: Pipeline) -> None:
    with pytest.warns(UserWarning, match=r"query .* output mode update: .*write_batch"):
        pipeline.writer().outputMode("update").start().stop()


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_our_start_rejects_other_modes_and_begins_no_query(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    writer = pipeline.writer().outputMode(mode)
    monkeypatch.setattr(writer, "start", lambda: pytest.fail("a query was started"))
    with pytest.raises(BadOption, match="write_batch"):
        start(writer)


def test_our_start_leaves_the_modes_of_other_sinks_alone(pipeline: Pipeline) -> None:
    console = pipeline.writer().format("noop").outputMode("update")
    assert start(console).awaitTermination(SECONDS_MAX)


def test_our_start_takes_append_mode(pipeline: Pipeline, produce: Produce) -> None:
    produce(pipeline.source, texts(1))
    assert start(pipeline.writer().outputMode("append")).awaitTermination(SECONDS_MAX)
    assert pipeline.output() == [1]


# ---- batch jobs


def job_rows(pipeline: Pipeline, count: int) -> DataFrame:
    return pipeline.spark.range(0, count, 1, 2).selectExpr("CAST(id AS STRING) AS value")


def test_a_job_writes_everything(pipeline: Pipeline) -> None:
    rows = job_rows(pipeline, 1000)
    rows.write.format("penstock").options(**pipeline.options).mode("append").save()
    assert pipeline.output() == list(range(1000))


def test_a_job_that_fails_writes_nothing(pipeline: Pipeline) -> None:
    fail = udf(lambda value: value if value != "999" else 1 / 0, "string")
    rows = job_rows(pipeline, 1000).select(fail("value").alias("value"))
    writer = rows.write.format("penstock").options(**pipeline.options).mode("append")
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        writer.save()
    assert pipeline.output() == []


# ---- foreachBatch


def test_two_writes_in_one_batch_are_each_written_once(
    pipeline: Pipeline, produce: Produce
) -> None:
    produce(pipeline.source, texts(1, 2))

    def both(rows: DataFrame, batch_id: int) -> None:
        for name in ("one", "two"):
            sink_id = f"{pipeline.target}-{name}"
            write_batch(rows, batch_id, sink_id=sink_id, options=pipeline.options)

    def run() -> None:
        query = (
            pipeline.stream()
            .select("value")
            .writeStream.foreachBatch(both)
            .option("checkpointLocation", str(pipeline.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS_MAX)

    run()
    assert pipeline.output() == [1, 1, 2, 2]
    pipeline.forget_last_commit()
    run()
    assert pipeline.output() == [1, 1, 2, 2]


def test_a_write_in_a_batch_without_a_name_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ValueError, match="needs a sink_id"):
        write_batch(job_rows(pipeline, 1), 0, options=pipeline.options)
    with pytest.raises(ValueError, match="foreachBatch"):
        write_batch(job_rows(pipeline, 1), 0, sink_id="x", options=pipeline.options)
