"""The same few verbs over confluent-kafka, kafka-python and aiokafka, for tests that take each."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from penstock.testing.cluster import Cluster

T = TypeVar("T")

WAIT_SECONDS_MAX = 30.0
RECORDS_BETWEEN = 20
MESSAGE_BYTES_MAX = 50 << 20  # what clients refuse by themselves: more than any broker here
MakeTopic = Callable[..., str]
Headers = tuple[tuple[str, bytes | None], ...]


class Refused(Exception):
    """The client's error, by the code that the broker sent."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


@dataclass(frozen=True)
class Sent:
    """A record to produce; without a timestamp the client takes its own clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None


@dataclass(frozen=True)
class Got:
    """A record as it was consumed; `appended` where the broker set its time."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    appended: bool


@dataclass(frozen=True)
class How:
    """How to produce."""

    codec: str = "none"
    idempotent: bool = False
    partition: int = 0
    between: Callable[[], None] = lambda: None  # called after every few records
    settings: Mapping[str, Any] = field(default_factory=dict)


class Client(Protocol):
    """One of the libraries, over one cluster."""

    name: str

    def produce(self, topic: str, records: Sequence[Sent], how: How = ...) -> list[int]:
        """Produce in order, wait for all; their offsets."""
        ...

    def consume(
        self, topic: str, count: int, *, offset: int = 0, partition: int = 0, **settings: Any
    ) -> list[Got]:
        """`count` records from an offset on."""
        ...

    def revisit(self, topic: str, offsets: Sequence[int]) -> list[Got]:
        """The record at each of these offsets, by seeking with one consumer."""
        ...

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]: ...

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None: ...


class Confluent:
    """confluent-kafka, which is librdkafka."""

    name = "confluent"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def produce(self, topic: str, records: Sequence[Sent], how: How | None = None) -> list[int]:
        from confluent_kafka import KafkaException, Producer

        how = how or How()
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "compression.type": how.codec,
                "enable.idempotence": how.idempotent,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "linger.ms": 5,
                **how.settings,
            }
        )
        told: list[Any] = []
        for place, each in enumerate(records, 1):
            producer.produce(
                topic,
                value=each.value,
                key=each.key,
                partition=how.partition,
                headers=list(each.headers),
                on_delivery=lambda error, message: told.append((error, message.offset())),
                timestamp=each.timestamp or 0,  # 0 is its own clock
            )
            if place % RECORDS_BETWEEN == 0:
                how.between()
        try:
            producer.flush(WAIT_SECONDS_MAX)
        except KafkaException as failure:
            raise Refused(failure.args[0].code()) from failure
        for error, _ in told:
            if error is not None:
                raise Refused(error.code())
        return [offset for _, offset in told]

    def _consumer(self, **settings: Any) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **settings,
            }
        )

    def consume(
        self, topic: str, count: int, *, offset: int = 0, partition: int = 0, **settings: Any
    ) -> list[Got]:
        from confluent_kafka import TopicPartition

        with closing(self._consumer(**settings)) as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])
            return [self._next(consumer) for _ in range(count)]

    def _next(self, consumer: Any) -> Got:
        message = consumer.poll(WAIT_SECONDS_MAX)
        assert message is not None, "no record came"
        if message.error() is not None:
            raise Refused(message.error().code())
        kind, timestamp = message.timestamp()
        headers = tuple(message.headers() or ())
        return Got(message.offset(), message.key(), message.value(), headers, timestamp, kind == 2)

    def revisit(self, topic: str, offsets: Sequence[int]) -> list[Got]:
        from confluent_kafka import TopicPartition

        found = []
        with closing(self._consumer()) as consumer:
            consumer.assign([TopicPartition(topic, 0, offsets[0])])
            found.append(self._next(consumer))
            for offset in offsets[1:]:
                consumer.seek(TopicPartition(topic, 0, offset))
                found.append(self._next(consumer))
        return found

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        with closing(self._consumer()) as consumer:
            place = TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS_MAX)
        return low, high

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        from confluent_kafka import TopicPartition

        with closing(self._consumer()) as consumer:
            place = TopicPartition(topic, partition, timestamp)
            [found] = consumer.offsets_for_times([place], timeout=WAIT_SECONDS_MAX)
        return None if found.offset < 0 else int(found.offset)


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def produce(self, topic: str, records: Sequence[Sent], how: How | None = None) -> list[int]:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        how = how or How()
        producer = KafkaProducer(
            bootstrap_servers=self._cluster.bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.idempotent,
            max_request_size=MESSAGE_BYTES_MAX,
            linger_ms=5,
            **how.settings,
        )
        with closing(producer):
            futures = []
            for place, each in enumerate(records, 1):
                futures.append(
                    producer.send(
                        topic,
                        value=each.value,
                        key=each.key,
                        partition=how.partition,
                        headers=list(each.headers),
                        timestamp_ms=each.timestamp,
                    )
                )
                if place % RECORDS_BETWEEN == 0:
                    how.between()
            try:
                return [int(each.get(WAIT_SECONDS_MAX).offset) for each in futures]
            except KafkaError as failure:
                raise Refused(failure.errno) from failure

    def _consumer(self, **settings: Any) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(
            bootstrap_servers=self._cluster.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **settings,
        )

    def consume(
        self, topic: str, count: int, *, offset: int = 0, partition: int = 0, **settings: Any
    ) -> list[Got]:
        from kafka import TopicPartition

        with closing(self._consumer(**settings)) as consumer:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            return self._take(consumer, count)

    def _take(self, consumer: Any, count: int) -> list[Got]:
        from kafka.errors import KafkaError

        try:
            return [self._got(next(consumer)) for _ in range(count)]
        except KafkaError as failure:
            raise Refused(failure.errno) from failure

    def _got(self, record: Any) -> Got:
        return Got(
            record.offset,
            record.key,
            record.value,
            tuple(record.headers),
            record.timestamp,
            record.timestamp_type == 1,
        )

    def revisit(self, topic: str, offsets: Sequence[int]) -> list[Got]:
        from kafka import TopicPartition

        found = []
        with closing(self._consumer()) as consumer:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            for offset in offsets:
                consumer.seek(place, offset)
                found += self._take(consumer, 1)
        return found

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        from kafka import TopicPartition

        with closing(self._consumer()) as consumer:
            place = TopicPartition(topic, partition)
            return (
                consumer.beginning_offsets([place])[place],
                consumer.end_offsets([place])[place],
            )

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        from kafka import TopicPartition

        with closing(self._consumer()) as consumer:
            place = TopicPartition(topic, partition)
            found = consumer.offsets_for_times({place: timestamp})[place]
        return None if found is None else int(found.offset)


