"""A reader with an empty buffer polls librdkafka itself: conditions, limits, interruptions."""

import asyncio
import contextlib
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import TopicPartition as RdkafkaPartition
from consuming import WAIT_SECONDS_MAX, committed, consumer_of, filled_topic, fresh_group
from rdkafka_stand_in import A, B, Message, Rdkafka, engine_of

from penstock.client.consumer.assignment.resolved_config import Callbacks, _readers_poll
from penstock.client.consumer.engine import poll_ownership as wheel_module
from penstock.client.consumer.engine.engine import ConsumerEngine
from penstock.client.consumer.engine.shared_state import Waiter
from penstock.client.consumer.offsets.offset_tracker import OffsetTracker, PartitionKey
from penstock.client.failures import ClientError
from penstock.sync import Consumer as BlockingConsumer
from penstock.testing import Cluster

C: PartitionKey = ("orders", 2)


class Source(Rdkafka):
    """Gives what was prepared, one piece per call; something may happen before it does."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[list[Message]] = []
        self.before: Callable[[], None] | None = None
        self.asked: list[int] = []

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert timeout == 0, "a reader is not held up"
        self.asked.append(count)
        if self.before is not None:
            self.before()
        return self.pieces.pop(0) if self.pieces else []


def sourced(strategy: str = "range", **options: Any) -> tuple[ConsumerEngine, Source]:
    engine, _ = engine_of(strategy, **options)
    source = Source()
    engine.rdkafka = engine.partitions._rdkafka = source  # type: ignore[assignment]
    return engine, source


def read(engine: ConsumerEngine, count: int) -> list[tuple[PartitionKey, int]]:
    work = engine.shared.step(None, count, None)
    if work is None:
        return []
    engine.shared.finish(work)
    return [(each.at, each.number) for each in work.messages]


def test_a_reader_fetches_until_he_has_enough() -> None:
    engine, source = sourced()
    source.pieces = [[Message(A, 0)], [Message(B, 0), Message(A, 1)], [Message(A, 2)]]
    assert engine.poll_on_reader(3)
    assert read(engine, 9) == [(A, 0), (B, 0), (A, 1)]


def test_a_reader_who_finds_too_little_keeps_it_and_waits() -> None:
    engine, source = sourced()
    source.pieces = [[Message(A, 0)]]
    assert not engine.poll_on_reader(2)
    assert read(engine, 9) == [(A, 0)]


def test_a_reader_asks_for_what_a_poll_may_bring_and_not_for_one() -> None:
    engine, source = sourced()
    engine.poll_on_reader(1)
    assert source.asked == [engine.config.poll_records_max]


@pytest.mark.parametrize("why", ["work in hand", "an order", "a failure", "an end", "held"])
def test_a_reader_leaves_it_to_the_polling_thread_for(why: str) -> None:
    engine, source = sourced()
    source.pieces = [[Message(A, 9)]]
    match why:
        case "work in hand":
            engine._on_messages([Message(A, 0)])
            assert engine.shared.step(None, 1, None) is not None
        case "an order":
            engine.shared.submit(lambda: None)
        case "a failure":
            engine.shared.fail(ClientError("something"))
        case "an end":
            engine.shared.stop()
        case _:
            engine.partitions.hold()
    assert not engine.poll_on_reader(1)
    assert source.asked == []


@pytest.mark.parametrize(
    "options",
    [{"callbacks": Callbacks(revoked=lambda _: None)}, {"manual_finish": True}],
    ids=["callbacks", "manual finish"],
)
def test_no_reader_fetches_where_the_application_would_be_called(options: Any) -> None:
    engine, source = sourced(**options)
    assert not engine.poll_on_reader(1)
    assert source.asked == []


@pytest.mark.parametrize(
    ("settings", "fetch"),
    [
        ({}, True),
        ({"group.protocol": "consumer"}, False),
        ({"oauth_cb": lambda _: ("token", 0.0)}, False),
    ],
    ids=["classic", "newer protocol", "a callback of librdkafka's"],
)
def test_readers_fetch_where_nothing_that_is_reported_takes_time(
    settings: dict[str, Any], fetch: bool
) -> None:
    assert _readers_poll(settings, Callbacks(), manual_finish=False) is fetch


def test_who_has_an_order_wakes_the_polling_thread_that_stands_by() -> None:
    engine, _ = sourced()
    shared = engine.shared
    with ThreadPoolExecutor(1) as polling:
        standing = polling.submit(shared.rest, WAIT_SECONDS_MAX)
        while not shared._rests:
            assert not standing.done()
        began = time.monotonic()
        shared.submit(lambda: None)
        standing.result(WAIT_SECONDS_MAX)
        assert time.monotonic() - began < WAIT_SECONDS_MAX / 2


def test_a_reader_does_not_wait_while_the_polling_thread_fetches() -> None:
    engine, source = sourced()
    with engine.shared.ownership.lock, ThreadPoolExecutor(1) as reader:
        assert not reader.submit(engine.poll_on_reader, 1).result(WAIT_SECONDS_MAX)
    assert source.asked == []


def test_the_polling_thread_leaves_fetches_to_a_reader_who_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, source = sourced()
    now = [100.0]
    monkeypatch.setattr(
        "penstock.client.consumer.engine.poll_ownership.time.monotonic", lambda: now[0]
    )
    engine.poll_on_reader(1)
    source.asked.clear()
    engine._run_once()
    assert source.asked == []
    now[0] += wheel_module.READER_PATIENCE_S
    engine._run_once()
    assert source.asked != [], "he is busy: it fetches ahead"


def test_the_polling_thread_fetches_while_a_reader_still_has_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, source = sourced()
    now = [100.0]
    monkeypatch.setattr(
        "penstock.client.consumer.engine.poll_ownership.time.monotonic", lambda: now[0]
    )
    source.pieces = [[Message(A, number) for number in range(9)]]
    engine.poll_on_reader(1)
    source.asked.clear()
    for _ in range(6):  # nobody else would tell the group that he is there
        assert len(read(engine, 1)) == 1
        engine._run_once()
        now[0] += wheel_module.READER_PATIENCE_S / 2
    assert len(source.asked) == 1


def test_a_reader_fetches_nothing_from_a_consumer_that_was_closed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, source = sourced()
    take = engine.shared.ownership.take

    def late() -> bool:
        engine.shared.stop()
        return take()

    monkeypatch.setattr(engine.shared.ownership, "take", late)
    assert not engine.poll_on_reader(1)
    assert source.asked == []


def test_the_polling_thread_fetches_for_somebody_who_waits() -> None:
    engine, source = sourced()
    source.pieces = [[], [Message(A, 0)]]
    engine.poll_on_reader(1)
    woken: list[bool] = []
    assert not engine.shared.add_waiter(Waiter(1, lambda: woken.append(True)))
    engine._run_once()
    assert woken == [], "the polling thread still owns the poll"
    engine.shared.wake()
    assert woken == [True]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_that_come_in_a_readers_fetch_are_taken_over_by_the_polling_thread(
    strategy: str,
) -> None:
    engine, source = sourced(strategy)
    name = "assign" if strategy == "range" else "incremental_assign"
    source.before = lambda: engine._rebalancer.on_assign(
        engine.rdkafka, [RdkafkaPartition(*each) for each in (A, B, C)]
    )
    assert not engine.poll_on_reader(1)
    assert [each for each in source.told if "assign" in each[0]] == [(name, [])]
    source.before = None
    source.asked.clear()
    assert not engine.poll_on_reader(1) and source.asked == [], "nobody fetches before that"
    engine._run_once()
    assert [each for each in source.told if "assign" in each[0]][1:] == [
        (name, [(*each, -1001) for each in (A, B, C)])
    ]
    assert engine.shared.tracker.owns(C)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_that_come_and_go_in_one_fetch_of_a_reader_are_not_taken_over(
    strategy: str,
) -> None:
    engine, source = sourced(strategy)
    rebalancer, rdkafka = engine._rebalancer, engine.rdkafka

    def come_and_go() -> None:
        rebalancer.on_assign(rdkafka, [RdkafkaPartition(*C)])
        rebalancer.on_revoke(rdkafka, [RdkafkaPartition(*C)])

    source.before = come_and_go
    engine.poll_on_reader(1)
    source.before = None
    assert ("incremental_unassign", [(*C, -1001)]) not in source.told, "it never had it"
    source.told.clear()
    engine._run_once()
    assert not engine.shared.tracker.owns(C)
    assert [each for each in source.told if "assign" in each[0]] == []


def test_partitions_that_come_one_after_the_other_in_one_fetch_are_all_taken_over() -> None:
    engine, source = sourced("cooperative-sticky")
    more: PartitionKey = ("orders", 3)

    def come_twice() -> None:
        for each in (C, more):
            engine._rebalancer.on_assign(engine.rdkafka, [RdkafkaPartition(*each)])

    source.before = come_twice
    engine.poll_on_reader(1)
    source.before = None
    engine._run_once()
    assert engine.shared.tracker.owns(C) and engine.shared.tracker.owns(more)


def test_no_more_is_asked_for_at_once_than_the_binding_takes() -> None:
    engine, source = sourced()
    engine.shared.wanted_max = 10_000_000
    engine.poll_on_reader(5_000_000)
    engine._consume(5_000_000)
    assert source.asked == [1_000_000, 1_000_000]


def test_partitions_that_go_in_a_readers_fetch_are_gone_with_what_it_brought() -> None:
    engine, source = sourced("cooperative-sticky")
    source.before = lambda: engine._rebalancer.on_revoke(engine.rdkafka, [RdkafkaPartition(*A)])
    source.pieces = [[Message(A, 5), Message(B, 7)]]
    engine.poll_on_reader(1)
    assert read(engine, 9) == [(B, 7)]
    assert not engine.shared.tracker.owns(A)


def interrupt() -> None:
    raise KeyboardInterrupt


def lose_interrupt() -> None:
    raise SystemError("<method 'consume'> returned NULL without setting an exception")


@pytest.mark.parametrize("interrupt", [interrupt, lose_interrupt])
def test_what_an_interrupted_reader_fetched_is_fetched_again(interrupt: Callable[[], None]) -> None:
    engine, source = sourced()
    engine._on_messages([Message(A, 3), Message(B, 8), Message(B, 9)])
    assert read(engine, 2) == [(A, 3), (B, 8)]
    source.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        engine.poll_on_reader(2)
    engine.shared.serve_requests()
    assert source.told == [("assign", [(*A, 4), (*B, 9)])]
    assert engine.shared.tracker.unread == 0, "it comes again with the rest"


def test_a_reader_waits_while_nothing_is_handed_out() -> None:
    engine, source = sourced()
    source.pieces = [[Message(A, 0)]]
    assert engine.poll_on_reader(1)
    engine.shared.frozen = True
    assert not engine.poll_on_reader(1)


def test_whoever_was_to_be_woken_hears_of_a_failure() -> None:
    engine, _ = sourced()
    woken: list[bool] = []
    engine.shared.add_waiter(Waiter(1, lambda: woken.append(True)))
    engine._on_messages([Message(A, 0)])
    engine.shared.fail(ClientError("the turn has failed"), fatal=True)
    assert woken == [True]


# -- with a broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def test_a_loop_that_reads_on_fetches_in_its_own_thread(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled_topic(cluster, 5_000)
    fetched: dict[str, int] = {}
    arrived = ConsumerEngine._on_messages

    def noted(engine: ConsumerEngine, messages: list[Any]) -> None:
        name = threading.current_thread().name
        fetched[name] = fetched.get(name, 0) + len(messages)
        arrived(engine, messages)

    monkeypatch.setattr(ConsumerEngine, "_on_messages", noted)

    async def run() -> int:
        count = 0
        async with consumer_of(cluster, topic) as consumer:
            async for batch in consumer.batches(max=100, timeout_s=0.01):
                count += len(batch)
                if count >= 5_000:
                    return count
        raise AssertionError("the loop ends with the topic")

    assert asyncio.run(run()) == 5_000
    assert fetched.get("MainThread", 0) > 0


def test_offsets_are_committed_by_the_clock_while_a_reader_fetches(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 200), fresh_group()

    async def run() -> None:
        settings = {"auto.commit.interval.ms": 20}
        until = time.monotonic() + WAIT_SECONDS_MAX
        async with consumer_of(cluster, topic, group, settings=settings) as consumer:
            async for record in consumer:
                if record.offset < 100:
                    continue
                if await asyncio.to_thread(lambda: committed(cluster, group, topic)):
                    return
                assert time.monotonic() < until, "nothing was committed"

    asyncio.run(run())


def test_a_signals_handler_may_close_the_consumer_wherever_the_thread_was(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled_topic(cluster, 10)
    consumer = BlockingConsumer(
        {"auto.offset.reset": "earliest"},
        bootstrap=cluster.bootstrap,
        group=fresh_group(),
        topics=[topic],
    )
    next(iter(consumer))
    take = OffsetTracker.take

    def interrupted(tracker: OffsetTracker[Any], *arguments: Any) -> Any:
        consumer.close(timeout_s=0.2)  # as a handler would, with the lock held
        return take(tracker, *arguments)

    monkeypatch.setattr(OffsetTracker, "take", interrupted)
    until = time.monotonic() + WAIT_SECONDS_MAX
    with contextlib.suppress(ClientError):
        next(iter(consumer))
    assert time.monotonic() < until


class Interrupted(BaseException):
    """By a signal, anywhere."""


def by_batches(consumer: BlockingConsumer[bytes, bytes]) -> Iterator[list[bytes | None]]:
    for batch in consumer.batches(max=50, timeout_s=0.001):
        yield batch.values()


def by_records(consumer: BlockingConsumer[bytes, bytes]) -> Iterator[list[bytes | None]]:
    for record in consumer:
        yield [record.value]


# Python drops what a signal raises inside a callback of a weak reference, and says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", [by_batches, by_records])
@pytest.mark.parametrize("seed", range(2))
def test_signals_in_the_main_thread_lose_no_record(
    cluster: Cluster,
    seed: int,
    way: Callable[[BlockingConsumer[bytes, bytes]], Iterator[list[bytes | None]]],
) -> None:
    topic, group = filled_topic(cluster, 4_000), fresh_group()
    settings = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 10}
    seen: set[int] = set()
    armed = False

    def raise_it(*_: object) -> None:
        if armed:
            raise Interrupted

    def consumer() -> BlockingConsumer[bytes, bytes]:
        return BlockingConsumer(settings, bootstrap=cluster.bootstrap, group=group, topics=[topic])

    # Python drops an exception in a callback of the garbage collector; Hypothesis leaves one there.
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    before = signal.signal(signal.SIGALRM, raise_it)
    try:
        with consumer() as first:
            next(iter(first))  # assigned; the loop was left, so the record comes again
            for turn in range(40):
                # Again after a while: Python drops an exception in a finalizer.
                begin_s = 0.0005 * (1 + (turn * 7 + seed) % 11)
                armed = True
                signal.setitimer(signal.ITIMER_REAL, begin_s, 1.0)
                try:
                    for values in way(first):
                        seen.update(int(value or b"") for value in values)
                except Interrupted:
                    armed = False
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.callbacks.extend(callbacks)
    done = committed(cluster, group, topic) or 0
    assert set(range(done)) <= seen, "what was committed was read"
    with consumer() as second:
        while done < 4_000:
            (record,) = second.take(1, timeout_s=WAIT_SECONDS_MAX)
            seen.add(int(record.value or b""))
            done = record.offset + 1
    assert seen == set(range(4_000))
