"""A worker: functions by topic, run and stop.

    app = Worker(group="billing")

    @app.on("orders", value=Order, retries=("5s", "1m"), concurrency=8)
    async def bill(order: Order, record: Record) -> None: ...

`penstock worker shop.billing:app` runs the worker; `await app.run()` does so in another program.
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
from penstock.client.serde.protocols import DeserializerLike, SerializerLike
from penstock.client.settings import SettingValue
from penstock.client.settings.table import Client
from penstock.observe.times import Times
from penstock.retry import DEFAULT_LADDER, Guard, Ladder, Retrying
from penstock.retry.clock import RetryClock
from penstock.retry.retrying import IN_FLIGHT_MAX, STOP_SECONDS
from penstock.retry.route import Handler, WithHeaders
from penstock.retry.settings import split
from penstock.worker.function_call import Function, arguments_of, call_of
from penstock.worker.metrics import Figures
from penstock.worker.tracing import ContextInHeaders, attempt_span, context_headers

log = logging.getLogger("penstock.worker")

THREAD_NAME = "penstock-worker"

F = TypeVar("F", bound=Function)


@dataclass(frozen=True, slots=True)
class Handling:
    """The arguments of Worker.on for one topic."""

    topic: str
    function: Function
    concurrency: int
    has_output: bool
    options: dict[str, Any]  # of Retrying.add


class Worker:
    """Functions that handle the records of topics in one group.

    Settings are Kafka's names, for all clients or with the prefix `consumer.` or `producer.`.
    """

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
        clock: RetryClock | None = None,
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
        """Handle the records of a topic with the decorated function, which is returned unchanged.

        The function takes (value), (value, record) or (record: Record). An exception fails the
        attempt. The result goes to `output`, in the transaction that commits the record.
        """
        ladder = retries if isinstance(retries, Ladder) else Ladder.of(retries)

        def decorate(function: F) -> F:
            if topic in self.handlings:
                raise ValueError(f"{topic} has a handler already; a topic has one in a group")
            arguments_of(function)
            self.handlings[topic] = Handling(
                topic,
                function,
                concurrency,
                output is not None,
                {
                    "key": key,
                    "value": value,
                    "ladder": ladder,
                    "ordered": ordered,
                    "concurrency": concurrency,
                    "guard": guard,
                    "output": output,
                    "output_key": output_key,
                    "output_value": output_value,
                },
            )
            return function

        return decorate

    @property
    def producer(self) -> Producer[Any, Any]:
        """Return a producer for handlers: at least once, with the trace context in headers."""
        if self._producer is None:
            raise RuntimeError("the producer is there while the worker runs")
        return self._producer

    @property
    def figures(self) -> Figures | None:
        """Return the counts while the worker runs; None otherwise."""
        return self._figures

    # -- run and stop

    def run(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that runs until stop() or a permanent failure. A stop() after this
        call counts, also before the coroutine is awaited."""
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
            handler = self._handler(each, figures.times[each.topic])
            retrying.add(each.topic, handler, **each.options)
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
        """End run() after begun records are handled and committed, within `stop_timeout_s`."""
        self._stop_asked = True
        if self._figures is not None:
            self._figures.retrying.stop()

    # -- inside

    def _threads(self) -> Executor:
        if self._executor is None:
            # One thread per concurrent call, so that handler.timeout.ms does not run in a queue.
            count = sum(each.concurrency for each in self.handlings.values())
            self._executor = ThreadPoolExecutor(count, THREAD_NAME)
        return self._executor

    def _handler(self, said: Handling, times: Times) -> Handler:
        call = call_of(said.function, self._threads)
        group, has_output = self.group, said.has_output

        async def handle(record: Record[Any, Any]) -> object:
            begun = perf_counter()
            with attempt_span(record, group):
                try:
                    result = await call(record)
                finally:
                    times.note((perf_counter() - begun) * 1000)
                return WithHeaders(result, context_headers()) if has_output else None

        return handle


async def run_until(worker: Worker, stop: asyncio.Event) -> None:
    """Run the worker until the event is set."""
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