class AioKafka:
    """aiokafka; each verb runs in a loop of its own."""

    name = "aiokafka"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, WAIT_SECONDS_MAX)

        return asyncio.run(bounded())

    def produce(self, topic: str, records: Sequence[Sent], how: How | None = None) -> list[int]:
        return self._run(self._produce(topic, records, how or How()))

    async def _produce(self, topic: str, records: Sequence[Sent], how: How) -> list[int]:
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        producer = AIOKafkaProducer(
            bootstrap_servers=self._cluster.bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.idempotent,
            max_request_size=MESSAGE_BYTES_MAX,
            linger_ms=5,
            **how.settings,
        )
        await producer.start()
        try:
            futures = []
            for place, each in enumerate(records, 1):
                futures.append(
                    await producer.send(
                        topic,
                        value=each.value,
                        key=each.key,
                        partition=how.partition,
                        headers=list(each.headers),
                        timestamp_ms=each.timestamp,
                    )
                )
                if place % RECORDS_BETWEEN == 0:
                    how.between()
                    await futures[-1]  # its sender runs on this very loop
            return [int((await each).offset) for each in futures]
        except KafkaError as failure:
            raise Refused(getattr(failure, "errno", -1)) from failure
        finally:
            await producer.stop()

    async def _open(self, **settings: Any) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._cluster.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **settings,
        )
        await consumer.start()
        return consumer

    def consume(
        self, topic: str, count: int, *, offset: int = 0, partition: int = 0, **settings: Any
    ) -> list[Got]:
        return self._run(self._consume(topic, [(offset, count)], partition, settings))

    async def _consume(
        self,
        topic: str,
        places: Sequence[tuple[int, int]],
        partition: int,
        settings: Mapping[str, Any],
    ) -> list[Got]:
        from aiokafka import TopicPartition
        from aiokafka.errors import KafkaError

        consumer = await self._open(**settings)
        found = []
        try:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            for offset, count in places:
                consumer.seek(place, offset)
                for _ in range(count):
                    record = await consumer.getone()
                    found.append(self._got(record))
        except KafkaError as failure:
            raise Refused(getattr(failure, "errno", -1)) from failure
        finally:
            await consumer.stop()
        return found

    def _got(self, record: Any) -> Got:
        return Got(
            record.offset,
            record.key,
            record.value,
            tuple(record.headers),
            record.timestamp,
            record.timestamp_type == 1,
        )

    def revisit(self, topic: str, offsets: Sequence[int]) -> list[Got]:
        places = [(offset, 1) for offset in offsets]
        return self._run(self._consume(topic, places, 0, {}))

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        async def ask() -> tuple[int, int]:
            from aiokafka import TopicPartition

            consumer = await self._open()
            try:
                place = TopicPartition(topic, partition)
                low = await consumer.beginning_offsets([place])
                high = await consumer.end_offsets([place])
                return low[place], high[place]
            finally:
                await consumer.stop()

        return self._run(ask())

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        async def ask() -> int | None:
            from aiokafka import TopicPartition

            consumer = await self._open()
            try:
                place = TopicPartition(topic, partition)
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
                return None if found is None else int(found.offset)
            finally:
                await consumer.stop()

        return self._run(ask())


CLIENTS: tuple[type[Confluent] | type[KafkaPython] | type[AioKafka], ...] = (
    Confluent,
    KafkaPython,
    AioKafka,
)
