"""A worker: functions by topic, and their life.

    app = Worker(group="billing")

    @app.on("orders", value=Order, retries=("5s", "1m"), concurrency=8)
    async def bill(order: Order, record: Record) -> None: ...

`penstock worker shop.billing:app` runs it; `await app.run()` does so inside another program.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any, TypeVar

from penstock.client.producer import Producer
from penstock.client.records import Record
from penstock.client.serde import DeserializerLike, SerializerLike
from penstock.client.settings import SettingValue
from penstock.client.settings.table import Client
from penstock.observe.times import Times
from penstock.retry import DEFAULT_LADDER, Guard, Ladder, Retrying
from penstock.retry.clock import Clock
from penstock.retry.retrying import IN_FLIGHT_MAX, STOP_SECONDS
from penstock.retry.route import Handler, WithHeaders
from penstock.retry.settings import split
from penstock.worker.calling import Function, arguments_of, calling
from penstock.worker.metrics import Figures
from penstock.worker.tracing import ContextInHeaders, context_headers, handling

log = logging.getLogger("penstock.worker")

THREAD_NAME = "penstock-worker"

F = TypeVar("F", bound=Function)


@dataclass(frozen=True, slots=True)
class Handling:
    """What was said about one topic; the names are those of Worker.on."""

    topic: str
    function: Function
    key: DeserializerLike[Any] | None
    value: DeserializerLike[Any] | None
    ladder: Ladder
    ordered: bool
    concurrency: int
    guard: Guard | None
    output: str | None
    output_key: SerializerLike[Any] | None
    output_value: SerializerLike[Any] | None


class Worker:
    """Settings are Kafka's own names, for all clients or with `consumer.`, `producer.` before."""

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        group: str,
        bootstrap: str | None = None,
        namespace: str | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
        stop_timeout_s: float = STOP_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.group = group
        self.settings: dict[str, SettingValue] = dict(settings or {})
        self.bootstrap = bootstrap
        self.namespace = namespace
        self.stop_timeout_s = stop_timeout_s
        self.handlings: dict[str, Handling] = {}
        self._in_flight_max = in_flight_max
        self._clock = clock
        self._producer: Producer[Any, Any] | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._figures: Figures | None = None
        self._stop_asked = False

    def on(
        self,
        topic: str,
        *,
        key: DeserializerLike[Any] | None = None,
        value: DeserializerLike[Any] | None = None,
        retries: Ladder | Sequence[str | float | timedelta] = DEFAULT_LADDER,
        ordered: bool = False,
        concurrency: int = 1,
        guard: Guard | None = None,
        output: str | None = None,
        output_key: SerializerLike[Any] | None = None,
        output_value: SerializerLike[Any] | None = None,
    ) -> Callable[[F], F]:
        """Handle the records of a topic with the function below; it stays as it is.

        It gets (value), (value, record) or (record: Record). What it raises makes the attempt a
        failed one; what it returns goes to `output`, in the transaction that commits its record.
        """
        ladder = retries if isinstance(retries, Ladder) else Ladder.of(retries)

        def decorate(function: F) -> F:
            if topic in self.handlings:
                raise ValueError(f"{topic} has a handler already; a topic has one in a group")
            arguments_of(function)
            self.handlings[topic] = Handling(
                topic,
                function,
                key,
                value,
                ladder,
                ordered,
                concurrency,
                guard,
                output,
                output_key,
                output_value,
            )
            return function

        return decorate

    @property
    def producer(self) -> Producer[Any, Any]:
        """For records that handlers send themselves: at least once. Its context is in them."""
        if self._producer is None:
            raise RuntimeError("the producer is there while the worker runs")
        return self._producer

    @property
    def figures(self) -> Figures | None:
        """What is counted, while it runs."""
        return self._figures

    # -- life

    def run(self) -> Coroutine[Any, Any, None]:
        """Until stop(), or until something fails that will not pass. To be awaited; a stop() counts
        from this call on, whenever the run begins."""
        self._stop_asked = False
        return self._run()

    async def _run(self) -> None:
        retrying = Retrying(
            self.settings,
            group=self.group,
            bootstrap=self.bootstrap,
            namespace=self.namespace,
            in_flight_max=self._in_flight_max,
            stop_timeout_s=self.stop_timeout_s,
            clock=self._clock,
        )
        figures = Figures(retrying)
        for each in self.handlings.values():
            figures.times[each.topic] = Times()
            retrying.add(
                each.topic,
                self._handler(each, figures.times[each.topic]),
                key=each.key,
                value=each.value,
                ladder=each.ladder,
                ordered=each.ordered,
                concurrency=each.concurrency,
                guard=each.guard,
                output=each.output,
                output_key=each.output_key,
                output_value=each.output_value,
            )
        namespace = self.settings.get("namespace") if self.namespace is None else self.namespace
        producer: Producer[Any, Any] = Producer(
            split(self.settings, self.bootstrap)[Client.PRODUCER],
            interceptors=[ContextInHeaders()],
            namespace=None if namespace is None else str(namespace),
        )
        self._figures = figures
        if self._stop_asked:
            retrying.stop()
        try:
            async with producer:
                self._producer = producer
                await retrying.run()
        finally:
            self._producer = self._figures = None
            if self._executor is not None:
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = None

    def stop(self) -> None:
        """What was begun ends within `stop_timeout_s`, is committed, and run() returns."""
        self._stop_asked = True
        if self._figures is not None:
            self._figures.retrying.stop()

    # -- inside

    def _threads(self) -> Executor:
        if self._executor is None:
            # As many as may be asked for at once: nobody waits for a thread while his time runs.
            count = sum(each.concurrency for each in self.handlings.values())
            self._executor = ThreadPoolExecutor(count, THREAD_NAME)
        return self._executor

    def _handler(self, said: Handling, times: Times) -> Handler:
        call = calling(said.function, self._threads)
        group, has_output = self.group, said.output is not None

        async def handle(record: Record[Any, Any]) -> object:
            begun = perf_counter()
            with handling(record, group):
                try:
                    result = await call(record)
                finally:
                    times.note((perf_counter() - begun) * 1000)
                return WithHeaders(result, context_headers()) if has_output else None

        return handle


async def run_until(worker: Worker, stop: asyncio.Event) -> None:
    """As run(), with an event that ends it."""
    task = asyncio.create_task(worker.run())
    waiting = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            worker.stop()
        await task
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.wait([task, waiting])
