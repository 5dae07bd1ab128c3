"""One connection: order, limits, and what a bad or slow peer costs."""

import pytest
from simulated_node import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Bench,
    FakePeer,
    api_versions,
    correlation_ids,
    fetch,
    produce,
    replies,
)

from penstock.broker.network.connection import REPLIES_WAITING_MAX, UNSENT_BYTES_MAX
from penstock.broker.network.listener import SLOW_PEER_MS_MAX


@pytest.fixture(scope="module")
def shared() -> Bench:
    bench = Bench({"socket.request.max.bytes": "100000"})
    bench.create_topic("t")
    return bench


def test_replies_leave_in_the_order_of_their_requests(shared: Bench) -> None:
    connection, peer = shared.connect()
    slow = shared.frame(FETCH, fetch("t", [0], wait_ms=200, offset=0))
    quick = shared.frame(API_VERSIONS, api_versions())
    shared.receive(connection, slow + quick)
    assert not peer.sent
    shared.settle(300)
    first, second = correlation_ids(peer)
    assert second == first + 1


def test_an_acknowledgement_waits_behind_an_earlier_long_poll() -> None:
    bench = Bench()
    bench.create_topic("other")
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("other", [0], wait_ms=5_000)))
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")))
    bench.settle(1_000)
    assert bench.broker.find("t", 0).log.end_offset == 1
    assert not peer.sent
    bench.settle(5_000)
    assert [type(each).__name__ for each in replies(peer, [FETCH, PRODUCE])] == [
        "FetchResponse",
        "ProduceResponse",
    ]


def test_two_frames_cut_at_any_byte_are_two_requests(shared: Bench) -> None:
    data = shared.frame(API_VERSIONS, api_versions()) + shared.frame(API_VERSIONS, api_versions())
    for cut in range(1, len(data)):
        connection, peer = shared.connect()
        shared.receive(connection, data[:cut])
        shared.receive(connection, data[cut:])
        assert len(replies(peer, [API_VERSIONS] * 2)) == 2, cut
        connection.closed()


def test_a_frame_that_comes_byte_by_byte_is_a_request(shared: Bench) -> None:
    connection, peer = shared.connect()
    for byte in shared.frame(API_VERSIONS, api_versions()):
        shared.receive(connection, bytes([byte]))
    assert len(replies(peer, [API_VERSIONS])) == 1


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, 100_001, 2**31 - 1])
@pytest.mark.parametrize("sent_bytes", [4, 12])
def test_a_frame_of_an_impossible_size_closes_the_connection(
    shared: Bench, size: int, sent_bytes: int
) -> None:
    connection, peer = shared.connect()
    shared.receive(connection, (size.to_bytes(4, signed=True) + bytes(12))[:sent_bytes])
    assert peer.closed
    assert not peer.sent


def test_an_unknown_api_key_closes_the_connection(shared: Bench) -> None:
    connection, peer = shared.connect()
    shared.receive(connection, (8).to_bytes(4) + (999).to_bytes(2) + bytes(6))
    assert peer.closed


def test_nothing_after_a_refused_frame_is_handled(shared: Bench) -> None:
    connection, peer = shared.connect()
    shared.receive(connection, b"\xff" * 12 + shared.frame(API_VERSIONS, api_versions()))
    shared.receive(connection, shared.frame(API_VERSIONS, api_versions()))
    assert peer.closed
    assert not peer.sent


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    bench = Bench()
    connection, peer = bench.connect(FakePeer(reads=False))
    request = bench.frame(API_VERSIONS, api_versions())
    while not peer.paused:
        assert peer.unsent_bytes <= UNSENT_BYTES_MAX
        bench.receive(connection, request * 100)
    peer.unsent_bytes = 0
    connection.sent()
    bench.settle(1)
    assert not peer.paused


