"""Progress as text and as metrics, why a query stopped, and what a state directory remembers."""

import io
from pathlib import Path

import pytest

from penstock.streams import Streams, StreamsError, registry
from penstock.streams.errors import reason_of
from penstock.streams.progress import QueryProgress, Terminal, _lag, lines, metrics_text

RUNNING = QueryProgress("totals", True, 7, 1234.5, 10, "2026-01-01T00:00:00.000Z", 3, 2048, 500)


def test_a_query_is_a_line() -> None:
    assert lines([RUNNING, QueryProgress("new", False)]) == [
        "QUERY        BATCH  ROWS/S  LAG  WATERMARK            STATE",
        "totals       7      1,234   10   2026-01-01T00:00:00  3 rows, 2 KB",
        "new (ended)  -      -       -    -                    -",
    ]


def test_metrics_have_a_value_where_spark_has_said_one() -> None:
    text = metrics_text("shop", [RUNNING, QueryProgress("new", True)])
    assert 'penstock_streams_rows_per_second{application="shop",query="totals"} 1234.5' in text
    assert (
        'penstock_streams_watermark_seconds{application="shop",query="totals"} 1767225600' in text
    )
    assert 'lag_records{application="shop",query="new"}' not in text


def test_lag_is_what_the_sources_have_not_given_yet() -> None:
    latest = '{"orders": {"0": 10, "1": 5, "id": "x"}}'
    end = {"orders": {"0": 7, "1": 5}}
    assert _lag([{"latestOffset": latest, "endOffset": end}, {"latestOffset": None}]) == 3


def test_a_table_is_written_when_something_has_changed() -> None:
    out = io.StringIO()
    show = Terminal(out)
    show([RUNNING])
    show([RUNNING])
    assert out.getvalue().count("totals") == 1


def test_the_innermost_error_is_the_reason() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was thrown\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "ValueError: no such thing\n SQLSTATE: 39000\n"
        "=== Streaming Query ===\nErrorless: plan"
    )
    assert reason_of(RuntimeError(text)) == "ValueError: no such thing"


def test_an_error_of_any_name_is_the_reason() -> None:
    text = "Traceback\n  raise x\npenstock.spark.sink.refusals.NewCheckpoint: sink 'a' ...\n"
    reason = "penstock.spark.sink.refusals.NewCheckpoint: sink 'a' ..."
    assert reason_of(RuntimeError(f"{text}\n SQLSTATE: 38000")) == reason


def test_an_error_without_a_name_is_told_by_its_first_line() -> None:
    assert reason_of(RuntimeError("\nthe disk is full\nmore")) == "the disk is full"


def test_an_application_runs_once_per_state_directory(tmp_path: Path) -> None:
    lock = registry.Lock(tmp_path)
    assert registry.is_running(tmp_path)
    with pytest.raises(StreamsError, match="running already"):
        registry.Lock(tmp_path)
    lock.release()
    assert not registry.is_running(tmp_path)


def test_a_directory_remembers_its_application(tmp_path: Path) -> None:
    app = Streams("shop", state_dir=tmp_path, properties={"sasl.password": "secret"})
    app.stream("orders").to("copy")
    registry.remember(app.settings, app.plan())
    (known,) = registry.list_known(tmp_path)
    assert (known.reads, known.writes, known.groups) == (["orders"], ["copy"], ["shop"])
    assert "secret" not in (tmp_path / "shop" / "application.json").read_text()


def test_queries_that_read_the_same_topic_have_different_groups(tmp_path: Path) -> None:
    app = Streams("shop", state_dir=tmp_path)
    stream = app.stream("orders")
    stream.to("copy")
    stream.group_by_key().count().to("counts")
    groups = registry.groups_of(app.settings, app.plan())
    assert groups == {"copy": {"orders": "shop"}, "counts": {"orders": "shop:counts"}}
