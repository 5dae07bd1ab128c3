"""The progress of queries: rows per second, lag, watermark, state; for the terminal and as
metrics."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TextIO

from pyspark.sql.streaming.query import StreamingQuery

from penstock.observe.metric import Metric, MetricKind, Sample
from penstock.observe.text import TEXT_TYPE, page

PATH = "/metrics"
EPOCH = "1970-01-01T00:00:00"
METRICS = {
    "rows_per_second": "Rows that the last micro-batch processed per second.",
    "lag_records": "Records in the source topics that are not processed yet.",
    "watermark_seconds": "Event time before which no record is expected, in seconds since 1970.",
    "state_rows": "Rows in the state stores.",
    "state_bytes": "Memory of the state stores.",
    "batch": "Number of the last micro-batch.",
    "batch_seconds": "How long the last micro-batch took.",
}


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One query at one moment; None if Spark has not reported the value."""

    query: str
    active: bool
    batch: int | None = None
    rows_per_second: float | None = None
    lag_records: int | None = None
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    batch_ms: int | None = None


def progress_of(name: str, query: StreamingQuery) -> QueryProgress:
    last = query.lastProgress
    if last is None:
        return QueryProgress(name, query.isActive)
    told: dict[str, Any] = json.loads(last.json)
    operators = told.get("stateOperators", [])
    watermark = told.get("eventTime", {}).get("watermark")
    return QueryProgress(
        query=name,
        active=query.isActive,
        batch=told.get("batchId"),
        rows_per_second=told.get("processedRowsPerSecond"),
        lag_records=_lag(told.get("sources", [])),
        watermark=None if watermark is None or watermark.startswith(EPOCH) else watermark,
        state_rows=sum(each.get("numRowsTotal", 0) for each in operators),
        state_bytes=sum(each.get("memoryUsedBytes", 0) for each in operators),
        batch_ms=told.get("batchDuration"),
    )


def _lag(sources: Sequence[dict[str, Any]]) -> int | None:
    """Return the records that the sources have seen and not given yet; None without a report."""
    lags = [_behind(each.get("latestOffset"), each.get("endOffset")) for each in sources]
    said = [each for each in lags if each is not None]
    return sum(said) if said else None


def _behind(latest: Any, end: Any) -> int | None:
    """Return the lag from offsets by topic and partition, as the source writes them."""
    newest, done = _offsets(latest), _offsets(end)
    if newest is None or done is None:
        return None
    return sum(max(offset - done.get(place, 0), 0) for place, offset in newest.items())


def _offsets(position: Any) -> dict[tuple[str, str], int] | None:
    if isinstance(position, str):
        try:
            position = json.loads(position)
        except ValueError:
            return None
    if not isinstance(position, dict):
        return None
    return {
        (topic, partition): offset
        for topic, partitions in position.items()
        if isinstance(partitions, dict) and not topic.startswith("@")  # ids and lag, no topics
        for partition, offset in partitions.items()
        if isinstance(offset, int) and partition.isdecimal()
    }


def lines(progress: Sequence[QueryProgress]) -> list[str]:
    """Return a table with a line per query."""
    rows = [("QUERY", "BATCH", "ROWS/S", "LAG", "WATERMARK", "STATE")]
    for each in progress:
        state = f"{each.state_rows:,} rows, {_size(each.state_bytes)}" if each.state_rows else "-"
        rows.append(
            (
                each.query if each.active else f"{each.query} (ended)",
                "-" if each.batch is None else str(each.batch),
                "-" if each.rows_per_second is None else f"{each.rows_per_second:,.0f}",
                "-" if each.lag_records is None else f"{each.lag_records:,}",
                (each.watermark or "-").removesuffix(".000Z"),
                state,
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


class Terminal:
    """Draws the table over itself; without a terminal, a table per change."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._drawn = 0
        self._last: list[str] = []

    def __call__(self, progress: Sequence[QueryProgress]) -> None:
        text = lines(progress)
        if text == self._last:
            return
        if self._drawn and self._out.isatty():
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
        self._out.write("\n".join(text) + "\n")
        self._out.flush()
        self._drawn, self._last = len(text), text


def metrics_text(application_id: str, progress: Sequence[QueryProgress]) -> str:
    """Return the metrics in the text format of Prometheus."""
    rows = [
        Metric(
            f"penstock_streams_{name}",
            MetricKind.GAUGE,
            explained,
            partial(_samples, application_id, name),
            ("application", "query"),
        )
        for name, explained in METRICS.items()
    ]
    return page(rows, progress)


def _samples(application_id: str, name: str, progress: Sequence[QueryProgress]) -> Iterator[Sample]:
    for each in progress:
        value = _metric(name, each)
        if value is not None:
            yield (application_id, each.query), value


def _metric(name: str, of: QueryProgress) -> float | int | None:
    match name:
        case "watermark_seconds":
            at = of.watermark
            return None if at is None else datetime.fromisoformat(at).timestamp()
        case "batch_seconds":
            return None if of.batch_ms is None else of.batch_ms / 1000
        case _:
            value: float | int | None = getattr(of, name)
            return value


class StreamsMetricsPort:
    """Serves `text()` at /metrics until it is closed; port 0 takes a free one."""

    def __init__(self, text: Callable[[], str], port: int, host: str = "127.0.0.1") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != PATH:
                    self.send_error(404)
                    return
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", TEXT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing: a scrape is no event."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