def test_too_many_unanswered_requests_pause_the_connection() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=1_000)))
    bench.receive(connection, bench.frame(API_VERSIONS, api_versions()) * REPLIES_WAITING_MAX)
    assert peer.paused
    bench.settle(1_100)
    assert not peer.paused
    assert len(correlation_ids(peer)) == REPLIES_WAITING_MAX + 1


def test_an_idle_connection_is_closed() -> None:
    bench = Bench({"connections.max.idle.ms": "1000"})
    _connection, peer = bench.connect()
    bench.settle(900)
    assert not peer.closed
    bench.settle(500)
    assert peer.closed


def test_a_connection_that_waits_for_its_answer_is_not_idle() -> None:
    bench = Bench({"connections.max.idle.ms": "1000"})
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=3_000)))
    bench.settle(2_900)
    assert not peer.closed
    bench.settle(200)
    assert len(correlation_ids(peer)) == 1


def test_an_answer_is_something_that_happened_on_a_connection() -> None:
    bench = Bench({"connections.max.idle.ms": "1000"})
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=3_000)))
    bench.settle(3_600)  # idle for 600 ms since the answer
    assert len(correlation_ids(peer)) == 1
    assert not peer.closed


def test_connections_of_one_address_are_counted_apart_from_others() -> None:
    bench = Bench({"max.connections.per.ip": "1"})
    addresses = ["10.0.0.1", "10.0.0.1", "10.0.0.2"]
    peers = [bench.connect(FakePeer((host, 1)))[1] for host in addresses]
    assert [peer.closed for peer in peers] == [False, True, False]


def test_a_frame_that_takes_long_to_come_is_no_idleness() -> None:
    bench = Bench({"connections.max.idle.ms": "1000"})
    bench.create_topic("t")
    connection, peer = bench.connect()
    frame = bench.frame(PRODUCE, produce("t", bytes(100_000)))
    for start in range(0, len(frame), 20_000):
        bench.receive(connection, frame[start : start + 20_000])
        bench.settle(700)
        assert not peer.closed
    assert len(replies(peer, [PRODUCE])) == 1


def test_a_peer_that_reads_slowly_is_not_idle() -> None:
    bench = Bench({"connections.max.idle.ms": "1000"})
    connection, peer = bench.connect(FakePeer(reads=False))
    bench.receive(connection, bench.frame(API_VERSIONS, api_versions()))
    for _ in range(6):
        bench.settle(700)
        peer.unsent_bytes -= 10
        assert not peer.closed
    bench.settle(1_700)  # it has stopped reading
    assert peer.closed


def test_a_frame_that_never_ends_is_closed_after_a_time() -> None:
    bench = Bench({"connections.max.idle.ms": "-1"})
    connection, peer = bench.connect()
    frame = bench.frame(PRODUCE, produce("t", bytes(100_000)))
    bench.receive(connection, frame[:100])
    for position in range(100, 116):
        bench.receive(connection, frame[position : position + 1])
        assert not peer.closed
        bench.settle(SLOW_PEER_MS_MAX / 15)
    assert peer.closed


def test_an_answer_that_is_read_byte_by_byte_is_dropped_after_a_time() -> None:
    bench = Bench({"connections.max.idle.ms": "-1"})
    connection, peer = bench.connect(FakePeer(reads=False))
    bench.receive(connection, bench.frame(API_VERSIONS, api_versions()))
    for _ in range(16):
        assert not peer.closed
        peer.unsent_bytes -= 1
        bench.settle(SLOW_PEER_MS_MAX / 15)
    assert peer.closed


def test_a_peer_that_always_has_more_to_read_stays() -> None:
    bench = Bench({"connections.max.idle.ms": "-1"})
    connection, peer = bench.connect(FakePeer(reads=False))
    for _ in range(32):
        before = peer.unsent_bytes
        bench.receive(connection, bench.frame(API_VERSIONS, api_versions()))
        peer.unsent_bytes -= before
        assert peer.unsent_bytes > 0
        bench.settle(SLOW_PEER_MS_MAX / 15)
    assert not peer.closed
