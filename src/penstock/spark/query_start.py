"""`start()`: starts a streaming query, and again if Spark's time limit was too short.

Spark starts a Python process for every source of a query and waits 10 seconds for it, a limit that
no setting changes. On a busy machine that may not suffice. The query has done nothing by then, so
another start is safe.
"""

import logging
import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.options.option_bag import BadOption
from penstock.spark.output_modes import WRITE_BATCH, rejected_mode_of_writer

ATTEMPTS_MAX = 5
START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
TOO_BUSY = "failed to connect back"
# Spark's status of a query before its sources have answered.
INITIALIZING = ("Initializing", "Getting offsets")

logger = logging.getLogger("penstock.spark")

Begin = Callable[[], StreamingQuery]
Wait = Callable[[str], None]


def start(writer: DataStreamWriter, *, attempts_max: int = ATTEMPTS_MAX) -> StreamingQuery:
    """Start the query of `df.writeStream...`, in place of its own `start()`.

    Return it once its sources answer. If Spark ended the query because a Python process of a source
    took longer than 10 seconds, start it again, with a warning. Raise BadOption for an output mode
    that a topic does not take.
    """
    # A started query that is stopped at once leaves a trace of PySpark on the terminal.
    if rejected_mode_of_writer(writer) is not None:
        raise BadOption(WRITE_BATCH)
    return begin(writer.start, attempts_max=attempts_max)


def begin(
    start_once: Begin,
    *,
    name: str = "the query",
    attempts_max: int = ATTEMPTS_MAX,
    waiting: Wait | None = None,
) -> StreamingQuery:
    """Start a query up to `attempts_max` times. `waiting` gets Spark's status again and again."""
    for attempt in range(1, attempts_max + 1):
        query = start_once()
        _await_sources(query, waiting)
        problem = query.exception()
        if problem is None or TOO_BUSY not in str(problem) or attempt == attempts_max:
            break
        logger.warning(
            "%s: this machine was too busy to start a Python process in the 10 seconds that Spark "
            "gives it; starting the query again (%d of %d)",
            *(name, attempt + 1, attempts_max),
        )
    return query


def _await_sources(query: StreamingQuery, waiting: Wait | None) -> None:
    """Wait until the query has called its sources, or has ended."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while query.isActive and time.monotonic() < deadline:
        message = query.status["message"]
        if query.lastProgress or not message.startswith(INITIALIZING):
            return
        if waiting is not None:
            waiting(message)
        try:
            query.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]  # parts of seconds
        except Exception:  # the caller asks for the exception afterwards
            return
