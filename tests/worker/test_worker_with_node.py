"""A worker inside a test's process, against a node."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from worker_process import WITHOUT_ID

from penstock import Consumer, Producer, Record
from penstock.retry import read_trail
from penstock.testing.external_cluster import ClusterLike
from penstock.worker import Worker
from penstock.worker.function_call import NotCallable

TEST_SECONDS_MAX = 30.0


@dataclass
class Order:
    number: int
    customer: str


def run(work: Any) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(TEST_SECONDS_MAX):
            return await work

    return asyncio.run(within())


def fresh(cluster: ClusterLike, partitions: int = 1) -> str:
    return cluster.create_topic(f"worker-{uuid4().hex[:8]}", partitions, {})


def worker_for(cluster: ClusterLike, **more: Any) -> Worker:
    return Worker(group=f"g-{uuid4().hex[:8]}", bootstrap=cluster.bootstrap, **more)


@asynccontextmanager
async def running(app: Worker) -> AsyncIterator[None]:
    task, body = asyncio.create_task(app.run()), asyncio.current_task()
    assert body is not None
    task.add_done_callback(lambda done: done.cancelled() or (done.exception() and body.cancel()))
    try:
        yield
    except BaseException:
        if task.done():
            body.uncancel()
            await task
        task.cancel()
        await asyncio.wait([task])
        raise
    app.stop()
    await task


async def send(cluster: ClusterLike, topic: str, *pairs: tuple[Any, Any], **more: Any) -> None:
    async with Producer[Any, Any](WITHOUT_ID, bootstrap=cluster.bootstrap, value=Order) as producer:
        for key, value in pairs:
            await producer.send(topic, value, key, **more)


async def arrive(cluster: ClusterLike, topic: str, count: int) -> list[Record[bytes, bytes]]:
    found = []
    settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    reader = Consumer(settings, bootstrap=cluster.bootstrap, group=uuid4().hex, topics=[topic])
    async with reader:
        async for record in reader:
            found.append(record)
            if len(found) == count:
                break
    return found


def test_functions_get_values_and_records_in_the_loop_and_in_threads(
    penstock_cluster: ClusterLike,
) -> None:
    topics = [fresh(penstock_cluster) for _ in range(3)]

    async def story() -> None:
        app = worker_for(penstock_cluster)
        got: list[object] = []
        done = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()

        @app.on(topics[0], key=str, value=Order)
        async def both(order: Order, record: Record[str, Order]) -> None:
            got.append((order.number, record.key))
            done.release()

        @app.on(topics[1], value=Order)
        def in_a_thread(order: Order) -> None:
            assert threading.current_thread() is not threading.main_thread()
            got.append(order)
            loop.call_soon_threadsafe(done.release)

        @app.on(topics[2], value=Order)
        async def whole(record: Record[bytes, Order]) -> None:
            got.append(record.topic)
            done.release()

        for topic in topics:
            await send(penstock_cluster, topic, ("k", Order(7, "ann")))
        async with running(app):
            for _ in topics:
                await done.acquire()
        assert sorted(got, key=str) == sorted([(7, "k"), Order(7, "ann"), topics[2]], key=str)

    run(story())


@pytest.mark.parametrize("in_thread", [True, False], ids=["thread", "coroutine"])
def test_a_function_that_raises_stop_iteration_holds_up_nobody(
    penstock_cluster: ClusterLike, in_thread: bool
) -> None:
    topic = fresh(penstock_cluster)

    async def story() -> None:
        app = worker_for(penstock_cluster)

        def first_of_nothing(order: Order) -> object:
            return next(iter(())) if order.number == 1 else None

        async def first_of_nothing_async(order: Order) -> object:
            return first_of_nothing(order)

        function = first_of_nothing if in_thread else first_of_nothing_async
        app.on(topic, value=Order, retries=())(function)
        await send(penstock_cluster, topic, *[("k", Order(n, "ann")) for n in range(3)])
        async with running(app):
            while app.figures is None:
                await asyncio.to_thread(int)  # until its task has begun
            retrying = app.figures.retrying
            counts = retrying.counts[topic]
            await retrying.until(lambda: (counts.succeeded, counts.dead) == (2, 1))
            (letter,) = await arrive(penstock_cluster, f"{topic}.{app.group}.dead", 1)
        assert "StopIteration" in read_trail(letter.headers).cause

    run(story())


def test_keys_keep_their_order_while_others_are_handled_in_parallel(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh(penstock_cluster, 2)

    async def story() -> None:
        app = worker_for(penstock_cluster)
        at_work: set[str] = set()
        most, handled = 0, list[tuple[str, int]]()
        together = asyncio.Barrier(4)
        done = asyncio.Event()

        @app.on(topic, key=str, value=Order, concurrency=16)
        async def handle(order: Order) -> None:
            nonlocal most
            assert order.customer not in at_work, "two of one key at once"
            at_work.add(order.customer)
            most = max(most, len(at_work))
            if order.number == 0:
                await together.wait()  # four keys have to be under way at once
            await asyncio.to_thread(int)
            at_work.discard(order.customer)
            handled.append((order.customer, order.number))
            if len(handled) == 40:
                done.set()

        customers = ["a", "b", "c", "e"]  # in different lanes of sixteen
        await send(
            penstock_cluster, topic, *[(c, Order(n, c)) for n in range(10) for c in customers]
        )
        async with running(app):
            await done.wait()
        assert most >= 4
        for customer in customers:
            assert [n for c, n in handled if c == customer] == list(range(10))

    run(story())


def test_results_go_to_the_output_and_failures_to_a_retry(penstock_cluster: ClusterLike) -> None:
    topic, out = fresh(penstock_cluster), fresh(penstock_cluster)

    async def story() -> None:
        app = worker_for(penstock_cluster)
        attempts: list[int] = []

        @app.on(topic, value=Order, retries=("10ms",), output=out, output_value="json")
        async def total(order: Order) -> dict[str, int]:
            attempts.append(order.number)
            if len(attempts) == 1:
                raise ConnectionError("the shop is closed")
            return {"total": order.number * 2}

        await send(penstock_cluster, topic, ("k", Order(21, "ann")))
        async with running(app):
            (written,) = await arrive(penstock_cluster, out, 1)
            assert app.figures is not None
            assert app.figures.retrying.counts[topic].retried == 1
        assert (written.key, written.value) == (b"k", b'{"total":42}')
        assert attempts == [21, 21]

    run(story())


def test_the_producer_of_a_worker_sends_while_it_runs(penstock_cluster: ClusterLike) -> None:
    topic, out = fresh(penstock_cluster), fresh(penstock_cluster)

    async def story() -> None:
        app = worker_for(penstock_cluster)

        @app.on(topic, value=Order)
        async def notify(order: Order) -> None:
            await app.producer.send(out, f"order {order.number}")

        with pytest.raises(RuntimeError, match="while the worker runs"):
            _ = app.producer
        await send(penstock_cluster, topic, (None, Order(1, "ann")))
        async with running(app):
            (written,) = await arrive(penstock_cluster, out, 1)
        assert written.value == b"order 1"

    run(story())


def test_a_trace_goes_through_a_handler_and_on_to_what_it_sends(
    penstock_cluster: ClusterLike,
) -> None:
    topic, sent, out = (fresh(penstock_cluster) for _ in range(3))
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)

    async def story() -> None:
        app = worker_for(penstock_cluster)

        @app.on(topic, value=Order, output=out, output_value=str)
        async def handle(order: Order) -> str:
            await app.producer.send(sent, b"by hand")
            return f"result {order.number}"

        parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
        await send(penstock_cluster, topic, (None, Order(1, "x")), headers={"traceparent": parent})
        async with running(app):
            (by_hand,) = await arrive(penstock_cluster, sent, 1)
            (result,) = await arrive(penstock_cluster, out, 1)
        for record in (by_hand, result):
            said = (record.header("traceparent") or b"").decode()
            assert said.split("-")[1] == "ab" * 16
            assert said.split("-")[2] != "cd" * 8

    run(story())
    (span,) = [each for each in spans.get_finished_spans() if each.name == f"process {topic}"]
    assert span.parent is not None and f"{span.parent.span_id:x}" == "cd" * 8
    assert span.attributes is not None and span.attributes["penstock.attempt"] == 1


def test_what_cannot_be_a_handler_is_refused_when_it_is_decorated() -> None:
    app = Worker(group="g")

    def handler(one: object, two: object, three: object) -> None: ...

    with pytest.raises(NotCallable, match="3 parameters"):
        app.on("t")(handler)
    app.on("t")(lambda value: value)
    with pytest.raises(ValueError, match="has a handler already"):
        app.on("t")(lambda value: value)


def test_a_stop_before_the_run_has_begun_counts(penstock_cluster: ClusterLike) -> None:
    topic = fresh(penstock_cluster)
    app = worker_for(penstock_cluster)

    @app.on(topic)
    async def handle(_: Record[bytes, bytes]) -> None: ...

    async def story() -> None:
        task = asyncio.create_task(app.run())
        app.stop()
        await asyncio.wait_for(task, 30)

    asyncio.run(story())
