"""An event loop never waits for a schema registry: it goes on while a schema is asked for."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from unittest import mock

import pytest
from consuming import WAIT_SECONDS_MAX, at, consumer_of, fill, fresh_group, moment, read, until
from fake_registry import FakeRegistry, send
from producing import fresh_topic, run, values_of

from penstock import Producer
from penstock import sync as blocking
from penstock.client.failures import (
    BufferExhausted,
    DeserializationError,
    SerializationError,
    TimedOut,
)
from penstock.client.interceptors import Outgoing, ProducerInterceptor
from penstock.client.producer.sending.backlog import WRITES_AT_ONCE, SendBacklog
from penstock.client.producer.sending.encoding import (
    EncodedRecord,
    UnserializedRecord,
    _guessed_bytes,
)
from penstock.client.records import OutRecord
from penstock.client.runtime.schema_wait import with_answers
from penstock.client.serde.schema_ids import frame
from penstock.serde import NotToldYet, RegistryError, SchemaRegistry, avro, json_schema
from penstock.testing.external_cluster import ClusterLike

LONG = '"long"'
SIX = bytes.fromhex("0c")  # 6, as Avro writes it
TURNS = 50


class SlowRegistry(FakeRegistry):
    """Answers when it is let go on: `stopped` says that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()
        self.go_on = threading.Event()

    def _serve(self, request: BaseHTTPRequestHandler, method: str) -> None:
        self.stopped.set()
        assert self.go_on.wait(WAIT_SECONDS_MAX), "nobody lets it go on"
        super()._serve(request, method)

    def close(self) -> None:
        self.go_on.set()
        super().close()


@pytest.fixture
def slow() -> Iterator[SlowRegistry]:
    registry = SlowRegistry()
    yield registry
    registry.close()


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


async def while_it_waits(slow: SlowRegistry, work: Awaitable[Any]) -> Any:
    """The loop has turns while the registry is silent; the work ends when it is not."""
    task = asyncio.ensure_future(work)
    await until(slow.stopped.is_set, "somebody asks the registry")
    for _ in range(TURNS):
        await moment()
    assert not task.done()
    slow.go_on.set()
    return await task


# -- reading


def written(cluster: ClusterLike, registry: FakeRegistry, count: int = 1) -> str:
    """A topic with values under a schema of the registry."""
    topic = fresh_topic(cluster)
    number = registry.add(f"{topic}-value", LONG)
    fill(cluster, topic, [frame(number, SIX)] * count)
    return topic


