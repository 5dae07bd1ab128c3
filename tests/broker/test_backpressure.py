"""Requests that wait for work off the loop: how many, how large, and who is read no further."""

from held_workers import HeldWorkers
from simulated_node import (
    API_VERSIONS,
    PRODUCE,
    Bench,
    FakePeer,
    api_versions,
    correlation_ids,
    produce_batch,
    replies,
)

from penstock.broker.network.connection import BrokerConnection
from penstock.wire.batch import Record, build_batch

NOW_MS = 1_750_000_000_000


def with_workers(settings: dict[str, str]) -> tuple[Bench, HeldWorkers]:
    bench = Bench(settings)
    bench.create_topic("t", 8, {"compression.type": "gzip"})
    return bench, HeldWorkers(bench)


def frame(bench: Bench, value: bytes, partition: int = 0) -> bytes:
    batch = build_batch([Record(0, NOW_MS, b"k", value)])
    return bench.frame(PRODUCE, produce_batch("t", batch, partition))


def visitors(bench: Bench, count: int) -> list[tuple[BrokerConnection, FakePeer]]:
    return [bench.connect(FakePeer(("10.0.0.1", 6_000 + n))) for n in range(count)]


def finish(bench: Bench, workers: HeldWorkers) -> None:
    while workers.tasks:
        workers.work()
        bench.settle(1)


def test_beyond_the_limit_on_requests_those_who_add_are_read_no_further() -> None:
    bench, workers = with_workers({"queued.max.requests": "3"})
    (first, heard_first), (second, heard_second), (third, heard_third) = visitors(bench, 3)
    bench.receive(first, b"".join(frame(bench, b"x") for _ in range(10)))
    assert heard_first.paused
    assert bench.broker.backpressure.requests == 3
    bench.receive(second, frame(bench, b"y"))
    assert heard_second.paused
    bench.receive(third, bench.frame(API_VERSIONS, api_versions()))
    assert heard_third.sent, "what need not wait is answered"
    finish(bench, workers)
    bench.settle()
    assert not heard_first.paused and not heard_second.paused
    assert len(correlation_ids(heard_first)) == 10
    assert len(replies(heard_second, [PRODUCE])) == 1


def test_a_limit_on_bytes_holds_for_small_requests_too() -> None:
    limit = 100_000
    settings = {
        "queued.max.request.bytes": str(limit),
        "socket.request.max.bytes": str(limit),
    }
    bench, workers = with_workers(settings)
    most = 0
    comers = visitors(bench, 20)
    for connection, _ in comers:
        bench.receive(connection, b"".join(frame(bench, bytes(9_000)) for _ in range(5)))
        most = max(most, bench.broker.frames.lent_bytes)
    assert most < limit + 20 * 10_000, "each may be over by the one request that met the limit"
    finish(bench, workers)
    bench.settle()
    assert all(len(correlation_ids(peer)) == 5 for _, peer in comers)
    assert bench.broker.frames.lent_bytes == 0


def test_nobody_starves() -> None:
    bench, workers = with_workers({"queued.max.requests": "2"})
    comers = visitors(bench, 10)
    for place, (connection, _) in enumerate(comers):
        bench.receive(connection, b"".join(frame(bench, b"x", place % 8) for _ in range(20)))
    answered: list[list[int]] = []
    while workers.tasks:
        workers.work()
        bench.settle(1)
        answered.append([len(correlation_ids(peer)) for _, peer in comers])
    assert answered[-1] == [20] * 10
    halfway = answered[len(answered) // 2]
    assert min(halfway) >= 5, halfway


def test_frames_under_way_do_not_hold_up_those_who_wait_for_no_one() -> None:
    limit = 100_000
    settings = {
        "queued.max.request.bytes": str(limit),
        "socket.request.max.bytes": str(limit),
    }
    bench, workers = with_workers(settings)
    [(connection, peer)] = visitors(bench, 1)
    bench.broker.frames.count(limit)  # by frames that will take long to arrive
    bench.receive(connection, frame(bench, b"x"))
    assert peer.paused
    finish(bench, workers)
    bench.settle()
    assert not peer.paused
    bench.broker.frames.count(-limit)


def test_a_connection_that_is_closed_while_it_is_held_holds_up_nobody() -> None:
    bench, workers = with_workers({"queued.max.requests": "1"})
    (first, heard_first), (second, heard_second) = visitors(bench, 2)
    bench.receive(first, frame(bench, b"x") + frame(bench, b"x"))
    bench.receive(second, frame(bench, b"y"))
    assert heard_first.paused and heard_second.paused
    first.closed()
    finish(bench, workers)
    bench.settle()
    assert len(correlation_ids(heard_second)) == 1
    assert not heard_second.paused
    assert bench.broker.backpressure.requests == 0
