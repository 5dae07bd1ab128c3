"""Memory for frames under way: claimed, grown, bounded, given back."""

import pytest
from simulated_node import (
    API_VERSIONS,
    PRODUCE,
    Bench,
    FakePeer,
    api_versions,
    produce,
    replies,
)

from penstock.broker.background.background_tasks import MEMORY_MS
from penstock.broker.network.connection import BrokerConnection
from penstock.broker.network.frames import FIRST_BYTES, GROWTH, FramePool
from penstock.broker.network.listener import FRAME_MS_MAX

CLAIM = 100 * 1024 * 1024 - 1


def test_a_large_claim_costs_no_more_than_the_first_buffer() -> None:
    bench = Bench()
    connection, _peer = bench.connect()
    bench.receive(connection, CLAIM.to_bytes(4) + bytes(20))
    assert bench.broker.frames.lent_bytes <= FIRST_BYTES


def test_a_buffer_grows_with_the_bytes_that_come() -> None:
    bench = Bench()
    connection, _peer = bench.connect()
    bench.receive(connection, CLAIM.to_bytes(4) + bytes(20))
    for _ in range(10):
        bench.receive(connection, bytes(1024 * 1024))
    assert bench.broker.frames.lent_bytes <= GROWTH * 11 * 1024 * 1024


def test_a_connection_that_ends_within_a_frame_gives_its_buffer_back() -> None:
    bench = Bench()
    connection, _peer = bench.connect()
    bench.receive(connection, CLAIM.to_bytes(4) + bytes(20))
    connection.closed()
    assert bench.broker.frames.lent_bytes == 0


def test_a_buffer_goes_back_when_its_frame_was_handled() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    request = bench.frame(PRODUCE, produce("t", b"x" * 500_000))
    bench.receive(connection, request[:1_000])
    assert bench.broker.frames.lent_bytes == FIRST_BYTES
    bench.receive(connection, request[1_000:])
    assert bench.broker.frames.lent_bytes == 0
    bench.settle()
    assert replies(peer, [PRODUCE])[0].responses[0].partition_responses[0].error_code == 0


def test_a_buffer_is_lent_again_only_after_the_turn() -> None:
    pool = FramePool()
    first = pool.first(1_500_000, 1_000_000)
    pool.give_back("a", first)
    assert pool.first(1_500_000, 1_000_000) is not first
    pool.turn_ended()
    assert pool.first(1_500_000, 1_000_000) is first


def begin(bench: Bench, count: int, arrived: int) -> list[tuple[BrokerConnection, FakePeer]]:
    """So many connections, each with the beginning of a frame."""
    held = [bench.connect() for _ in range(count)]
    for connection, _peer in held:
        bench.receive(connection, CLAIM.to_bytes(4) + bytes(20))
        bench.receive(connection, bytes(arrived - 20))
    return held


def test_over_the_limit_of_the_node_frames_wait_but_one() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = FIRST_BYTES
    held = begin(bench, 4, FIRST_BYTES)
    assert [peer.paused for _, peer in held] == [False, True, True, True]


def test_a_frame_that_waited_goes_on_when_another_has_ended() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = FIRST_BYTES
    held = begin(bench, 3, FIRST_BYTES)
    held[0][0].closed()
    bench.turn(bench.broker.touch)
    assert [peer.paused for _, peer in held[1:]] == [False, True]


def test_what_waiting_frames_hold_stays_small() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = FIRST_BYTES
    begin(bench, 50, FIRST_BYTES)
    assert bench.broker.frames.lent_bytes <= 50 * FIRST_BYTES + GROWTH * FIRST_BYTES


def test_small_frames_pass_while_large_ones_wait() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = FIRST_BYTES
    begin(bench, 2, FIRST_BYTES)
    other, peer = bench.connect()
    bench.receive(other, bench.frame(API_VERSIONS, api_versions()))
    assert len(replies(peer, [API_VERSIONS])) == 1


def test_frames_that_fill_the_node_do_not_keep_each_other_from_ending() -> None:
    bench = Bench()
    bench.create_topic("t")
    bench.broker.frames._bytes_max = 2 * FIRST_BYTES
    request = bench.frame(PRODUCE, produce("t", b"x" * 500_000))
    held = [bench.connect() for _ in range(4)]
    left = {connection: request for connection, _ in held}
    for _ in range(1_000):
        for connection, peer in held:
            if left[connection] and not peer.paused:
                now, later = left[connection][:50_000], left[connection][50_000:]
                left[connection] = bench.receive(connection, now) + later
    bench.settle()
    assert [len(replies(peer, [PRODUCE])) for _, peer in held] == [1, 1, 1, 1]


@pytest.mark.parametrize("idle_ms", ["-1", "600000"])
def test_frames_that_never_end_keep_no_other_frame_waiting_for_ever(idle_ms: str) -> None:
    bench = Bench({"connections.max.idle.ms": idle_ms})
    bench.create_topic("t")
    bench.broker.frames._bytes_max = 2 * FIRST_BYTES
    endless = begin(bench, 3, FIRST_BYTES)
    connection, peer = bench.connect()
    request = bench.frame(PRODUCE, produce("t", b"x" * 100_000))
    assert not bench.receive(connection, request[:60_000])
    assert peer.paused
    for _ in range(40):
        for each, each_peer in endless:
            if not (each_peer.paused or each_peer.closed):
                bench.receive(each, b"x")
            if each_peer.closed and each in bench.listener.connections:
                bench.turn(each.closed)
        bench.settle(FRAME_MS_MAX / 5)
    bench.receive(connection, request[60_000:])
    bench.settle()
    assert len(replies(peer, [PRODUCE])) == 1


def test_a_slow_frame_stays_while_there_is_memory() -> None:
    bench = Bench()
    (slow,) = begin(bench, 1, 10 * FIRST_BYTES)
    bench.settle(3 * FRAME_MS_MAX)
    assert not slow[1].closed


def test_memory_goes_back_to_the_system_when_many_frames_have_ended() -> None:
    bench = Bench()
    connections = [bench.connect()[0] for _ in range(700)]
    for connection in connections:
        bench.receive(connection, CLAIM.to_bytes(4) + bytes(16_000))
    bench.settle(MEMORY_MS)
    assert bench.world.memory_releases == 0  # all of it is in use
    for connection in connections:
        connection.closed()
    bench.settle(MEMORY_MS)
    assert bench.world.memory_releases == 1
    bench.settle(2 * MEMORY_MS)
    assert bench.world.memory_releases == 1
