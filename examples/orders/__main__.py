"""`python -m examples.orders`: the whole pipeline on one machine, watched, ended and checked."""

import argparse
import math
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.orders.checking import check
from examples.orders.feed import Feed, create_topics
from examples.orders.node import running_node
from examples.orders.pipeline import ARCHIVE, REVENUE, Place, start_archive, start_revenue
from examples.orders.view import WaitLine, view_for
from examples.orders.watch import Watch
from penstock.spark.query_start import TOO_BUSY, begin
from penstock.spark.session import session

SECONDS = 25
ORDERS_PER_SECOND = 400
LOOK_EVERY_SECONDS = 0.5
# From the first order to the first batch, and from the last order to the last result.
BEGIN_SECONDS_MAX = 180
DRAIN_SECONDS_MAX = 180

DONE, WRONG, INTERRUPTED = 0, 1, 130


class Interrupted(Exception):
    """Somebody wants the demo to end."""


class PipelineFailed(Exception):
    """It did not come to its end; the text says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    with _folder(given.keep) as folder, _Interrupt() as interrupt:
        try:
            return _run(given, folder, interrupt)
        except Interrupted:
            print("stopped", file=sys.stderr)
            return INTERRUPTED
        except PipelineFailed as failed:
            print(f"failed: {failed}", file=sys.stderr)
            return WRONG


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.orders", description=__doc__)
    parser.add_argument("--seconds", type=_positive, default=SECONDS, help="of orders")
    parser.add_argument("--rate", type=_positive, default=ORDERS_PER_SECOND, help="per second")
    parser.add_argument("--seed", type=int, default=1, help="another one is another day")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="write here, and leave it there")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise SystemExit(f"{keep} is not empty: an earlier run may be in it")
        yield keep.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


class _Interrupt:
    """Ctrl-C and SIGTERM: noticed at the next look, never in the middle of a talk with Java."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __enter__(self) -> "_Interrupt":
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)

    def listen(self) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._take)

    def check(self, seconds: float = 0.0) -> None:
        """Raises Interrupted, if it is wanted within that time."""
        if self._asked.wait(seconds):
            raise Interrupted

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if not self._asked.is_set():
            print("stopping", file=sys.stderr)
        self._asked.set()


def _run(given: argparse.Namespace, folder: Path, interrupt: _Interrupt) -> int:
    with running_node(folder) as bootstrap:
        print(f"a node runs on {bootstrap}, with its data in {folder}")
        place = Place(bootstrap, folder, trigger={"processingTime": "1 second"})
        create_topics(place)
        feed = Feed(place, seed=given.seed, orders_per_second=given.rate, seconds=given.seconds)
        feed.write_customers()
        print("Spark starts, which takes some seconds", flush=True)
        with _spark(interrupt) as spark:
            queries: list[StreamingQuery] = []
            try:
                for name, start in ((REVENUE, start_revenue), (ARCHIVE, start_archive)):
                    queries.append(_started(name, partial(start, spark, place), interrupt))
                _watch(place, feed, queries, interrupt)
            except Interrupted:
                # What is broken off now would be told as failures.
                spark.sparkContext.setLogLevel("OFF")
                raise
            finally:
                feed.stop()
                for query in queries:
                    query.stop()
            return DONE if check(spark, place, feed.arrived, feed.customers) else WRONG


@contextmanager
def _spark(interrupt: _Interrupt) -> Iterator[SparkSession]:
    spark = session("orders", conf={"spark.sql.streaming.stopTimeout": "20s"})
    try:
        interrupt.listen()  # Spark has set a handler of its own, which cancels what runs
        interrupt.check()
        yield spark
    finally:
        spark.stop()


def _started(
    name: str, start: Callable[[], StreamingQuery], interrupt: _Interrupt
) -> StreamingQuery:
    """Start a query, and say what it waits for; again where the machine was too busy for it."""
    wait = WaitLine(sys.stdout, f"the query {name} starts")

    def waiting(message: str) -> None:
        wait.show(message)
        interrupt.check()

    wait.show("planning the query")
    try:
        query = begin(start, name=f"the query {name}", waiting=waiting)
    finally:
        wait.end()
    if TOO_BUSY in str(query.exception()):
        raise PipelineFailed("Spark could not start Python in time: the machine is too busy")
    return query


def _watch(
    place: Place, feed: Feed, queries: Sequence[StreamingQuery], interrupt: _Interrupt
) -> None:
    """Until all orders are written and counted."""
    watch, view = Watch(place, queries), view_for(sys.stdout)
    drain = _Drain(queries)
    feed.start()
    stage = _Stage("the first batch is waited for", BEGIN_SECONDS_MAX)
    began = time.monotonic()
    try:
        while True:
            phase = stage.name if feed.goes_on else f"{stage.name}: {_doing(queries[0])}"
            seen = watch.look(phase, time.monotonic() - began, len(feed.arrived))
            view.show(seen)
            _require_alive(feed, drain, queries)
            if drain.ended and seen.caught_up:
                return
            if feed.ended and drain.ident is None:
                stage = _Stage("the last windows come out", DRAIN_SECONDS_MAX)
                drain.start()
            elif seen.began and not feed.goes_on:
                stage = _Stage("orders are written")
                feed.go_on()
            stage.require_time()
            interrupt.check(LOOK_EVERY_SECONDS)
    finally:
        view.end()
        watch.close()


def _doing(query: StreamingQuery) -> str:
    """Return what Spark says that the query does."""
    message: str = query.status["message"]
    return message[:1].lower() + message[1:]


class _Stage:
    """A part of the run, and how long it may take."""

    def __init__(self, name: str, seconds_max: float = math.inf) -> None:
        self.name = name
        self._seconds_max = seconds_max
        self._until = time.monotonic() + seconds_max

    def require_time(self) -> None:
        if time.monotonic() > self._until:
            raise PipelineFailed(f"{self.name}: not done after {self._seconds_max:.0f} s")


class _Drain(threading.Thread):
    """Waits for the queries, one after the other: the second reads what the first writes."""

    def __init__(self, queries: Sequence[StreamingQuery]) -> None:
        super().__init__(name="drain", daemon=True)
        self._queries = queries
        self.failure: Exception | None = None

    @property
    def ended(self) -> bool:
        return self.ident is not None and not self.is_alive()

    def run(self) -> None:
        try:
            for query in self._queries:
                query.processAllAvailable()
        except Exception as failure:
            self.failure = failure


def _require_alive(feed: Feed, drain: _Drain, queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        if not query.isActive:
            raise PipelineFailed(f"the query {query.name} has ended: {query.exception()}")
    for failure in (feed.failure, drain.failure):
        if failure is not None:
            raise PipelineFailed(str(failure)) from failure


if __name__ == "__main__":
    raise SystemExit(main())
