"""The Python clients beside bare confluent-kafka, aiokafka and kafka-python, over one node.

Each measurement is a fresh process (`python -m bench.clients KIND BOOTSTRAP TOPIC SECONDS`), which
sends records of 100 bytes without a key for that time, waits until the last one is delivered, and
prints what it did per second. Both sides run librdkafka with the same settings: the Producer's own
(acks=all, idempotent). Bare loops call `produce()` and `produce_batch()` as their documentation
does, and poll once in a thousand records.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bench.row import Context, Sample

VALUE = b"x" * 100
WARMUP_RECORDS = 20_000
BATCH_RECORDS = 10_000
BATCHES_AT_ONCE = 8
WINDOW_RECORDS = 50_000  # deliveries that a sender leaves open
TURN_RECORDS = 1_000  # between two looks at the clock
PARTITIONS = 10
EXTRA_SECONDS_MAX = 120
OURS = "penstock"


class Load(NamedTuple):
    """What one process is to do."""

    bootstrap: str
    topic: str
    seconds: float


class Done(NamedTuple):
    """Records delivered, and the time and CPU time that took."""

    records: int
    seconds: float
    cpu_seconds: float


class Watch:
    """Says when to stop, and what was done since it began."""

    def __init__(self, seconds: float) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._until = self._began + seconds

    @property
    def running(self) -> bool:
        return time.perf_counter() < self._until

    def done(self, records: int) -> Done:
        return Done(records, time.perf_counter() - self._began, time.process_time() - self._cpu)


# -- ours


def asynchronous(send: Callable[[Any, str, Watch], Any], **settings: Any) -> Callable[[Load], Done]:
    """A load on the asyncio Producer."""

    async def work(load: Load) -> Done:
        from penstock import Producer

        given = {key.replace("_", "."): value for key, value in settings.items()}
        async with Producer(given, bootstrap=load.bootstrap) as producer:
            for _ in range(WARMUP_RECORDS):
                await producer.post(load.topic, VALUE)
            await producer.flush()
            watch = Watch(load.seconds)
            return watch.done(await send(producer, load.topic, watch))

    return lambda load: asyncio.run(work(load))


async def send_batches(producer: Any, topic: str, watch: Watch) -> int:
    """A few at a time, so that nobody waits for the network only."""
    sent = 0
    window: deque[asyncio.Task[Any]] = deque()
    while watch.running:
        batch = producer.send_batch(topic, [VALUE] * BATCH_RECORDS)
        window.append(asyncio.create_task(batch))
        if len(window) >= BATCHES_AT_ONCE:
            sent += (await window.popleft()).count
    for task in window:
        sent += (await task).count
    return sent


async def send_and_await(producer: Any, topic: str, watch: Watch) -> int:
    """Every result is awaited, fifty thousand records later."""
    send, sent = producer.send, 0
    window: deque[list[Any]] = deque()
    while watch.running or window:
        if watch.running:
            window.append([send(topic, VALUE) for _ in range(TURN_RECORDS)])
            sent += TURN_RECORDS
        if len(window) > WINDOW_RECORDS // TURN_RECORDS or not watch.running:
            for delivery in window.popleft():
                await delivery
    return sent


async def post_and_flush(producer: Any, topic: str, watch: Watch) -> int:
    post, sent = producer.post, 0
    while watch.running:
        for _ in range(TURN_RECORDS):
            await post(topic, VALUE)
        sent += TURN_RECORDS
    await producer.flush()
    return sent


def blocking(load: Load) -> Done:
    """penstock.sync, with a result for every record."""
    from penstock.sync import Producer

    with Producer(bootstrap=load.bootstrap) as producer:
        for _ in range(WARMUP_RECORDS):
            producer.post(load.topic, VALUE)
        producer.flush()
        watch, sent = Watch(load.seconds), 0
        window: deque[Any] = deque()
        while watch.running:
            for _ in range(TURN_RECORDS):
                window.append(producer.send(load.topic, VALUE))
            sent += TURN_RECORDS
            while len(window) > WINDOW_RECORDS:
                window.popleft().result()
        for delivery in window:
            delivery.result()
        return watch.done(sent)


# -- bare confluent-kafka


class Failures:
    """What a careful user's callback does: counts what failed."""

    def __init__(self) -> None:
        self.count = 0

    def report(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.count += 1


def bare(send: Callable[[Any, str, Watch], int], **settings: Any) -> Callable[[Load], Done]:
    """A load on librdkafka's own producer, with the settings that ours gives it."""

    def work(load: Load) -> Done:
        from confluent_kafka import Producer

        from penstock.client.settings import producer_settings

        given = {key.replace("_", "."): value for key, value in settings.items()}
        wanted = producer_settings(given, bootstrap=load.bootstrap).rdkafka
        producer = Producer(dict(wanted))
        for _ in range(WARMUP_RECORDS):
            producer.produce(load.topic, VALUE)
        producer.flush()
        watch = Watch(load.seconds)
        sent = send(producer, load.topic, watch)
        producer.flush()
        return watch.done(sent)

    return work


def produce(producer: Any, topic: str, watch: Watch) -> int:
    """produce() with a callback."""
    function, poll, callback, sent = producer.produce, producer.poll, Failures().report, 0
    while watch.running:
        for _ in range(TURN_RECORDS):
            while True:
                try:
                    function(topic, VALUE, callback=callback)
                except BufferError:
                    poll(0.01)
                else:
                    break
        sent += TURN_RECORDS
        poll(0)
    return sent


def produce_blindly(producer: Any, topic: str, watch: Watch) -> int:
    """produce() without one: nobody learns whether a record arrived."""
    function, poll, sent = producer.produce, producer.poll, 0
    while watch.running:
        for _ in range(TURN_RECORDS):
            while True:
                try:
                    function(topic, VALUE)
                except BufferError:
                    poll(0.01)
                else:
                    break
        sent += TURN_RECORDS
        poll(0)
    return sent


def produce_batches(producer: Any, topic: str, watch: Watch) -> int:
    """produce_batch() of ten thousand, each batch with its callback."""
    sent = 0
    while watch.running:
        callback = Failures().report
        left = [{"value": value} for value in [VALUE] * BATCH_RECORDS]
        while producer.produce_batch(topic, left, callback=callback) < len(left):
            left = [each for each in left if each.pop("_error", None) is not None]
            producer.poll(0.01)
        sent += BATCH_RECORDS
        producer.poll(0)
    return sent


# -- others


def with_aiokafka(load: Load) -> Done:
    """send() with a result for every record, idempotent as ours."""

    async def work() -> Done:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=load.bootstrap, acks="all", enable_idempotence=True, linger_ms=5
        )
        await producer.start()
        try:
            for _ in range(WARMUP_RECORDS // 10):
                await producer.send(load.topic, VALUE)
            await producer.flush()
            watch, sent = Watch(load.seconds), 0
            window: deque[Any] = deque()
            while watch.running:
                for _ in range(TURN_RECORDS):
                    window.append(await producer.send(load.topic, VALUE))
                sent += TURN_RECORDS
                while len(window) > WINDOW_RECORDS:
                    await window.popleft()
            for delivery in window:
                await delivery
            return watch.done(sent)
        finally:
            await producer.stop()

    return asyncio.run(work())


def with_kafka_python(load: Load) -> Done:
    """send() with a result for every record."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=load.bootstrap, acks="all", linger_ms=5)
    try:
        for _ in range(WARMUP_RECORDS // 10):
            producer.send(load.topic, VALUE)
        producer.flush()
        watch, sent = Watch(load.seconds), 0
        window: deque[Any] = deque()
        while watch.running:
            for _ in range(TURN_RECORDS):
                window.append(producer.send(load.topic, VALUE))
            sent += TURN_RECORDS
            while len(window) > WINDOW_RECORDS:
                window.popleft().get(EXTRA_SECONDS_MAX)
        for delivery in window:
            delivery.get(EXTRA_SECONDS_MAX)
        return watch.done(sent)
    finally:
        producer.close()


_QUIET = {"delivery_report_only_error": True}
KINDS: dict[str, Callable[[Load], Done]] = {
    "batch": asynchronous(send_batches),
    "send": asynchronous(send_and_await),
    "post": asynchronous(post_and_flush),
    "post-quiet": asynchronous(post_and_flush, **_QUIET),
    "sync-send": blocking,
    "bare-batch": bare(produce_batches),
    "bare": bare(produce),
    "bare-quiet": bare(produce, **_QUIET),
    "bare-blind": bare(produce_blindly),
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
}


def pair(ours: str, theirs: str) -> "Callable[[Context], Sample]":
    """A row: one kind on our side, another on the other one."""

    def measure(context: "Context") -> "Sample":
        from bench import topics
        from bench.row import Sample

        kind = ours if context.side == OURS else theirs
        name = context.topic_name()
        topics.create(context.server.bootstrap, name, PARTITIONS)
        try:
            done = run(kind, Load(context.server.bootstrap, name, context.seconds))
        finally:
            topics.delete(context.server.bootstrap, name)
        cpu = done.cpu_seconds / done.records * 1e6
        return Sample(done.records / done.seconds, None, {"client_cpu_s_per_million": cpu})

    return measure


def run(kind: str, load: Load, module: str = __name__) -> Done:
    """In a process of its own."""
    from bench.programs import LoadFailed

    ran = subprocess.run(
        [sys.executable, "-m", module, kind, *map(str, load)],
        capture_output=True,
        text=True,
        timeout=load.seconds + EXTRA_SECONDS_MAX,
        check=False,
    )
    if ran.returncode:
        raise LoadFailed(f"{kind}: {ran.stderr.strip().splitlines()[-1:]}")
    return Done(*json.loads(ran.stdout.splitlines()[-1]))


def tell(kinds: Mapping[str, Callable[[Load], Done]], arguments: list[str]) -> None:
    """What such a process does."""
    kind, bootstrap, topic, seconds = arguments
    print(json.dumps(kinds[kind](Load(bootstrap, topic, float(seconds)))))


if __name__ == "__main__":
    tell(KINDS, sys.argv[1:])