def test_the_loop_goes_on_while_a_consumer_asks_for_a_schema(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = written(penstock_cluster, slow, 3)

    async def story() -> None:
        async with consumer_of(penstock_cluster, topic, value=avro(registry=slow.url)) as consumer:
            found = await while_it_waits(slow, read(consumer, 3))
            assert [each.value for each in found] == [6, 6, 6]

    run(story())
    assert len(slow.asked) == 1, "what is known is not asked for again"


def test_the_loop_goes_on_while_a_batch_asks_for_its_schemas(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = written(penstock_cluster, slow, 2)
    number = slow.add(f"{topic}-value", {"type": "string"})
    fill(penstock_cluster, topic, [frame(number, bytes.fromhex("06666f6f"))])

    async def first_batch(consumer: Any) -> list[Any]:
        async for batch in consumer.batches(max=3, timeout_s=WAIT_SECONDS_MAX):
            return [record.value for record in batch]
        raise AssertionError("it was closed")

    async def story() -> None:
        async with consumer_of(penstock_cluster, topic, value=avro(registry=slow.url)) as consumer:
            assert await while_it_waits(slow, first_batch(consumer)) == [6, 6, "foo"]

    run(story())
    assert len(slow.asked) == 2


def test_take_does_not_wait_for_the_registry_either(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = written(penstock_cluster, slow)

    async def story() -> None:
        async with consumer_of(penstock_cluster, topic, value=avro(registry=slow.url)) as consumer:
            (record,) = await while_it_waits(slow, consumer.take(1, WAIT_SECONDS_MAX))
            assert record.value == 6

    run(story())


def test_a_registry_that_fails_is_the_error_of_the_record_which_comes_again(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    topic = written(penstock_cluster, fake, 1)
    good = fake.answer_with
    fake.answer_with = lambda request: send(request, 500, b'{"message":"disk full"}')

    async def story() -> None:
        async with consumer_of(penstock_cluster, topic, value=avro(registry=fake.url)) as consumer:
            with pytest.raises(DeserializationError, match="disk full") as told:
                await read(consumer, 1)
            assert (told.value.place, told.value.offset) == (at(topic), 0)
            assert told.value.retriable
            fake.answer_with = good
            (record,) = await read(consumer, 1)
            assert record.value == 6

    run(story())


def test_records_before_the_one_that_cannot_be_read_are_given_first(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    topic = written(penstock_cluster, fake, 2)
    fill(penstock_cluster, topic, [frame(77, SIX)])

    async def story() -> None:
        async with consumer_of(penstock_cluster, topic, value=avro(registry=fake.url)) as consumer:
            records = await consumer.take(3, WAIT_SECONDS_MAX)
            assert [each.value for each in records] == [6, 6]
            with pytest.raises(DeserializationError, match="77") as told:
                await consumer.take(1, WAIT_SECONDS_MAX)
            assert told.value.offset == 2 and not told.value.retriable

    run(story())


def test_a_read_that_is_cancelled_while_it_asks_gives_its_record_back(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = written(penstock_cluster, slow, 1)

    async def story() -> None:
        async with consumer_of(
            penstock_cluster, topic, group=fresh_group(), value=avro(registry=slow.url)
        ) as consumer:
            task = asyncio.ensure_future(read(consumer, 1))
            await until(slow.stopped.is_set, "somebody asks the registry")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            slow.go_on.set()
            (record,) = await read(consumer, 1)
            assert (record.offset, record.value) == (0, 6)

    run(story())


def test_the_blocking_consumer_asks_for_itself(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    topic = written(penstock_cluster, fake, 1)
    with blocking.Consumer(
        {"auto.offset.reset": "earliest"},
        bootstrap=penstock_cluster.bootstrap,
        group=fresh_group(),
        topics=[topic],
        value=avro(registry=fake.url),
    ) as consumer:
        record = consumer.poll(WAIT_SECONDS_MAX)
    assert record is not None and record.value == 6


# -- sending


def producer_of(cluster: ClusterLike, value: Any, **options: Any) -> Producer[Any, Any]:
    return Producer(
        options.pop("settings", {}), bootstrap=cluster.bootstrap, value=value, **options
    )


SENDING: dict[str, Callable[[Producer[Any, Any], str], Awaitable[Any]]] = {
    "send": lambda producer, topic: producer.send(topic, 6),
    "post": lambda producer, topic: producer.post(topic, 6),
    "batch": lambda producer, topic: producer.send_batch(topic, [6]),
}


@pytest.mark.parametrize("how", list(SENDING))
def test_the_loop_goes_on_while_a_producer_registers_its_schema(
    penstock_cluster: ClusterLike, slow: SlowRegistry, how: str
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def awaited(producer: Producer[Any, Any]) -> None:
        await SENDING[how](producer, topic)

    async def story() -> None:
        async with producer_of(penstock_cluster, avro(LONG, registry=slow.url)) as producer:
            await while_it_waits(slow, awaited(producer))
            await producer.send(topic, 6)

    run(story())
    assert values_of(penstock_cluster, topic) == [frame(1, SIX)] * 2
    assert len(slow.asked) == 1


def test_what_waits_for_a_schema_keeps_its_order_and_is_as_it_was_when_it_was_sent(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    async def story() -> None:
        serde = json_schema(schema, registry=slow.url)
        async with producer_of(penstock_cluster, serde) as producer:
            value = {"n": 0}
            deliveries = []
            for number in range(5):
                value["n"] = number
                deliveries.append(producer.send(topic, value))
            await until(slow.stopped.is_set, "somebody asks the registry")
            slow.go_on.set()
            for each in deliveries:
                await each

    run(story())
    assert values_of(penstock_cluster, topic) == [
        frame(1, b'{"n":%d}' % number) for number in range(5)
    ]
    assert len(slow.asked) == 1


def test_what_has_waited_for_a_schema_is_written_in_pieces(
    penstock_cluster: ClusterLike, slow: SlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, count = fresh_topic(penstock_cluster), 3 * WRITES_AT_ONCE
    pieces: list[int] = []
    refill = SendBacklog.refill

    def noted(backlog: SendBacklog, *arguments: Any) -> bool:
        before = len(backlog)
        more = refill(backlog, *arguments)
        pieces.append(before - len(backlog))
        return more

    monkeypatch.setattr(SendBacklog, "refill", noted)

    async def story() -> None:
        async with producer_of(penstock_cluster, avro(LONG, registry=slow.url)) as producer:
            for _ in range(count):
                producer.post(topic, 6)
            await until(slow.stopped.is_set, "somebody asks the registry")
            slow.go_on.set()
            await producer.flush()

    run(story())
    assert values_of(penstock_cluster, topic) == [frame(1, SIX)] * count
    assert max(pieces) == WRITES_AT_ONCE
    assert len(slow.asked) == 1


def test_what_waits_for_a_schema_when_its_transaction_is_aborted_is_in_no_other(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)
    settings = {"transactional.id": topic}

    async def story() -> None:
        serde = avro(LONG, registry=slow.url)
        async with producer_of(penstock_cluster, serde, settings=settings) as producer:
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    producer.post(topic, 7)
                    raise ZeroDivisionError
            slow.go_on.set()
            async with producer.transaction():
                producer.post(topic, 6)

    run(story())
    assert values_of(penstock_cluster, topic) == [frame(1, SIX)]


def test_what_waits_for_a_schema_takes_its_share_of_the_buffer(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def story() -> None:
        serde = avro('"string"', registry=slow.url)
        settings = {"buffer.memory": 1_000_000, "batch.size": 100_000}
        async with producer_of(penstock_cluster, serde, settings=settings) as producer:
            first = producer.send(topic, "x" * 600_000)
            with pytest.raises(BufferExhausted):
                await producer.send(topic, "x" * 600_000)
            slow.go_on.set()
            await first

    run(story())


def test_all_that_wait_for_a_schema_hear_that_the_registry_failed(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)
    fake.answer_with = lambda request: send(request, 500, b'{"message":"disk full"}')

    async def story() -> None:
        async with producer_of(penstock_cluster, avro(LONG, registry=fake.url)) as producer:
            first, second = producer.send(topic, 6), producer.send(topic, 6)
            for each in (first, second):
                with pytest.raises(SerializationError, match="disk full") as told:
                    await each
                assert told.value.retriable
            with pytest.raises(SerializationError, match="disk full"):
                await producer.send_batch(topic, [6])
            fake.answer_with = None
            await producer.send(topic, 6)

    run(story())
    assert values_of(penstock_cluster, topic) == [frame(1, SIX)]


def test_a_question_without_an_answer_is_the_failure_of_no_other(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    bad, good = fresh_topic(penstock_cluster), fresh_topic(penstock_cluster)
    answer = fake._answer
    fake._answer = lambda method, path, body: (  # type: ignore[method-assign]
        (409, {"message": "no"}) if bad in path else answer(method, path, body)
    )

    async def story() -> None:
        async with producer_of(penstock_cluster, avro(LONG, registry=fake.url)) as producer:
            first, second = producer.send(bad, 6), producer.send(good, 6)
            with pytest.raises(SerializationError, match="409") as told:
                await first
            assert not told.value.retriable
            await second

    run(story())
    assert values_of(penstock_cluster, good) == [frame(1, SIX)]


def test_a_value_that_does_not_fit_fails_alone_when_its_schema_is_known(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def story() -> None:
        async with producer_of(penstock_cluster, avro(LONG, registry=fake.url)) as producer:
            bad, good = producer.send(topic, "six"), producer.send(topic, 6)
            with pytest.raises(SerializationError):
                await bad
            await good

    run(story())
    assert values_of(penstock_cluster, topic) == [frame(1, SIX)]


def test_a_registry_that_is_silent_is_told_after_max_block_ms(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def story() -> None:
        settings = {"max.block.ms": 200}
        async with producer_of(
            penstock_cluster, avro(LONG, registry=slow.url), settings=settings
        ) as producer:
            with pytest.raises(TimedOut, match=r"heard nothing within max\.block\.ms"):
                await producer.send(topic, 6)
            with pytest.raises(TimedOut, match=r"heard nothing within 0\.2 s"):
                await producer.send_batch(topic, [6], timeout_s=0.2)

    run(story())


def test_a_flush_waits_for_what_waits_for_its_schema(
    penstock_cluster: ClusterLike, slow: SlowRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def story() -> None:
        async with producer_of(penstock_cluster, avro(LONG, registry=slow.url)) as producer:
            producer.post(topic, 6)
            await while_it_waits(slow, producer.flush())
            assert values_of(penstock_cluster, topic) == [frame(1, SIX)]

    run(story())


def test_interceptors_see_a_record_once_also_if_it_waits_for_its_schema(
    penstock_cluster: ClusterLike, fake: FakeRegistry
) -> None:
    topic = fresh_topic(penstock_cluster)

    class Counting(ProducerInterceptor):
        seen = 0

        def on_send(self, record: Outgoing[Any, Any]) -> Outgoing[Any, Any]:
            self.seen += 1
            return record

    counting = Counting()

    async def story() -> None:
        async with producer_of(
            penstock_cluster, avro(LONG, registry=fake.url), interceptors=[counting]
        ) as producer:
            await producer.send(topic, 6)
            other = fresh_topic(penstock_cluster)
            await producer.send_batch(other, [OutRecord(6, headers={"a": "b"}), 6])

    run(story())
    assert counting.seen == 3


# -- the twin for event loops


def test_what_one_twin_was_told_both_know(fake: FakeRegistry) -> None:
    registry = SchemaRegistry(fake.url)
    twin = registry.unwaiting()
    number = fake.add("t-value", LONG)
    with pytest.raises(NotToldYet) as missing:
        twin.by_id(number)
    assert fake.asked == []
    missing.value.ask()
    assert twin.by_id(number) == registry.by_id(number)
    assert len(fake.asked) == 1


def test_the_same_question_is_about_the_same(fake: FakeRegistry) -> None:
    twin = SchemaRegistry(fake.url).unwaiting()
    abouts = []
    for subject in ("a", "a", "b"):
        with pytest.raises(NotToldYet) as missing:
            twin.latest(subject)
        abouts.append(missing.value.about)
    assert abouts[0] == abouts[1] != abouts[2]


def test_references_are_asked_for_one_after_the_other(fake: FakeRegistry) -> None:
    fake.add("money", {"type": "fixed", "name": "Money", "size": 1})
    number = fake.add(
        "t-value",
        {"type": "record", "name": "Sale", "fields": [{"name": "price", "type": "Money"}]},
        references=[{"name": "Money", "subject": "money", "version": 1}],
    )
    twin = avro(registry=fake.url).unwaiting()

    async def story() -> Any:
        return await with_answers(lambda: twin.deserialize("t", frame(number, b"\x07"), ()))

    assert run(story()) == {"price": b"\x07"}
    assert len(fake.asked) == 2


def test_what_the_one_who_is_asked_raises_reaches_the_caller(fake: FakeRegistry) -> None:
    twin = avro(registry=fake.url).unwaiting()

    async def story() -> None:
        with pytest.raises(RegistryError, match="99"):
            await with_answers(lambda: twin.deserialize("t", frame(99, b""), ()))

    run(story())


def test_all_that_a_waiting_record_holds_takes_its_share_of_the_buffer() -> None:
    @dataclass(slots=True)
    class Slotted:
        large: bytes

    @dataclass
    class Local:
        large: bytes

    class Private:
        __slots__ = ("__large",)

        def __init__(self) -> None:
            self.__large = bytes(1_000_000)

    circle: list[Any] = [bytes(1_000_000)]
    circle.append(circle)
    for value, headers in [
        (Local(bytes(1_000_000)), ()),
        (Slotted(bytes(1_000_000)), ()),
        ({"a": [{"b": bytes(1_000_000)}]}, ()),
        (circle, ()),
        (Private(), ()),
        ([b"%0999d" % number for number in range(968)], ()),
        ({number: b"%099d" % number for number in range(5_900)}, ()),
        (1, (("trace", bytes(1_000_000)),)),
    ]:
        record = Outgoing("orders", value, b"key", None, headers, None)
        assert 0.9 < _guessed_bytes(record) / 1_000_000 < 1.4


def test_what_has_its_answer_does_not_expire_while_it_is_written_in_pieces() -> None:
    written: list[Any] = []
    backlog = SendBacklog(1_000_000, 1.0)
    record: Outgoing[Any, Any] = Outgoing("orders", 6, None, None, (), None)
    waiting = UnserializedRecord("orders", record, lambda: None, "a schema", 10)
    sender = mock.Mock()
    for _ in range(WRITES_AT_ONCE + 1):
        backlog.add(waiting, mock.Mock(), sender, 0.0)

    def refill() -> bool:
        return backlog.refill(
            99.0,  # long after their time
            lambda _: EncodedRecord("orders", b"6", None, 0, 0, None),
            lambda _: 0,
            lambda encoded, _: written.append(encoded),
        )

    assert refill() and not refill()
    assert len(written) == WRITES_AT_ONCE + 1 and not sender.fail.called
