"""A peer that does not read, whatever it sends ahead: what it costs, and that nothing is lost."""

import random

import pytest
from simulated_node import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Bench,
    FakePeer,
    api_versions,
    correlation_ids,
    fetch,
    metadata,
    produce,
)

from penstock.broker.handlers.k01_fetch import READ_BYTES_MAX
from penstock.broker.network.connection import UNANSWERED_MAX, UNSENT_BYTES_MAX, BrokerConnection
from penstock.broker.sliced_work import TURN_SLICES_MAX, Work
from penstock.world import FileRange

PARTITIONS = 32
RECORD_BYTES = 40_000  # small enough to be read into memory
ALL = range(PARTITIONS)


@pytest.fixture(scope="module")
def bench() -> Bench:
    made = Bench()
    made.create_topic("t", PARTITIONS)
    made.create_topic("empty")
    made.create_topic("wide", 1_000)
    writer, _ = made.connect()
    for partition in ALL:
        made.receive(writer, made.frame(PRODUCE, produce("t", bytes(RECORD_BYTES), partition)))
    made.settle()
    return made


def memory_bytes(connection: BrokerConnection) -> int:
    """Of answers that wait for their turn."""
    total = 0
    for (answer,) in connection.replies:
        for part in [answer] if isinstance(answer, bytes) else answer or ():
            total += 0 if isinstance(part, FileRange) else len(part)
    return total


def read_all(bench: Bench, connection: BrokerConnection, peer: FakePeer) -> int:
    """Read until nothing more comes; the most that was unsent meanwhile."""
    most = peer.unsent_bytes
    while peer.unsent_bytes:
        peer.unsent_bytes = 0
        connection.sent()
        bench.settle(10)
        most = max(most, peer.unsent_bytes)
    return most


@pytest.mark.parametrize(
    ("key", "message", "answer_bytes_max"),
    [
        (FETCH, fetch("t", ALL), PARTITIONS * (RECORD_BYTES + 200)),
        (METADATA, metadata("wide"), 100_000),
    ],
)
def test_requests_of_one_chunk_are_answered_only_as_far_as_the_peer_reads(
    bench: Bench, key: int, message: object, answer_bytes_max: int
) -> None:
    connection, peer = bench.connect(FakePeer(reads=False))
    frames = [bench.frame(key, message) for _ in range(200)]
    bench.receive(connection, b"".join(frames))
    assert peer.paused
    bench.settle(10)
    most = read_all(bench, connection, peer)
    assert most <= UNSENT_BYTES_MAX + answer_bytes_max
    ids = correlation_ids(peer)
    assert len(ids) == 200
    assert ids == sorted(ids)
    assert not peer.paused


def test_answers_that_wait_behind_a_long_poll_count_as_unsent(bench: Bench) -> None:
    connection, peer = bench.connect()
    poll = bench.frame(FETCH, fetch("empty", [0], wait_ms=1_000))
    frames = [bench.frame(FETCH, fetch("t", ALL)) for _ in range(200)]
    bench.receive(connection, poll + b"".join(frames))
    assert not peer.sent
    assert memory_bytes(connection) <= UNSENT_BYTES_MAX
    bench.settle(1_100)
    assert len(correlation_ids(peer)) == 201


def test_only_a_few_long_polls_of_one_connection_wait_at_a_time(bench: Bench) -> None:
    connection, peer = bench.connect()
    polls = [bench.frame(FETCH, fetch("empty", [0], wait_ms=100)) for _ in range(50)]
    bench.receive(connection, b"".join(polls))
    assert len(bench.broker.find("empty", 0).watchers) == UNANSWERED_MAX
    bench.settle(100 * 50)
    ids = correlation_ids(peer)
    assert ids == sorted(ids)
    assert len(ids) == 50


def test_one_answer_reads_no_more_into_memory_than_its_share(bench: Bench) -> None:
    connection, _peer = bench.connect()
    poll = bench.frame(FETCH, fetch("empty", [0], wait_ms=100))
    bench.receive(connection, poll + bench.frame(FETCH, fetch("t", ALL)))
    assert memory_bytes(connection) <= READ_BYTES_MAX + RECORD_BYTES + 10_000
    bench.settle(200)


