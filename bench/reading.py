"""The Consumer beside bare confluent-kafka, aiokafka and kafka-python: a topic read from its start.

Each measurement is a fresh process (`python -m bench.reading KIND BOOTSTRAP TOPIC SECONDS`) with a
group of its own. It counts from the first record on, looks at every value, and ends with the topic
or after that time. Both sides run librdkafka with the same settings, those that the Consumer gives
it. Bare loops commit as librdkafka does by itself, what was handed out; ours commits what a loop's
body has ended with.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.clients import BATCH_RECORDS, OURS, PARTITIONS, VALUE, Done, Load, Watch, run, tell

if TYPE_CHECKING:
    from bench.row import Context, Sample

RECORDS = 5_000_000
RECORDS_QUICK = 200_000
BATCH_READ_RECORDS = 1_000
WAIT_S = 0.5
SETTINGS = {"auto.offset.reset": "earliest"}


class Count:
    """What was read since the first record came, which is not counted."""

    def __init__(self, load: Load) -> None:
        self._watch: Watch | None = None
        self._seconds = load.seconds
        self._wanted = int(load.topic.rsplit("-", 1)[1])
        self._first = self.records = self.value_bytes = 0

    def took(self, records: int) -> bool:
        """Whether to go on."""
        self.records += records
        if self._watch is None:
            if records:
                self._watch, self._first = Watch(self._seconds), records
            return True
        return self.records < self._wanted and self._watch.running

    def done(self) -> Done:
        assert self._watch is not None, "something was read"
        assert self.value_bytes == self.records * len(VALUE), "every value was looked at"
        return self._watch.done(self.records - self._first)


def fill(load: Load) -> Done:
    """Not measured: the records that are read."""
    from confluent_kafka import Producer

    wanted, watch = int(load.topic.rsplit("-", 1)[1]), Watch(load.seconds)
    producer = Producer(
        {
            "bootstrap.servers": load.bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    left = wanted
    while left:
        batch = [{"value": VALUE}] * min(left, BATCH_RECORDS)
        left -= producer.produce_batch(load.topic, batch)
        producer.poll(0)
    producer.flush()
    return watch.done(wanted)


def ours(read: Callable[[Any, Count], Any]) -> Callable[[Load], Done]:
    """A load on the asyncio Consumer."""

    async def work(load: Load) -> Done:
        from penstock import Consumer

        count = Count(load)
        async with Consumer(
            SETTINGS, bootstrap=load.bootstrap, group=load.topic, topics=[load.topic]
        ) as consumer:
            await read(consumer, count)
            return count.done()

    return lambda load: asyncio.run(work(load))


async def read_batches(consumer: Any, count: Count) -> None:
    async for batch in consumer.batches(max=BATCH_READ_RECORDS, timeout_s=WAIT_S):
        for record in batch:
            count.value_bytes += len(record.value)
        if not count.took(len(batch)):
            return


async def read_values(consumer: Any, count: Count) -> None:
    async for batch in consumer.batches(max=BATCH_READ_RECORDS, timeout_s=WAIT_S):
        values = batch.values()
        count.value_bytes += sum(map(len, values))
        if not count.took(len(values)):
            return


async def read_each(consumer: Any, count: Count) -> None:
    async for record in consumer:
        count.value_bytes += len(record.value)
        if not count.took(1):
            return


def settings_of_ours(load: Load) -> dict[str, Any]:
    """What our Consumer would tell librdkafka; asked of another process, so that a bare one has
    loaded nothing of ours."""
    program = (
        "import json, sys; from penstock.client.settings import consumer_settings; "
        "print(json.dumps(dict(consumer_settings(json.loads(sys.argv[1])).rdkafka)))"
    )
    given = {**SETTINGS, "group.id": load.topic, "bootstrap.servers": load.bootstrap}
    command = [sys.executable, "-c", program, json.dumps(given)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def bare(read: Callable[[Any, Count], None]) -> Callable[[Load], Done]:
    """A load on librdkafka's own consumer, with the settings that ours gives it."""

    def work(load: Load) -> Done:
        from confluent_kafka import Consumer

        consumer = Consumer({**settings_of_ours(load), "enable.auto.offset.store": True})
        consumer.subscribe([load.topic])
        count = Count(load)
        try:
            read(consumer, count)
            return count.done()
        finally:
            consumer.close()

    return work


def consume(consumer: Any, count: Count) -> None:
    while True:
        batch = consumer.consume(BATCH_READ_RECORDS, WAIT_S)
        for message in batch:
            count.value_bytes += len(message.value())
        if not count.took(len(batch)):
            return


def poll(consumer: Any, count: Count) -> None:
    while True:
        message = consumer.poll(WAIT_S)
        if message is None or message.error() is not None:
            continue
        count.value_bytes += len(message.value())
        if not count.took(1):
            return


def with_aiokafka(load: Load) -> Done:
    """Batches, as its documentation has them for speed."""

    async def work() -> Done:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            load.topic,
            bootstrap_servers=load.bootstrap,
            group_id=load.topic,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        count = Count(load)
        try:
            going_on = True
            while going_on:
                got = await consumer.getmany(
                    timeout_ms=int(WAIT_S * 1_000), max_records=BATCH_READ_RECORDS
                )
                for records in got.values():
                    for record in records:
                        count.value_bytes += len(record.value)
                going_on = count.took(sum(map(len, got.values())))
            return count.done()
        finally:
            await consumer.stop()

    return asyncio.run(work())


def with_kafka_python(load: Load) -> Done:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        load.topic,
        bootstrap_servers=load.bootstrap,
        group_id=load.topic,
        auto_offset_reset="earliest",
    )
    count = Count(load)
    try:
        going_on = True
        while going_on:
            got = consumer.poll(timeout_ms=int(WAIT_S * 1_000), max_records=BATCH_READ_RECORDS)
            for records in got.values():
                for record in records:
                    count.value_bytes += len(record.value)
            going_on = count.took(sum(map(len, got.values())))
        return count.done()
    finally:
        consumer.close()


KINDS: dict[str, Callable[[Load], Done]] = {
    "fill": fill,
    "batches": ours(read_batches),
    "values": ours(read_values),
    "each": ours(read_each),
    "consume": bare(consume),
    "poll": bare(poll),
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
}


def pair(our_kind: str, their_kind: str) -> "Callable[[Context], Sample]":
    """A row: one kind on our side, another on the other one."""

    def measure(context: "Context") -> "Sample":
        from bench import topics
        from bench.row import Sample

        kind = our_kind if context.side == OURS else their_kind
        name = f"{context.topic_name()}-{RECORDS_QUICK if context.quick else RECORDS}"
        load = Load(context.server.bootstrap, name, context.seconds)
        topics.create(load.bootstrap, name, PARTITIONS)
        try:
            run("fill", load, __name__)
            done = run(kind, load, __name__)
        finally:
            topics.delete(load.bootstrap, name)
        cpu = done.cpu_seconds / done.records * 1e6
        return Sample(done.records / done.seconds, None, {"client_cpu_s_per_million": cpu})

    return measure


if __name__ == "__main__":
    tell(KINDS, sys.argv[1:])
