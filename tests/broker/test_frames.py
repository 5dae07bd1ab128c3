"""Memory for frames under way: claimed, grown, bounded, given back."""

from broker_bench import API_VERSIONS, PRODUCE, Bench, api_versions, produce, replies

from penstock.broker.frames import FIRST_BYTES_MAX, POOLED_BYTES, FramePool

CLAIM = 100 * 1024 * 1024 - 1


def test_a_large_claim_costs_no_more_than_the_first_buffer() -> None:
    bench = Bench()
    connection, _peer = bench.connect()
    bench.receive(connection, CLAIM.to_bytes(4) + bytes(20))
    assert bench.broker.frames.lent_bytes <= FIRST_BYTES_MAX


def test_a_buffer_grows_with_the_bytes_that_come() -> None:
    bench = Bench()
    connection, _peer = bench.connect()
    bench.receive(connection, CLAIM.to_bytes(4) + bytes(20))
    for _ in range(10):
        bench.receive(connection, bytes(1024 * 1024))
    assert bench.broker.frames.lent_bytes <= 2 * 11 * 1024 * 1024


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
    assert bench.broker.frames.lent_bytes == POOLED_BYTES
    bench.receive(connection, request[1_000:])
    assert bench.broker.frames.lent_bytes == 0
    bench.settle()
    assert replies(peer, [PRODUCE])[0].responses[0].partition_responses[0].error_code == 0


def test_a_buffer_is_lent_again_only_after_the_turn() -> None:
    pool = FramePool()
    first = pool.borrow(1_000_000)
    pool.give_back(first)
    assert pool.borrow(1_000_000) is not first
    pool.turn_ended()
    assert pool.borrow(1_000_000) is first


def test_over_the_limit_of_the_node_new_frames_wait() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = 3 * POOLED_BYTES
    held = [bench.connect() for _ in range(3)]
    for connection, _peer in held:
        bench.receive(connection, (2_000_000).to_bytes(4) + bytes(8))
    assert [peer.paused for _, peer in held] == [False, False, True]
    held[0][0].closed()
    bench.turn(bench.broker.touch)
    assert not held[2][1].paused


def test_small_frames_pass_while_large_ones_wait() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = POOLED_BYTES
    connection, _ = bench.connect()
    bench.receive(connection, (2_000_000).to_bytes(4) + bytes(8))
    other, peer = bench.connect()
    bench.receive(other, bench.frame(API_VERSIONS, api_versions()))
    assert len(replies(peer, [API_VERSIONS])) == 1


def test_frames_that_fill_the_node_do_not_keep_each_other_from_ending() -> None:
    bench = Bench()
    bench.create_topic("t")
    bench.broker.frames._bytes_max = 2 * POOLED_BYTES
    request = bench.frame(PRODUCE, produce("t", b"x" * 500_000))
    held = [bench.connect() for _ in range(4)]
    for connection, _peer in held:
        bench.receive(connection, request[:1_000])
    for _ in held:
        for connection, peer in held:
            if not peer.paused and connection.room is not None:
                bench.receive(connection, request[1_000:])
    bench.settle()
    assert [len(replies(peer, [PRODUCE])) for _, peer in held] == [1, 1, 1, 1]


def test_a_frame_that_grows_over_the_limit_of_the_node_waits() -> None:
    bench = Bench()
    bench.broker.frames._bytes_max = 4 * POOLED_BYTES
    held = [bench.connect() for _ in range(2)]
    for connection, _peer in held:
        bench.receive(connection, CLAIM.to_bytes(4) + bytes(POOLED_BYTES))
    assert [peer.paused for _, peer in held] == [False, True]
    held[0][0].closed()
    bench.turn(bench.broker.touch)
    assert not held[1][1].paused