def test_a_large_frame_behind_unread_answers_waits_too(bench: Bench) -> None:
    connection, peer = bench.connect(FakePeer(reads=False))
    many = b"".join(bench.frame(FETCH, fetch("t", ALL)) for _ in range(20))
    large = bench.frame(PRODUCE, produce("empty", bytes(500_000)))
    left = bench.receive(connection, many + large[:100_000])
    assert not left
    before = bench.broker.find("empty", 0).log.end_offset
    peer.reads = True
    read_all(bench, connection, peer)
    assert not peer.paused
    bench.receive(connection, large[100_000:])
    bench.settle()
    assert bench.broker.find("empty", 0).log.end_offset == before + 1
    assert len(correlation_ids(peer)) == 21


def test_a_connection_that_ends_while_its_requests_wait_leaves_nothing(bench: Bench) -> None:
    connection, peer = bench.connect(FakePeer(reads=False))
    many = b"".join(bench.frame(FETCH, fetch("t", ALL)) for _ in range(20))
    bench.receive(connection, many)
    sent = len(peer.sent)
    connection.closed()
    bench.settle()
    assert len(peer.sent) == sent
    assert connection not in bench.listener.connections


@pytest.mark.parametrize("seed", range(10))
def test_no_request_is_lost_or_answered_out_of_order(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    connection, peer = bench.connect(FakePeer(reads=False))
    stream = b""
    count = 150
    for _ in range(count):
        key, message = chance.choice(
            (
                (FETCH, fetch("t", range(chance.randint(1, PARTITIONS)))),
                (FETCH, fetch("empty", [0], wait_ms=chance.randint(0, 20), offset=0)),
                (METADATA, metadata("wide")),
                (API_VERSIONS, api_versions()),
                (PRODUCE, produce("empty", bytes(chance.choice((10, 1_000, 60_000))))),
            )
        )
        stream += bench.frame(key, message)
    while stream or connection.replies or peer.unsent_bytes or peer.paused:
        if stream and not peer.paused:
            size = chance.randint(1, 300_000)
            stream = bench.receive(connection, stream[:size]) + stream[size:]
        if chance.random() < 0.5:
            peer.unsent_bytes = 0
            connection.sent()
        bench.settle(chance.choice((0, 1, 10)))
    ids = correlation_ids(peer)
    assert len(ids) == count
    assert ids == sorted(ids)


def spend_turn(bench: Bench) -> None:
    """Use up the budget of the present turn."""

    def one_slice() -> Work:
        yield None

    for _ in range(TURN_SLICES_MAX):
        bench.broker.sliced_work.begin(one_slice())


def test_requests_that_come_together_wait_once_a_turn_has_done_enough(bench: Bench) -> None:
    crowd, crowd_peer = bench.connect()
    spend_turn(bench)
    bench.turn(lambda: crowd.received(memoryview(b"".join(versions(bench, 50)))))
    assert not crowd_peer.sent
    bench.settle(200)
    assert correlation_ids(crowd_peer) == sorted(correlation_ids(crowd_peer))
    assert len(correlation_ids(crowd_peer)) == 50


def test_a_frame_that_comes_in_parts_waits_once_a_turn_has_done_enough(bench: Bench) -> None:
    connection, peer = bench.connect()
    first, second, third = versions(bench, 3)
    bench.receive(connection, first[:20])
    spend_turn(bench)
    left = bench.receive(connection, first[20:] + second)
    assert not peer.sent
    bench.settle(200)
    assert not peer.paused
    bench.receive(connection, left + third)
    bench.settle(200)
    assert correlation_ids(peer) == sorted(correlation_ids(peer))
    assert len(correlation_ids(peer)) == 3


def test_a_peer_that_goes_while_its_frame_waits_for_a_turn_leaves_no_memory(bench: Bench) -> None:
    connection, _peer = bench.connect()
    before = bench.broker.frames.lent_bytes
    (frame,) = versions(bench, 1)
    bench.receive(connection, frame[:20])
    spend_turn(bench)
    bench.receive(connection, frame[20:])
    connection.closed()
    bench.settle(200)
    assert bench.broker.frames.lent_bytes == before


def test_produce_does_not_wait_for_other_requests(bench: Bench) -> None:
    writer, peer = bench.connect()
    spend_turn(bench)
    bench.receive(writer, bench.frame(PRODUCE, produce("t", b"v")))
    assert peer.sent


def versions(bench: Bench, count: int) -> list[bytes]:
    return [bench.frame(API_VERSIONS, api_versions()) for _ in range(count)]
